"""`mothtrap.KerasCallback`: watch a `fit` through its `callbacks` argument."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from mothtrap.session.watching import watch


def KerasCallback(name: str | None = None, **settings: Any) -> Any:  # noqa: N802
    """Return a Keras callback that watches the model during `fit`.

    Work that `fit` does before it starts its callbacks, such as converting its arrays, is not
    observed. Use `mothtrap run` or `mothtrap.watch` to observe it.

    Args:
        name: name of the run; by default the name of the script and the time.
        **settings: keys of the configuration file, as in `mothtrap.watch`.

    Raises:
        ModuleNotFoundError: Keras is not installed.
    """
    adapter = importlib.import_module("mothtrap.adapters.keras.callback")
    return adapter.FitCallback(functools.partial(watch, name=name, **settings))
