"""Marks code of mothtrap that `torch.compile` must not compile.

While compiled user code runs, Dynamo, the part of PyTorch that reads byte code, intercepts every
Python frame and turns it into graphs. It would do so with mothtrap's code too, which would then
never read its clocks or count its steps again. There are two kinds of marks. The first is for
wrappers of PyTorch functions: only the frame of the wrapper is skipped, so the function is compiled
as it would be without mothtrap. The second is for all other code, which is skipped with its calls.

The marks are private API (2.7 and later), covered by a test. They have no effect if Dynamo follows
a call out of the user's code. There mothtrap's code checks `torch.compiler.is_compiling`, and does
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

import torch

CallableT = TypeVar("CallableT", bound=Callable[..., Any])
_frames: Any = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)


def uncompiled(target: CallableT) -> CallableT:
    """Exclude a function, or the methods of a class, and all their callees from Dynamo."""
    functions = vars(target).values() if isinstance(target, type) else (target,)
    for function in functions:
        if isinstance(function, FunctionType):
            _mark(function, all_that_it_calls=True)
    return target


def frame_uncompiled(function: CallableT) -> CallableT:
    """Exclude a function from Dynamo, but not its callees."""
    _mark(function, all_that_it_calls=False)
    return function


def breaks_graphs(function: CallableT) -> CallableT:
    """Let a function run even if Dynamo follows a call to it, with a graph break."""
    marked: Any = uncompiled(function)
    marked._torchdynamo_disable = True
    marked._torchdynamo_disable_msg = "mothtrap sees the steps of optimizers"
    return function


def _mark(function: Any, *, all_that_it_calls: bool) -> None:
    mark = getattr(_frames, "set_code_exec_strategy", None)
    if mark is not None:
        action = _frames._FrameAction
        inside = action.SKIP if all_that_it_calls else action.DEFAULT
        mark(function.__code__, _frames._FrameExecStrategy(action.SKIP, inside))
