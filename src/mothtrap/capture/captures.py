"""Statistics rows and copies of the tensors of the step in progress."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from mothtrap.capture.arena import Arenas
from mothtrap.capture.due import COPIES
from mothtrap.capture.forward_captures import ForwardCaptures, Purpose
from mothtrap.capture.gradient_look import GradientLooks
from mothtrap.capture.notes import Notes
from mothtrap.capture.outlet import Outlet
from mothtrap.capture.plan import Plan
from mothtrap.capture.raw import StepCopies
from mothtrap.capture.selection import SHAPE
from mothtrap.capture.statistics_rows import Reducer
from mothtrap.capture.step_exponents import StepExponents
from mothtrap.capture.step_rows import Collected, StepRows
from mothtrap.capture.step_times import StepTimes
from mothtrap.capture.tensor_registry import Tensors
from mothtrap.core import kinds
from mothtrap.core.records import RawBlock
from mothtrap.core.steps import Mode, StepKey
from mothtrap.statistics.distribution import EXPONENTS
from mothtrap.statistics.summary import STATISTICS

_FORWARD_KINDS = kinds.made_by("forward")
"""Kinds captured in a forward, whose mode is known only when the root returns."""
_STATISTICS = frozenset(STATISTICS)
_IN_PLACE = _STATISTICS | {EXPONENTS, SHAPE}
"""Statistics that are computed in place; all others need a copy of the tensor."""
ArrayT = TypeVar("ArrayT", contravariant=True)


class Captures(Generic[ArrayT]):
    """Captures the data of each tensor that is due.

    Attributes:
        cost_s: time of captures in seconds; the rest of mothtrap's time is the fixed cost.
        reducer: the arithmetic of the framework.
        rows: rows of the step in progress; adapters set their `device`, if there is one.
        gradients: result of the check of the gradients reduced in this step.
        copies: copies of values, of the step in progress.
        forward: captures of the forward pass that is running, or has just returned.
        holds: whether copies exist that may belong to the next step.
        has_raw: whether `take_raw` may return data.

    Args:
        rows: rows of the same reducer.
        arenas: memory for copies.
        raw_wait_s: time to wait for memory if none is free.
        plan: determines what is due.
        tensors: all defined tensors.
        notes: records changed shapes.
        times: times of steps, and of forwards.
        outlet: receives forward passes of evaluations, which are separate records.
    """

    def __init__(
        self,
        rows: StepRows[ArrayT],
        arenas: Arenas,
        *,
        raw_wait_s: float,
        plan: Plan,
        tensors: Tensors,
        notes: Notes,
        times: StepTimes,
        outlet: Outlet,
    ) -> None:
        self.cost_s = 0.0
        self.reducer, self.rows, self._arenas = rows.reducer, rows, arenas
        self.gradients = GradientLooks()
        self.holds = self.has_raw = False
        self._plan, self._due, self._tensors = plan, plan.due, tensors
        self._notes, self._times, self._outlet = notes, times, outlet
        self.copies = StepCopies(rows.reducer, arenas, wait_s=raw_wait_s)
        self._exponents = StepExponents(tensors, times.clock)
        self.forward = ForwardCaptures(rows, self.copies, self._exponents)

    def reduce(
        self,
        kind: str,
        ids: Sequence[int],
        tensors: Sequence[ArrayT],
        mode: Mode | None = None,
        *,
        reducer: Reducer[ArrayT] | None = None,
    ) -> None:
        """Reduce or copy the tensors of one kind that are due.

        Args:
            kind: kind of all tensors; tensors of a forward, or of an evaluation, wait for
                `commit_forward`.
            ids: ids of the tensors.
            tensors: the tensors, which are read immediately and not kept.
            mode: None = train, or the mode of the forward pass once it is known.
            reducer: module for these tensors, if not the framework's own.
        """
        if not ids or (self.rows.device is not None and self.rows.device.is_capturing()):
            return
        began = self._times.clock()
        waits = kind in _FORWARD_KINDS or mode is Mode.EVAL
        self.forward.is_any = self.forward.is_any or waits
        asked = mode or (None if waits else Mode.TRAIN)
        arithmetic, apart_s = reducer or self.reducer, 0.0
        for wanted, places in self._due.groups(ids, asked):
            numbers, chosen = ids, tensors
            if len(places) < len(ids):
                numbers, chosen = [ids[p] for p in places], [tensors[p] for p in places]
            self.has_raw = self.has_raw or not wanted <= _STATISTICS
            if copies := wanted - _IN_PLACE:
                apart_s += self._copy(arithmetic, kind, asked, copies, numbers, chosen)
            if EXPONENTS in wanted:
                counting_s = self._exponents.count(arithmetic, numbers, chosen, waits=waits)
                apart_s += self.charge(kind, counting_s, asked, EXPONENTS)
            if SHAPE in wanted:
                shapes = [arithmetic.describe(tensor)[1] for tensor in chosen]
                step = self._plan.step
                self._notes.facts += self._tensors.changed_shapes(step, numbers, shapes)
            if statistics := wanted & _STATISTICS:
                rows = self.rows.add(arithmetic, numbers, chosen, statistics, waits=waits)
                if kind == "gradient":
                    self.gradients.rows.append(rows)
        self.charge(kind, self._times.clock() - began - apart_s, asked)

    def _copy(
        self,
        reducer: Reducer[ArrayT],
        kind: str,
        mode: Mode | None,
        purpose: frozenset[str],
        numbers: Sequence[int],
        tensors: Sequence[ArrayT],
    ) -> float:
        """Copy tensors; return the duration in seconds."""
        began = self._times.clock()
        waits = kind in _FORWARD_KINDS or mode is Mode.EVAL
        copier = self.rows.copier(reducer, tensors, self._arenas)
        wanted = self._plan.copy_budgets.paid(
            *(purpose, numbers, tensors, copier),
            active=self._due.any_names,
            step=self._plan.step,
        )
        self.copies.add_all(wanted, copier, waits=waits)
        return self.charge(kind, self._times.clock() - began, mode, COPIES)

    def add_row(self, tensor_id: int, fields: dict[str, float], cost_s: float = 0.0) -> None:
        """Add statistics that the adapter computed to a tensor's row of the step in progress."""
        self.rows.add_fields(tensor_id, fields)
        self.charge(self._tensors[tensor_id].kind, cost_s, Mode.TRAIN, next(iter(fields), ""))

    def charge(self, kind: str, cost_s: float, mode: Mode | None, part: str = "") -> float:
        """Charge and return the cost of captures of a kind; see `Due.charge`."""
        self.cost_s += cost_s
        self._due.charge(kind, cost_s, mode, part)
        return cost_s

    def begin_forward(self) -> None:
        """Discard the captures of a forward pass that never returned."""
        if self._plan.evaluated is not None:
            if self._outlet.is_open:
                self._plan.budgets.earn(*self._times.passed())
            self._plan.begin_forward()
        if self.forward.is_any:
            self.forward.forget()

    def commit_forward(self, key: StepKey, purpose: Purpose | None = None) -> None:
        """Commit the captures of the latest forward pass, or emit the captures of an evaluation.

        Args:
            key: key of the forward pass if it seems to be training, which only a backward pass can
                confirm.
            purpose: called when the step is over, for a forward pass that seems to be training.
        """
        is_training = key.mode is Mode.TRAIN
        is_captured = self._due.count_forward() if is_training else self._outlet.is_open
        if self.forward.is_any and not is_captured:
            self.forward.forget()
        elif self.forward.is_any and is_training:
            self.forward.keep() if purpose is None else self.forward.park(purpose)
            self.has_raw = True
        elif self.forward.is_any:
            rows, raw = self.forward.take()
            if rows or raw:
                self._outlet.put(key, Collected(parts=rows), raw=raw)
        if not is_training:
            self._plan.end_forward(key)

    def settle_forwards(self) -> None:
        """Determine which forward passes of the step were training, and emit the others."""
        for key, rows, raw in self.forward.settle():
            if rows or raw:
                self._outlet.put(key, Collected(parts=rows), raw=raw)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Add copies from inside the block to the step in progress, or else to the next step."""
        self.copies.are_held = self.holds = True
        try:
            yield
        finally:
            self.copies.are_held = False

    def take_held(self) -> Sequence[RawBlock]:
        """Return and remove copies that were held back."""
        self.holds = False
        return self.copies.take_held()

    def take_raw(self) -> list[RawBlock]:
        """Return and remove the copies and counts of the step."""
        raw = [*self.copies.take(), *self._exponents.take()]
        self.has_raw = bool(raw)  # the next step is handled, too, because it depends on this one
        return raw
