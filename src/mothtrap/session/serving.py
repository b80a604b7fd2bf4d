"""`mothtrap.asserted`: check predictions while a model serves, and record failing predictions."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mothtrap.behavior.asserted import Asserted, OnFail
from mothtrap.behavior.assertion import Assertion
from mothtrap.core.config import is_disabled, load_config
from mothtrap.core.served import Served
from mothtrap.session.serve_record import KeptRecord, NoRecord


def asserted(
    predict: Callable[..., Any],
    assertions: Sequence[Assertion],
    *,
    on_fail: OnFail = "flag",
    fallback: Callable[[Any], Any] | None = None,
    keep_rows: int = 1000,
    sample_rows: int = 0,
    name: str | None = None,
    **settings: Any,
) -> Asserted:
    """Return a predict function that checks its predictions.

    The first call opens a run of kind `serve` for this process. It stores the number of failing
    predictions as findings, and a bounded sample of the failing rows. `mothtrap show`, the page,
    and configured actions read it while the model is serving. An error in a check, in a correction,
    or in mothtrap leaves the prediction unchanged.

    Args:
        predict: function that takes rows as its first argument, such as `model.predict`.
        assertions: made by `mothtrap.assertion` or `mothtrap.behavior.assertions`; checked in
            this order.
        on_fail: "flag" records failing predictions, "correct" also replaces them with the
            assertion's correction, "fallback" with the predictions of `fallback`, and "raise"
            raises an error.
        fallback: predicts the failing rows if `on_fail` is "fallback".
        keep_rows: number of failing rows to record for each assertion, at most 20 of a call. Later
            rows are recorded with decreasing probability, up to five times as many. 0 records none.
        sample_rows: number of rows to record of all calls, in the same way, for
            `mothtrap probe --new RUN`. By default none is recorded.
        name: name of the run; by default `serve-` and the time. Another process with the same
            name appends a number.
        **settings: keys of the configuration file, e.g. `runs_dir="runs"`.

    Returns:
        A function with the same arguments as `predict`.

    Raises:
        ConfigError: the arguments do not fit together, or a setting is wrong.
    """
    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides=settings)
    model = getattr(predict, "__qualname__", type(predict).__qualname__)
    if is_disabled(os.environ):
        return Asserted(predict, assertions, on_fail, fallback, NoRecord())
    served = Served(model=model, on_fail=on_fail)
    record = KeptRecord(served, assertions, config, name, keep_rows, sample_rows)
    return Asserted(predict, assertions, on_fail, fallback, record)
