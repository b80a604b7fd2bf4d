"""Find the predict function of a model that a user names: an object, a file, or a function."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mothtrap.adapters._models import pickled
from mothtrap.adapters._models import sklearn as of_sklearn
from mothtrap.adapters._models import torch as of_torch
from mothtrap.core import registry
from mothtrap.core.error_texts import in_one_line
from mothtrap.core.errors import ConfigError
from mothtrap.core.wrapped_models import ModelWrapper, WrappedModel

PACKAGE = "mothtrap.adapters._models"
LAST = "sklearn"
"""Wrapper that accepts any object like an estimator; the other wrappers are tried first."""


def wrapped(model: Any) -> WrappedModel:
    """Wrap a model of a known framework, or any function, as a `WrappedModel`.

    Raises:
        ConfigError: it is neither a model nor a function.
    """
    if isinstance(model, WrappedModel):
        return model
    for wrapper in _wrappers():
        if (wrapper.FRAMEWORK in sys.modules or _is_last(wrapper)) and wrapper.accepts(model):
            return wrapper.wrap(model)
    if callable(model):
        return WrappedModel(predict=model)
    raise ConfigError(
        f"cannot probe a {type(model).__qualname__}; pass a function that takes rows and returns "
        "predictions"
    )


def from_words(
    model: str | None,
    *,
    build: str | None = None,
    weights: str | None = None,
    trust_pickle: bool = False,
) -> WrappedModel:
    """Load the model named on a command line.

    Args:
        model: a file, or `package.module:function`; None if `build` is given.
        build: `package.module:function` that returns a PyTorch module.
        weights: safetensors file with the module's weights.
        trust_pickle: whether a pickle, or a skops file with types that skops does not trust, may be
            read, which can run the code in it.

    Raises:
        ConfigError: there is no model, or it is not safe to read.
    """
    if build is not None:
        made = function(build)()
        return wrapped(made if weights is None else of_torch.with_weights(made, Path(weights)))
    if model is None:
        raise ConfigError("pass a model: a file, package.module:predict, or --build")
    path = Path(model)
    if not path.suffix or (":" in model and not path.exists()):
        return wrapped(function(model))
    if not path.is_file():
        raise ConfigError(f"there is no file {model}")
    if path.suffix in pickled.SUFFIXES and trust_pickle:
        return wrapped(pickled.load_trusted(path))
    if path.suffix in of_sklearn.SUFFIXES and trust_pickle:
        return wrapped(of_sklearn.load(path, trusted=True))
    for wrapper in _wrappers():
        if path.suffix in wrapper.SUFFIXES:
            return wrapped(wrapper.load(path))
    known = sorted(suffix for wrapper in _wrappers() for suffix in wrapper.SUFFIXES)
    raise ConfigError(
        f"{model}: cannot read a model from a file that ends in {path.suffix!r}; supported are "
        f"{', '.join(known)}, or pass a function: package.module:predict"
    )


def function(words: str) -> Callable[..., Any]:
    """Import the function `package.module:function`, also from the working folder.

    Raises:
        ConfigError: there is no such module or function.
    """
    module, colon, name = words.partition(":")
    if not (module and colon and name):
        raise ConfigError(
            f"{words!r} is not the name of a function; expected package.module:function"
        )
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as err:  # the user's module may raise anything
        raise ConfigError(f"cannot import {words}: {in_one_line(err)}") from err
    if not callable(found) and not hasattr(found, "predict"):
        raise ConfigError(f"{words} is a {type(found).__qualname__}, not a function or a model")
    made: Callable[..., Any] = found
    return made


def _wrappers() -> list[ModelWrapper]:
    parts = [part.load() for part in registry.parts(PACKAGE)]
    return sorted(parts, key=lambda each: each.FRAMEWORK == LAST)


def _is_last(wrapper: ModelWrapper) -> bool:
    return wrapper.FRAMEWORK == LAST
