"""What the forwards of modules tell: roots, modes, activations, the latest outputs."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mothtrap.adapters.torch import frames
from mothtrap.adapters.torch.activity import Activity
from mothtrap.adapters.torch.held import HeldOutputs
from mothtrap.adapters.torch.identity import ByIdentity
from mothtrap.adapters.torch.naming import Root, role
from mothtrap.adapters.torch.readable import is_plain, is_readable
from mothtrap.capture.grouper import RootCalled
from mothtrap.core.records import Scalar
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.tensors import TensorInfo

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job import Job
    from mothtrap.adapters.torch.optimizers import OptimizerWatch


TensorIds = dict[tuple[int, int], int | None]
"""By place in the output and number of the call; None when nothing is captured of it."""


class ForwardWatch:
    """Called before and after every module's forward, at any depth.

    Attributes:
        held: outputs of the latest train forward.
        recomputes: a module ran inside a backward: checkpointing is in use.
        order: paths of modules in the order in which they first returned.
    """

    def __init__(self, job: Job, optimizers: OptimizerWatch) -> None:
        self._job, self._optimizers = job, optimizers
        self._recorder = job.recorder
        self._thread = threading.get_ident()
        self._running: list[int] = []
        self._calls: dict[int, int] = {}
        self._ids: ByIdentity[nn.Module, TensorIds] = ByIdentity()
        self._rootless: ByIdentity[nn.Module, bool] = ByIdentity()
        self._in_root = False
        self._before_it: weakref.ref[nn.Module] | None = None
        self._last_output: weakref.ref[torch.Tensor] | None = None
        self._loss_output: tuple[weakref.ref[torch.Tensor], str | None] | None = None
        self._eval_steps = 0
        self.activity = Activity(self._recorder)
        self.held = HeldOutputs()
        self.recomputes = False
        self.order: dict[str, int] = {}
        self.captures = False
        self.new_step()

    def new_step(self) -> None:
        """Look up what is due in the step that begins."""
        recorder = self._recorder
        self.captures = recorder.is_due("activation") or recorder.is_due("activation", Mode.EVAL)

    def bind_thread(self) -> None:
        """Watch the forwards of the calling thread (where the optimizer steps)."""
        self._thread = threading.get_ident()

    def hooks(
        self,
    ) -> tuple[Callable[[nn.Module, Any], None], Callable[[nn.Module, Any, Any], None]]:
        """`entered` and `left` as module hooks; under compilation they vanish."""
        # Bound here: a global looked up in a hook would become a guard of compiled code.
        is_compiling = torch.compiler.is_compiling

        def before(module: nn.Module, args: Any) -> None:
            if not is_compiling():
                self.entered(module, args)

        def after(module: nn.Module, _: Any, output: Any) -> None:
            if not is_compiling() and self._is_observed():
                self.left(module, output)

        return before, after

    def entered(self, module: nn.Module, args: Any) -> bool:
        """A forward begins; whether it is observed, so that its end is to be told."""
        if not self._is_observed():
            return False
        if id(module) in self._running:  # interrupted: its end was never seen
            while self._running.pop() != id(module):
                pass
        if not self._running:
            self._job.contain(self._root_called, module, args)
        self._running.append(id(module))
        return True

    def left(self, module: nn.Module, output: Any) -> None:
        """A forward returned; None while its exception is on its way."""
        if id(module) in self._running:
            while self._running.pop() != id(module):
                pass
            if output is not None or sys.exc_info()[1] is None:
                self._job.contain(self._returned, module, output)

    def _is_observed(self) -> bool:
        if not self._job.live or threading.get_ident() != self._thread:
            return False
        if torch._C._current_graph_task_id() != -1:  # private; a test pins it
            self.recomputes = True
            return False
        return torch._C._get_tracing_state() is None

    def _returned(self, module: nn.Module, output: Any) -> None:
        tensors = [output] if isinstance(output, torch.Tensor) else list(_flat(output, levels=2))
        single = tensors[0] if len(tensors) == 1 else None
        if single is None or not self._is_handed_on(module, single):
            if torch.is_grad_enabled():
                for tensor in tensors:
                    self.held.add(module, tensor)
            if self.captures and self._in_root:
                self._job.contain_part("activations", self._capture, module, tensors)
        if single is not None:
            self._last_output = weakref.ref(single)
        if module._parameters:
            self._before_it = weakref.ref(module)
        if not self._running:
            self._root_returned(module, tensors)

    def _root_called(self, module: nn.Module, args: Any) -> None:
        self._in_root = False
        if module in self._rootless:
            return
        root = self._job.book.root_of(module) or self._new_root(module)
        if root is None:
            self._rootless[module] = True
            return
        self._in_root = True
        self._recorder.begin_forward()
        owned = self._optimizers.owns_root(root)
        if owned:
            self._optimizers.distributed.root_called(module, root)
        self._job.feed(RootCalled(root.label, owned))
        self.held.root_called(args)
        self._calls.clear()
        self._before_it = None

    def _new_root(self, module: nn.Module) -> Root | None:
        if next(module.parameters(), None) is None:
            return None
        root = self._job.book.add_root(self._job.book.top(module))
        if root is not None and type(module).__name__ == "OptimizedModule":
            self._recorder.blind(
                self._job.grouper.step,
                f"activations inside {root.label}",
                "compiled by torch.compile: only its inputs, outputs, parameters and gradients"
                " are visible",
            )
        return root

    def _root_returned(self, module: nn.Module, tensors: Sequence[torch.Tensor]) -> None:
        trains = any(t.requires_grad for t in tensors)
        step = self._job.grouper.step
        if not self._in_root:
            if _is_loss(module) and len(tensors) == 1 and tensors[0].numel() == 1:
                self._loss_returned(tensors[0], trains)
            return
        if trains or (not tensors and torch.is_grad_enabled()):
            self._recorder.commit_forward(StepKey(step=step, mode_step=step))
            return
        self._eval_steps += 1
        self._recorder.commit_forward(
            StepKey(step=step, mode=Mode.EVAL, mode_step=self._eval_steps - 1)
        )

    def _loss_returned(self, value: torch.Tensor, trains: bool) -> None:
        place = frames.location(frames.user_frame())
        if trains:
            self._loss_output = (weakref.ref(value), place)
        elif is_readable(value):
            key = StepKey(
                step=self._job.grouper.step,
                mode=Mode.EVAL,
                mode_step=max(0, self._eval_steps - 1),
            )
            self._recorder.evaluation(key, [Scalar("loss", place or "", float(value))])

    def loss_location(self, root: torch.Tensor) -> str | None:
        """Where the loss module was called whose output is the root of a backward."""
        if self._loss_output is not None and self._loss_output[0]() is root:
            return self._loss_output[1]
        return None

    def _capture(self, module: nn.Module, tensors: Sequence[torch.Tensor]) -> None:
        mode = Mode.TRAIN if torch.is_grad_enabled() else Mode.EVAL
        call = self._calls[id(module)] = self._calls.get(id(module), -1) + 1
        for index, tensor in enumerate(tensors):
            if not is_plain(tensor):
                continue
            tensor_id = self._tensor_id(module, index if len(tensors) > 1 else -1, call, tensor)
            if tensor_id is None:
                continue
            wanted = self._recorder.statistics(tensor_id, mode)
            if "inactive" in wanted and mode is Mode.TRAIN:
                previous = self._before_it() if self._before_it is not None else None
                self.activity.look(tensor_id, tensor, previous)
            if wanted - {"inactive"}:
                self._recorder.reduce("activation", [tensor_id], [tensor])

    def _is_handed_on(self, module: nn.Module, tensor: torch.Tensor) -> bool:
        """Whether a container merely returns what its last child returned."""
        last = self._last_output
        return last is not None and last() is tensor and bool(module._modules)

    def _tensor_id(
        self, module: nn.Module, index: int, call: int, tensor: torch.Tensor
    ) -> int | None:
        ids = self._ids.get(module)
        if ids is None:
            ids = self._ids[module] = {}
        key = (index, call)
        if key in ids:
            return ids[key]
        book = self._job.book
        if book.root_of(module) is None:
            book.refresh()
        path = book.module_name(module)
        self.order.setdefault(path, len(self.order))
        module_type = type(module).__name__
        info = TensorInfo(
            kind="activation",
            name=path + (f".{index}" if index >= 0 else "") + (f"#{call}" if call else ""),
            module=path,
            module_type=module_type,
            role=role(module_type),
            shape=tuple(tensor.shape),
            dtype=str(tensor.dtype).removeprefix("torch."),
            location=book.location(module),
        )
        ids[key] = self._recorder.define(info)
        return ids[key]


def _flat(output: Any, levels: int) -> Iterator[torch.Tensor]:
    """Tensors of an output in order; containers so many levels deep."""
    if isinstance(output, torch.Tensor):
        yield output
    elif levels and isinstance(output, tuple | list | dict):
        for part in output.values() if isinstance(output, dict) else output:
            yield from _flat(part, levels - 1)


def _is_loss(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.loss._Loss) or type(module).__name__.endswith("Loss")
