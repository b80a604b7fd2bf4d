"""Capture of inputs, activations and outputs of modules, and of the gradients of activations."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mothtrap.adapters.torch.job import checkpointing
from mothtrap.adapters.torch.job.naming import class_name, role, unwrapped, wrapped
from mothtrap.adapters.torch.job.nested import LEVELS, placed_tensors
from mothtrap.adapters.torch.job.readable import is_countable
from mothtrap.adapters.torch.job.uncompiled import uncompiled
from mothtrap.adapters.torch.layers.activity import SHARES, Activity
from mothtrap.capture.selection import ESSENTIAL
from mothtrap.capture.statistics_rows import OF_SEVERAL
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics import summary
from mothtrap.statistics.torch.dtypes import type_name
from mothtrap.statistics.torch.reducers import ReadAlready
from mothtrap.tracing.jobs.identity import ByIdentity

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

MAX_BACKWARDS = 16
"""Maximum number of backward passes through one output whose gradients are captured. More are not
training, but for instance a Jacobian computed row by row. Chosen by hand.
"""

STATISTICS = frozenset(summary.STATISTICS)
Ids = dict[tuple[str, str, int], int]
"""Tensor ids by kind, place and number of the call."""


class CallCapture:
    """Passes due data of module calls to the recorder.

    Attributes:
        takes_inputs: inputs are due in this step.
        takes_outputs: outputs of modules, or their gradients, are due.
        takes_values: only the values of outputs are due.
        takes_results: outputs of whole models are due.
        activity: inactive and saturated units.
        order: paths of modules in the order in which they first returned.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        recorder = job.recorder
        self._captures, self._due, self._notes = recorder.captures, recorder.due, recorder.notes
        self._tensors = recorder.tensors
        self._mode = Mode.TRAIN
        self._entered: dict[int, int] = {}
        self._left: dict[int, int] = {}
        self._ids: ByIdentity[nn.Module, Ids] = ByIdentity()
        self._found: ByIdentity[nn.Module, Ids] = ByIdentity()
        self._roots_seen = -1
        self._named: dict[tuple[str, str], weakref.ref[nn.Module]] = {}
        self._summarized: set[int] = set()
        self.activity = Activity(self._captures)
        self.order: dict[str, int] = {}
        self.new_step()

    def new_step(self) -> None:
        """Determine the captures of the step that begins."""
        in_training = self._due.kinds[Mode.TRAIN]
        due = in_training | self._due.kinds[Mode.EVAL]
        self.takes_inputs, self.takes_results = "input" in due, "output" in due
        self._takes_gradients = "activation_gradient" in in_training
        self._takes_activations = "activation" in due
        self.takes_outputs = self._takes_activations or self._takes_gradients
        self.takes_values = self._takes_activations and not self._takes_gradients

    def root_called(self, mode: Mode) -> None:
        """Handle the start of an outermost forward pass; `mode` is its apparent purpose."""
        self._mode = mode
        if mode is not Mode.TRAIN:  # each forward is a step of its mode
            self.new_step()
        self._entered.clear()
        self._left.clear()

    def entered(
        self, module: nn.Module, args: Iterable[Any], kwargs: Mapping[str, Any], outermost: bool
    ) -> None:
        """Capture a module's inputs before it can change them."""
        call = self._entered[id(module)] = self._entered.get(id(module), -1) + 1
        if not outermost and (wrapped(module) is not None or self._job.book.is_whole(module)):
            return  # a wrapper and the wrapped module have the same inputs
        given = {**{str(place): value for place, value in enumerate(args)}, **kwargs}
        self._take("input", module, given, call, levels=LEVELS + 1, of_root=outermost)

    def left(self, module: nn.Module, output: Any, before: nn.Module | None) -> None:
        """Capture a module's output; `before` is the previous layer."""
        call = self._left[id(module)] = self._left.get(id(module), -1) + 1
        if self._was_taken_inside(module):
            return
        for place, tensor in placed_tensors(output):
            if not is_countable(tensor):
                continue
            if self._takes_activations:
                tensor_id = self._activation(module, place, call, tensor, before)
                if tensor_id is not None:
                    self._captures.reduce("activation", [tensor_id], [tensor], self._mode)
            if self._takes_gradients and self._mode is Mode.TRAIN:
                self._take_gradient(module, place, call, tensor)

    def left_all(
        self,
        outputs: Sequence[tuple[nn.Module, torch.Tensor | None, bytes | None]],
        before: nn.Module | None,
    ) -> nn.Module | None:
        """Capture the activations of modules that each returned one tensor.

        Args:
            outputs: modules in order, and their outputs without a graph (None if they no longer
                exist). Also the output's row, if it was computed on return.
            before: the layer that ran before them.

        Returns:
            The layer that ran last.
        """
        ids, tensors = [], []
        read_ids, read, rows = [], [], {}
        for module, tensor, row in outputs:
            call = self._left[id(module)] = self._left.get(id(module), -1) + 1
            taken = self._was_taken_inside(module)
            if tensor is not None and not taken and (row is not None or is_countable(tensor)):
                tensor_id = self._activation(module, "", call, tensor, before)
                if tensor_id is not None and row is not None:
                    read_ids.append(tensor_id)
                    read.append(tensor)
                    rows[id(tensor)] = row
                elif tensor_id is not None:
                    ids.append(tensor_id)
                    tensors.append(tensor)
            if module._parameters:
                before = module
        self._captures.reduce("activation", ids, tensors, self._mode)
        self._captures.reduce("activation", read_ids, read, self._mode, reducer=ReadAlready(rows))
        return before

    def take_summarized(self) -> set[int]:
        """Return the identities of modules whose outputs were summarized since the last call."""
        found, self._summarized = self._summarized, set()
        return found

    def charge(self, cost_s: float) -> None:
        """Charge the cost of capturing activations."""
        self._captures.charge("activation", cost_s, self._mode)

    def returned(self, module: nn.Module, output: Any) -> None:
        """Capture the return value of a model."""
        self._take("output", module, output, 0, levels=LEVELS, of_root=True)

    def _was_taken_inside(self, module: nn.Module) -> bool:
        """Return whether a module wraps a module that has already returned the same output."""
        inner = wrapped(module) if module._modules else None
        return inner is not None and id(inner) in self._left

    def _take(
        self,
        kind: str,
        module: nn.Module,
        value: Any,
        call: int,
        *,
        levels: int,
        of_root: bool,
    ) -> None:
        ids, tensors = [], []
        for place, tensor in placed_tensors(value, levels=levels):
            if is_countable(tensor):
                tensor_id = self._tensor_id(kind, module, place, call, tensor, of_root=of_root)
                if self._due.statistics(tensor_id, self._mode):
                    ids.append(tensor_id)
                    tensors.append(tensor)
        self._captures.reduce(kind, ids, tensors, self._mode)

    def _activation(
        self,
        module: nn.Module,
        place: str,
        call: int,
        tensor: torch.Tensor,
        before: nn.Module | None,
    ) -> int | None:
        """Count inactive units if that is due; return the id of a tensor to reduce."""
        tensor_id = self._tensor_id("activation", module, place, call, tensor)
        wanted = self._due.statistics(tensor_id, self._mode)
        if (shares := wanted & SHARES) and self._mode is Mode.TRAIN:
            self.activity.look(tensor_id, tensor, unwrapped(module), before, shares)
        if _takes_rows(wanted):
            self._summarized.add(id(module))
        return tensor_id if wanted - SHARES else None

    def _take_gradient(
        self, module: nn.Module, place: str, call: int, tensor: torch.Tensor
    ) -> None:
        tensor_id = self._tensor_id("activation_gradient", module, place, call, tensor)
        if not self._due.statistics(tensor_id):
            return
        if tensor.requires_grad and tensor.is_leaf:
            return  # a parameter that a module returns; it would keep a hook for every forward
        if tensor.requires_grad:
            register: Any = tensor.register_hook
            register(_GradientHook(self._job, tensor_id))
        elif not torch.is_grad_enabled() and checkpointing.in_first_run():
            self._notes.blind(
                self._job.grouper.step,
                "gradients of activations inside checkpointed segments",
                "use_reentrant=True builds the graph only during the backward pass; "
                "use_reentrant=False makes them visible",
            )

    # Names

    def _tensor_id(
        self,
        kind: str,
        module: nn.Module,
        place: str,
        call: int,
        tensor: torch.Tensor,
        *,
        of_root: bool = False,
    ) -> int:
        ids = self._ids_of(module)
        key = (kind, place, call)
        if key not in ids:
            named = self._whole_of(module)
            ids[key] = self._tensors.define(
                self._describe(kind, named, place, call, tensor, of_root)
            )
        return ids[key]

    def _ids_of(self, module: nn.Module) -> Ids:
        """Return the ids of a module's inputs and outputs; a model and its wrapper share them."""
        book = self._job.book
        if book.roots_seen != self._roots_seen:  # models may be renamed or wrapped
            self._roots_seen = book.roots_seen
            self._found = ByIdentity()
        ids = self._found.get(module)
        if ids is None:
            named = self._whole_of(module)
            ids = self._ids.get(named)
            if ids is None:
                ids = self._ids[named] = {}
            if book.root_of(module) is not None:
                self._found[module] = ids
        return ids

    def _whole_of(self, module: nn.Module) -> nn.Module:
        """Return the module to which the name belongs.

        For a whole model this is the root, whether it was called through its wrapper or not.
        """
        book = self._job.book
        root = book.root_of(module)
        first = root.shells[0]() if root is not None and book.is_whole(module) else None
        return module if first is None else first

    def _describe(
        self,
        kind: str,
        module: nn.Module,
        place: str,
        call: int,
        tensor: torch.Tensor,
        of_root: bool,
    ) -> TensorInfo:
        book = self._job.book
        if book.root_of(module) is None:
            book.refresh()
        path = book.module_name(module)
        if kind == "activation":
            self.order.setdefault(path, len(self.order))
        module_type = class_name(module)
        name = path + (f".{place}" if place else "") + (f"#{call}" if call else "")
        return TensorInfo(
            kind=kind,
            name=self._distinct(kind, name, module),
            module=path,
            module_type=module_type,
            role=role(module_type) if kind == "activation" else "",
            shape=tuple(tensor.shape),
            dtype=type_name(tensor.dtype),
            location=book.location(module),
            of_root=of_root or (kind == "input" and book.is_whole(module)),
        )

    def _distinct(self, kind: str, name: str, module: nn.Module) -> str:
        """Return the name, with a number appended if another existing module has the same name.

        Modules outside of a model are named after their class, which may look like the path of a
        part.
        """
        number, free = 0, name
        while (owner := self._named.get((kind, free))) is not None and owner() is not None:
            number += 1
            free = f"{name}~{number}"
        self._named[kind, free] = weakref.ref(module)
        return free


@functools.cache
def _takes_rows(wanted: frozenset[str]) -> bool:
    """Return whether more statistics are needed than the cheapest inspection provides."""
    return not (wanted & STATISTICS) - OF_SEVERAL <= ESSENTIAL


@uncompiled
class _GradientHook:
    """Passes on the gradient of one output without changing it."""

    __torch_unserializable__ = True  # avoids a warning when the output is saved

    def __init__(self, job: Job, tensor_id: int) -> None:
        self._job, self._tensor_id, self._seen = job, tensor_id, 0

    def __call__(self, gradient: torch.Tensor) -> None:
        self._job.contain(self._job.contain_part, "activation gradients", self._take, gradient)

    def _take(self, gradient: torch.Tensor) -> None:
        # A backward pass with `create_graph` belongs to a penalty or an inner loop.
        if self._seen < MAX_BACKWARDS and not torch.is_grad_enabled() and is_countable(gradient):
            self._seen += 1
            self._job.recorder.captures.reduce("activation_gradient", [self._tensor_id], [gradient])
