"""Files of joblib and pickle, which can run code: they are read only if the user trusts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mothtrap.core.errors import ConfigError
from mothtrap.core.wrapped_models import WrappedModel

FRAMEWORK = "joblib"
SUFFIXES = (".joblib", ".pkl", ".pickle")


def accepts(model: Any) -> bool:  # noqa: ARG001  # what is read is a model of another framework
    """Return False, because a pickle contains a model of another framework."""
    return False


def wrap(model: Any) -> WrappedModel:
    """Refuse the model; see `accepts`."""
    raise ConfigError(f"a {type(model).__qualname__} is not a model")


def load(path: Path) -> Any:
    """Refuse to run code; see `load_trusted`."""
    raise ConfigError(
        f"{path} is a pickle file, and loading it runs the code in it; add --trust-pickle if you "
        "trust the file, or pass a function that returns predictions: package.module:predict"
    )


def load_trusted(path: Path) -> Any:
    """Load a file that the user trusts."""
    import joblib

    return joblib.load(path)
