"""Functions of mothtrap that a warning skips when it looks for the line to blame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

FILENAME: Final = "<mothtrap, like importlib._bootstrap>"
"""`warnings.warn(..., stacklevel=2)` counts no frame of a file with these two words in its
name: the import system's. So what PyTorch warns of is told, and filtered, with the line of
the user that it has without us (Lib/warnings.py, `_is_internal_frame`; a test pins it)."""


FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def unseen(function: FunctionT) -> FunctionT:
    """Attribute warnings inside a function to its caller."""
    plain: Any = function
    plain.__code__ = plain.__code__.replace(co_filename=FILENAME)
    return function
