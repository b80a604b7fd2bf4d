"""Effects of steps: changes of parameters, and the state of optimizers."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import torch
from torch.optim import Optimizer

from mothtrap.adapters.torch.job.distributed import local_shape
from mothtrap.adapters.torch.job.nested import placed_tensors
from mothtrap.adapters.torch.job.readable import is_plain, is_readable
from mothtrap.adapters.torch.optimization.optimizers import OptimizerObserver
from mothtrap.adapters.torch.optimization.parameter_list import parameters
from mothtrap.statistics import torch as arithmetic
from mothtrap.statistics.summary import COLUMN
from mothtrap.statistics.torch.dtypes import type_name
from mothtrap.tracing.jobs.identity import ByIdentity

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

RATIO = "update_ratio"
COPIED_ELEMENTS = 2**25
"""Maximum number of elements copied in a step for ratios alone: 128 MB in float32. If an optimizer
has more, the ratio of its large parameters is computed from a sample of elements.
"""


class UpdateObserver:
    """Copies parameters before a step if their change is due, and compares afterwards.

    If an optimizer steps inside the step of another one, its change is read when the outer step
    ends. The change of a parameter by an optimizer is read once per step.
    """

    def __init__(self, job: Job, optimizers: OptimizerObserver) -> None:
        self._job, self._optimizers = job, optimizers
        recorder = job.recorder
        self._captures, self._due, self._tensors = recorder.captures, recorder.due, recorder.tensors
        self._ids: ByIdentity[torch.Tensor, dict[tuple[str, str], int]] = ByIdentity()
        self._before: dict[int, torch.Tensor] = {}
        self._stepped: list[Optimizer] = []
        self._changes_read: set[int] = set()
        self._states_read: set[int] = set()
        self._strides: dict[int, int] = {}
        self._copying_s = 0.0

    def stepping(self, optimizer: Optimizer) -> None:
        """Store the parameters whose change is due."""
        due = self._due.is_due
        ratio_due = due("weight", statistic=RATIO) or due("bias", statistic=RATIO)
        if ratio_due or due("update"):
            began_s = time.perf_counter()
            most = _share_of_each(optimizer)
            for parameter in parameters(optimizer):
                number = id(parameter)
                known = number in self._before or number in self._changes_read
                if not known and is_readable(parameter) and self._wants_change(parameter):
                    if parameter.numel() > most and self._wants_ratio_alone(parameter):
                        self._strides[number] = -(-parameter.numel() // most)
                    self._before[number] = self._elements(parameter).clone()
            self._copying_s += time.perf_counter() - began_s

    def applied(self, optimizer: Optimizer) -> None:
        """Read the result of the step once no outer step is running."""
        due = self._due.is_due("optimizer_state")
        if not due and not self._before:
            return
        self._stepped.append(optimizer)
        if self._job.grouper.inside_step:
            return
        stepped, self._stepped = self._stepped, []
        for each in dict.fromkeys(stepped):
            self._read_changes(each)
            if due:
                self._read_state(each)

    def closed(self, _: int) -> None:
        """Discard the data of the step that closed."""
        self._before.clear()
        self._strides.clear()
        self._stepped.clear()
        self._changes_read.clear()
        self._states_read.clear()

    def _read_changes(self, optimizer: Optimizer) -> None:
        began_s = time.perf_counter()
        copied = {id(p): p for p in parameters(optimizer) if id(p) in self._before}
        owners = list(copied.values())
        changes = [self._before.pop(number) for number in copied]
        self._changes_read.update(copied)
        asking = [self._asking_for_ratio(p) for p in owners]
        due = [place for place, ids in enumerate(asking) if ids]
        sizes = _l2([changes[place] for place in due])
        with torch.no_grad():
            for change, parameter in zip(changes, owners, strict=True):
                change.neg_().add_(self._elements(parameter))  # in the memory of the copy
        moved = _l2([changes[place] for place in due])
        cost_s = self._copying_s + time.perf_counter() - began_s
        self._copying_s = 0.0
        for place, size, change_l2 in zip(due, sizes, moved, strict=True):
            for asked in asking[place]:
                self._captures.add_row(asked, {RATIO: _ratio(change_l2, size)}, cost_s)
                cost_s = 0.0  # charged once, to the first
        ids = [self._tensor_id(parameter, "update") for parameter in owners]
        self._captures.reduce("update", ids, changes)

    def _read_state(self, optimizer: Optimizer) -> None:
        ids, tensors = [], []
        for parameter in parameters(optimizer):
            if id(parameter) in self._states_read or parameter not in optimizer.state:
                continue
            self._states_read.add(id(parameter))
            for place, value in placed_tensors(dict(optimizer.state[parameter])):
                if is_readable(value):
                    ids.append(self._tensor_id(parameter, "optimizer_state", place, value))
                    tensors.append(value)
        self._captures.reduce("optimizer_state", ids, tensors)

    def _wants_change(self, parameter: torch.Tensor) -> bool:
        if self._job.book.parameter_name(parameter) is None:
            return True  # its name may become known in a forward inside the step, by a closure
        wanted = self._due.statistics(self._tensor_id(parameter, "update"))
        return bool(wanted or self._asking_for_ratio(parameter))

    def _wants_ratio_alone(self, parameter: torch.Tensor) -> bool:
        """Return whether only the ratio of a parameter is due, so that a sample of it is enough."""
        if self._job.book.parameter_name(parameter) is None or not is_plain(parameter):
            return False
        update = self._due.statistics(self._tensor_id(parameter, "update"))
        return not update and parameter.is_contiguous()

    def _elements(self, parameter: torch.Tensor) -> torch.Tensor:
        """Return the compared values: all, or an even sample of a large parameter."""
        stride = self._strides.get(id(parameter))
        values = parameter.detach()
        return values if stride is None else values.view(-1)[::stride]

    def _asking_for_ratio(self, parameter: torch.Tensor) -> list[int]:
        """Return the ids of the tensors whose rows give the ratio: the parameter and its update."""
        own = self._optimizers.parameter_id(parameter), self._tensor_id(parameter, "update")
        return [i for i in own if RATIO in self._due.statistics(i)]

    def _tensor_id(
        self,
        parameter: torch.Tensor,
        kind: str,
        place: str = "",
        value: torch.Tensor | None = None,
    ) -> int:
        ids = self._ids.get(parameter)
        if ids is None:
            ids = self._ids[parameter] = {}
        if (kind, place) not in ids:
            info = self._optimizers.describe(parameter, kind)
            if value is not None:
                alike = local_shape(value) == info.shape
                info = msgspec.structs.replace(
                    info,
                    name=f"{info.name}.{place}",
                    shape=local_shape(value),
                    dtype=type_name(value.dtype),
                    scope=info.scope if alike else "",
                    global_shape=info.global_shape if alike else (),
                    held_before=info.held_before and alike,
                )
            ids[kind, place] = self._tensors.define(info)
        return ids[kind, place]


def _share_of_each(optimizer: Optimizer) -> int:
    """Return the maximum number of elements of each parameter that may be copied."""
    sizes = [parameter.numel() for parameter in parameters(optimizer)]
    if sum(sizes) <= COPIED_ELEMENTS:
        return COPIED_ELEMENTS
    return max(1, COPIED_ELEMENTS // len(sizes))


def _l2(tensors: Sequence[torch.Tensor]) -> list[float]:
    return [float(size) for size in arithmetic.norms(tensors)[:, COLUMN["l2"]]]


def _ratio(change: float, size: float) -> float:
    """Return change over size; infinite where the size is zero and the change is not."""
    if size == 0:
        return math.inf if change else 0.0
    return change / size
