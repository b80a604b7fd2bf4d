"""Functions of mothtrap that warnings skip when they determine the responsible line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

FILENAME: Final = "<mothtrap, like importlib._bootstrap>"
"""`warnings.warn(..., stacklevel=2)` does not count frames of files whose name contains these two
words, which belong to the import system. So a PyTorch warning is reported and filtered with the
same user line as without mothtrap (Lib/warnings.py, `_is_internal_frame`; covered by a test).
"""


FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def unseen(function: FunctionT) -> FunctionT:
    """Attribute warnings inside a function to its caller."""
    plain: Any = function
    plain.__code__ = plain.__code__.replace(co_filename=FILENAME)
    return function
