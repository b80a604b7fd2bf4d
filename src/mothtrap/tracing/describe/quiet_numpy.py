"""Keep NumPy warnings about training values from reaching the script."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")


def quiet(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function whose arithmetic may overflow or meet NaN.

    Otherwise, numpy would warn in the script's output, or raise an exception if the script has
    called `numpy.seterr(all="raise")`.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return call
