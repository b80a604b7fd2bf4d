"""`mothtrap.KerasCallback`: a `fit` that is watched by an entry in `callbacks`."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from mothtrap.session.watching import watch


def KerasCallback(name: str | None = None, **settings: Any) -> Any:  # noqa: N802
    """Return a callback of Keras that watches the model of a `fit` while it runs.

    What `fit` does before its callbacks begin, such as taking in its arrays, is not seen; under
    `mothtrap run` and with `mothtrap.watch` it is.

    Args:
        name: of the run; None = chosen.
        settings: as of `mothtrap.watch`.
    """
    adapter = importlib.import_module("mothtrap.adapters.keras.callback")
    return adapter.FitCallback(functools.partial(watch, name=name, **settings))
