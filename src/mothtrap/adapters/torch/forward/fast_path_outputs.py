"""Module outputs that are only noted on return, and inspected together later."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mothtrap.adapters.torch.forward.calls import CallCapture
from mothtrap.adapters.torch.forward.fast_path import fast_path
from mothtrap.adapters.torch.forward.rewritten_outputs import BATCH_BYTES, RewrittenOutputs
from mothtrap.adapters.torch.job.retained_outputs import Noted, RetainedOutputs
from mothtrap.adapters.torch.job.uncompiled import uncompiled
from mothtrap.tracing.jobs.identity import OwnRef

if TYPE_CHECKING:
    from mothtrap.adapters.torch.forward._passage import Passage
    from mothtrap.adapters.torch.job.job import Job


@uncompiled
class FastPathOutputs:
    """Fast path for calls of which only outputs, or their values, are needed.

    It is active only in forward passes that are not inspected. Without the compiled part there is
    no fast path, and every output is handled when it is returned.

    Args:
        calls: receives activations.
        held: keeps outputs until it is known whether the step failed.
        returned: called with a module and its output, if it cannot be noted.

    Attributes:
        fast_path: object that the calls pass through, or None.
        last_output: the last reported or noted output, if it is still alive.
        rewritten: the modules whose outputs are changed in place.
        before_it: the latest module with parameters that returned before.
    """

    def __init__(
        self,
        job: Job,
        calls: CallCapture,
        retained: RetainedOutputs,
        returned: Callable[[nn.Module, Any], None],
    ) -> None:
        self._job, self._calls, self._retained = job, calls, retained
        self._returned = returned
        self.rewritten = RewrittenOutputs()
        self._trains = self._collects = False
        self._pending: Noted = []
        self.fast_path: Passage | None = None
        self.last_output: weakref.ref[torch.Tensor] | None = None
        self.before_it: weakref.ref[nn.Module] | None = None

    def build(self) -> Passage | None:
        """Create the fast path; None if it is unavailable."""
        self.fast_path = fast_path(self._returned_late)
        return self.fast_path

    def root_called(self, root: nn.Module, *, trains: bool, looked_into: bool) -> None:
        """Handle the start of a forward pass; `looked_into`: more than output values is needed."""
        self._trains, self._collects, self._pending = trains, False, []
        self.before_it = None
        if self.rewritten.learning is not None:
            self.rewritten.root_called()
        if self.fast_path is None or looked_into:
            return
        if not self._calls.takes_outputs:
            self.fast_path.open(root, trains, self._retained.room, self.last_output)
        elif self._calls.takes_values and self.rewritten.knows(root):
            self._collects = True
            at_once, looked_at = self.rewritten.modules, self._calls.take_summarized()
            self.fast_path.open(root, True, self._room, self.last_output, at_once, looked_at)
        elif self._calls.takes_values:
            self.rewritten.learn(root)

    def noticed(self, module: nn.Module, output: torch.Tensor | None) -> None:
        """Handle the return of an observed module, with its output if it is one tensor."""
        if output is not None:
            if self.rewritten.learning is not None:
                self.rewritten.returned(module, output)
            self.last_output = OwnRef(output)
        if module._parameters:
            self.before_it = weakref.ref(module)

    def is_handed_on(self, module: nn.Module, tensor: torch.Tensor) -> bool:
        """Return whether a container only returns its last child's output."""
        last = self.last_output
        return bool(module._modules) and last is not None and last() is tensor

    def close(self) -> None:
        """Close the fast path, and process its pending data."""
        if self.fast_path is not None and (noted := self.fast_path.close()):
            self._look(noted)
            self.last_output = noted[-1][1]

    @property
    def _room(self) -> int:
        return BATCH_BYTES if self._collects else self._retained.room

    def _returned_late(self, module: nn.Module, output: Any) -> None:
        """Handle a late return on the fast path, or an output that cannot be recorded."""
        if self.fast_path is None or torch.compiler.is_compiling():
            return
        if noted := self.fast_path.take():
            self._job.contain(self._look, noted)
            self.last_output = noted[-1][1]
        self._job.contain(self._returned, module, output)
        self.fast_path.room, self.fast_path.last = self._room, self.last_output

    def _look(self, noted: Noted) -> None:
        if self.fast_path is not None and self.fast_path.spent_s:
            self._charge(self.fast_path)
        if self._trains:
            self._retained.extend(noted)
        if self._collects:
            self._pending += noted
            # Inside a transformed function, no values can be read; this private function is covered
            # by a test.
            if torch._C._functorch.peek_interpreter_stack() is None:
                pending, self._pending = self._pending, []
                self._job.contain_part("activations", self._take_values, pending)

    def _charge(self, path: Passage) -> None:
        """Charge the cost of inspections made while the modules returned."""
        spent_s, path.spent_s = path.spent_s, 0.0
        self._job.recorder.times.own_s += spent_s
        self._calls.charge(spent_s)

    def _take_values(self, noted: Noted) -> None:
        outputs = self.rewritten.intact(noted)
        before = self.before_it() if self.before_it is not None else None
        before = self._calls.left_all(outputs, before)
        self.before_it = weakref.ref(before) if before is not None else None
        for module in (module for module, values, _ in outputs if values is None):
            what = f"one activation of {self._job.book.module_name(module)}"
            reason = "it was overwritten in place; later ones are read as soon as they are returned"
            self._job.recorder.notes.blind(self._job.grouper.step, what, reason)
