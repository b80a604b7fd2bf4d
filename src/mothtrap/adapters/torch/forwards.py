"""What the forwards of modules tell: roots, modes, activations, the latest outputs."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mothtrap.adapters.torch import frames
from mothtrap.adapters.torch.activity import Activity
from mothtrap.adapters.torch.naming import Root, role
from mothtrap.adapters.torch.readable import is_plain, is_readable
from mothtrap.capture.grouper import RootCalled
from mothtrap.core.records import Scalar
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.tensors import TensorInfo

if TYPE_CHECKING:
    from mothtrap.adapters.torch.tracer import Tracer

HELD_BYTES = 64 * 2**20
"""Outputs held by a strong reference until the next forward; beyond it, weak ones.

A strong reference can keep an output alive that autograd would have let go; chosen by
hand so that nobody notices it.
"""

Held = tuple[nn.Module, torch.Tensor | weakref.ref[torch.Tensor]]


class ForwardWatch:
    """Called before and after every module's forward, at any depth.

    Attributes:
        outputs: modules and outputs of the latest train forward, in order of completion.
        root_inputs: tensors that the latest root was called with.
        recomputes: a module ran inside a backward: checkpointing is in use.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._recorder = tracer.recorder
        self._thread = threading.get_ident()
        self._depth = 0
        self._held_bytes = 0
        self._calls: dict[int, int] = {}
        self._ids: dict[tuple[int, int, int], tuple[weakref.ref[nn.Module], int | None]] = {}
        self._rootless: dict[int, weakref.ref[nn.Module]] = {}
        self._previous: nn.Module | None = None
        self._last_output: weakref.ref[torch.Tensor] | None = None
        self._loss_output: tuple[weakref.ref[torch.Tensor], str | None] | None = None
        self._eval_steps = 0
        self._backward_since = False
        self.activity = Activity(self._recorder)
        self.outputs: list[Held] = []
        self.root_inputs: tuple[Any, ...] = ()
        self.recomputes = False
        self.order: dict[str, int] = {}
        self.captures = False
        self.new_step()

    def new_step(self) -> None:
        """Look up what is due in the step that begins."""
        recorder = self._recorder
        self.captures = recorder.is_due("activation") or recorder.is_due("activation", Mode.EVAL)

    def after_backward(self) -> None:
        """The latest outputs are needed until the next root forward, not longer."""
        self._backward_since = True
        self._depth = 0

    def bind_thread(self) -> None:
        """Watch the forwards of the calling thread (where the optimizer steps)."""
        self._thread = threading.get_ident()

    def hooks(
        self,
    ) -> tuple[Callable[[nn.Module, Any], None], Callable[[nn.Module, Any, Any], None]]:
        """The two functions to be installed; under compilation they vanish."""
        # Bound here: a global looked up in a hook would become a guard of compiled code.
        is_compiling = torch.compiler.is_compiling

        def before(module: nn.Module, args: Any) -> None:
            if not is_compiling():
                self._before(module, args)

        def after(module: nn.Module, _: Any, output: Any) -> None:
            if not is_compiling():
                self._after(module, output)

        return before, after

    def _is_observed(self) -> bool:
        if not self._tracer.live or threading.get_ident() != self._thread:
            return False
        if torch._C._current_graph_task_id() != -1:  # private; a test pins it
            self.recomputes = True
            return False
        return torch._C._get_tracing_state() is None

    def _before(self, module: nn.Module, args: Any) -> None:
        if not self._is_observed():
            return
        if self._depth == 0:
            self._tracer.contain(self._root_called, module, args)
        self._depth += 1

    def _after(self, module: nn.Module, output: Any) -> None:
        if not self._is_observed() or self._depth == 0:
            return
        self._depth -= 1
        began = time.perf_counter()
        if torch.is_grad_enabled():
            self._hold(module, output)
        self._recorder.own_s += time.perf_counter() - began
        if self.captures:
            self._tracer.contain_part("activations", self._capture, module, output)
        self._previous = module
        if self._depth == 0:
            self._tracer.contain(self._root_returned, module, output)

    def _root_called(self, module: nn.Module, args: Any) -> None:
        book = self._tracer.book
        if self._is_rootless(module):
            return
        root = book.root_of(module) or self._new_root(module)
        if root is None:
            self._rootless[id(module)] = weakref.ref(module)
            return
        owned = self._tracer.optimizers.owns_root(root)
        self._tracer.feed(RootCalled(root.label, owned))
        if self._backward_since or not torch.is_grad_enabled():
            self.outputs.clear()
            self._held_bytes = 0
            self._backward_since = False
        self.root_inputs = tuple(args) if torch.is_grad_enabled() else ()
        self._calls.clear()
        self._previous = None

    def _new_root(self, module: nn.Module) -> Root | None:
        root = self._tracer.book.add_root(self._tracer.book.top(module))
        if root is not None and type(module).__name__ == "OptimizedModule":
            self._recorder.blind(
                self._tracer.grouper.step,
                f"activations inside {root.label}",
                "compiled by torch.compile: only its inputs, outputs, parameters and gradients"
                " are visible",
            )
        return root

    def _is_rootless(self, module: nn.Module) -> bool:
        known = self._rootless.get(id(module))
        return known is not None and known() is module

    def _root_returned(self, module: nn.Module, output: Any) -> None:
        tensors = list(_tensors(output))
        trains = any(t.requires_grad for _, t in tensors)
        step = self._tracer.grouper.step
        if self._is_rootless(module):
            if _is_loss(module) and len(tensors) == 1 and tensors[0][1].numel() == 1:
                self._loss_returned(tensors[0][1], trains)
            return
        if trains:
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
                step=self._tracer.grouper.step,
                mode=Mode.EVAL,
                mode_step=max(0, self._eval_steps - 1),
            )
            self._recorder.evaluation(key, [Scalar("loss", place or "", float(value))])

    def loss_location(self, root: torch.Tensor) -> str | None:
        """Where the loss module was called whose output is the root of a backward."""
        if self._loss_output is not None and self._loss_output[0]() is root:
            return self._loss_output[1]
        return None

    def _hold(self, module: nn.Module, output: Any) -> None:
        for _, tensor in _tensors(output):
            if self.outputs and self.outputs[-1][1] is tensor and module._modules:
                continue
            size = tensor.numel() * tensor.element_size()
            if self._held_bytes + size <= HELD_BYTES:
                self._held_bytes += size
                self.outputs.append((module, tensor))
            else:
                self.outputs.append((module, weakref.ref(tensor)))

    def _capture(self, module: nn.Module, output: Any) -> None:
        began = time.perf_counter()
        mode = Mode.TRAIN if torch.is_grad_enabled() else Mode.EVAL
        call = self._calls[id(module)] = self._calls.get(id(module), -1) + 1
        tensors = [(i, t) for i, t in _tensors(output) if is_plain(t)]
        if len(tensors) == 1 and self._is_handed_on(module, tensors[0][1]):
            return
        for index, tensor in tensors:
            tensor_id = self._tensor_id(module, index if len(tensors) > 1 else -1, call, tensor)
            if tensor_id is None:
                continue
            wanted = self._recorder.statistics(tensor_id, mode)
            if "inactive" in wanted and mode is Mode.TRAIN:
                self.activity.look(tensor_id, tensor, self._previous)
            if wanted - {"inactive"}:
                self._recorder.reduce("activation", [tensor_id], [tensor])
        if len(tensors) == 1:
            self._last_output = weakref.ref(tensors[0][1])
        self._recorder.own_s += time.perf_counter() - began

    def _is_handed_on(self, module: nn.Module, tensor: torch.Tensor) -> bool:
        """Whether a container merely returns what its last child returned."""
        last = self._last_output
        return last is not None and last() is tensor and bool(module._modules)

    def _tensor_id(
        self, module: nn.Module, index: int, call: int, tensor: torch.Tensor
    ) -> int | None:
        key = (id(module), index, call)
        known = self._ids.get(key)
        if known is not None and known[0]() is module:
            return known[1]
        book = self._tracer.book
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
        tensor_id = self._recorder.define(info)
        self._ids[key] = (weakref.ref(module), tensor_id)
        return tensor_id


def _tensors(output: Any) -> Iterator[tuple[int, torch.Tensor]]:
    """Tensors of an output with their position; nested containers one level deep."""
    if isinstance(output, torch.Tensor):
        yield 0, output
    elif isinstance(output, tuple | list):
        yield from ((i, t) for i, t in enumerate(output) if isinstance(t, torch.Tensor))
    elif isinstance(output, dict):
        yield from ((i, t) for i, t in enumerate(output.values()) if isinstance(t, torch.Tensor))


def _is_loss(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.loss._Loss) or type(module).__name__.endswith("Loss")
