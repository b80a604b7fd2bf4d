"""The straight way of a module's call, where nobody wants more than to have its output.

Only an installation with a C compiler has it; without it every call is observed, as calls
are anyway in the steps in which something is captured of them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from mothtrap.adapters.torch.forward._passage import Passage

make_passage: type[Passage] | None
try:
    from mothtrap.adapters.torch.forward._passage import Passage as make_passage  # noqa: N813
except ImportError:
    make_passage = None

Passed = list[tuple["weakref.ref[nn.Module]", "torch.Tensor | weakref.ref[torch.Tensor]"]]
"""Modules and their outputs, in order of completion."""


class StraightWay:
    """Lets the calls of a model's parts go to PyTorch, and hands on what they returned.

    Args:
        hand_on: takes outputs, late, with their values still alive.
        odd: takes at once a module and its output where that is no plain tensor.
    """

    def __init__(
        self, hand_on: Callable[[Passed], None], odd: Callable[[nn.Module, Any], None]
    ) -> None:
        self._hand_on, self._tell_odd = hand_on, odd
        self._passage: Passage | None = None
        self._is_open = False

    def before(
        self, original: Callable[..., Any], observed: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Return a function that calls one of two as a method of a module.

        Args:
            original: called while the way is open.
            observed: called while it is closed.
        """
        if make_passage is None:
            return observed
        # Private; a test pins it. Not None while functions are transformed: values are no values.
        transforms = torch._C._functorch.peek_interpreter_stack
        self._passage = make_passage(
            original, observed, self._odd, torch.Tensor, torch.strided, transforms
        )
        return self._passage

    def open(self, *, keeps: bool, room: int) -> None:
        """Let the calls of this thread pass, until `close`.

        Args:
            keeps: outputs are handed on.
            room: bytes of their values that may be kept alive until then.
        """
        if self._passage is not None:
            self._is_open = True
            self._passage.begin(keeps, room)

    def close(self) -> None:
        """Observe every call again."""
        if self._is_open and self._passage is not None:
            self._is_open = False
            self._hand_on(self._passage.end())

    def _odd(self, module: nn.Module, output: Any) -> None:
        if self._passage is not None and not torch.compiler.is_compiling():
            self._hand_on(self._passage.take())
            self._tell_odd(module, output)
