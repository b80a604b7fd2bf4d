"""Conversion of the events of a training loop to steps and loss series: a pure state machine.

A step is a maximal group of `optimizer.step()` calls with no backward between them.
Calls nested in another one (SAM, Lookahead) and calls inside a backward
(optimizer-in-backward) belong to the group. It ends at the next backward, the next
forward of an optimized root, or the end. So Muon + AdamW is one step, a GAN iteration two.
A backward inside a step (of a closure) also ends the group of the previous steps.

Losses are grouped into *series*: one backward call site with the optimizers stepped next. Values of
micro-batches are reported together. If a closure is evaluated several times, only the first
evaluation counts, and after earlier backwards only if it adds to their gradients. If gradients are
zeroed between backward and step, as scripts do for a non-finite loss, the loss belongs to the step
if that has no other loss.
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import msgspec


class BackwardBegan(msgspec.Struct, frozen=True, tag=True):
    """A backward pass began.

    Attributes:
        site: call site.
        loss: key of the root's value.
        accumulates: inside a step, it adds to the gradients with which the step began, which have
            not been zeroed or replaced since.
    """

    site: str
    loss: int | None = None
    accumulates: bool = False


class BackwardEnded(msgspec.Struct, frozen=True, tag=True):
    """A backward pass returned or raised an exception."""


class StepBegan(msgspec.Struct, frozen=True, tag=True):
    """`optimizer.step()` was entered; with `alone`, each call counts as a step."""

    optimizer: str
    alone: bool = False


class StepEnded(msgspec.Struct, frozen=True, tag=True):
    """`optimizer.step()` returned."""

    optimizer: str


class StepSkipped(msgspec.Struct, frozen=True, tag=True):
    """`optimizer.step()` was skipped on purpose, as by a gradient scaler."""

    optimizer: str


class StepCancelled(msgspec.Struct, frozen=True, tag=True):
    """An `optimizer.step()` that began was not applied, or was undone."""

    optimizer: str


class RootCalled(msgspec.Struct, frozen=True, tag=True):
    """The forward pass of a root module began; `owned`: an optimizer holds parameters of it."""

    root: str
    owned: bool = True


class GradientsZeroed(msgspec.Struct, frozen=True, tag=True):
    """`optimizer.zero_grad()` was called."""

    optimizer: str


class Ended(msgspec.Struct, frozen=True, tag=True):
    """No more events follow."""


Event = (
    BackwardBegan
    | BackwardEnded
    | StepBegan
    | StepEnded
    | StepSkipped
    | StepCancelled
    | RootCalled
    | GradientsZeroed
    | Ended
)


class SeriesLosses(msgspec.Struct, frozen=True):
    """Keys of the losses of one series in a step, one per micro-batch."""

    series: str
    site: str
    losses: tuple[int, ...]


class ClosedStep(msgspec.Struct, frozen=True):
    """One finished step. `micro_batches` is the largest number of backward calls at one call site.

    `owners` names the optimizers briefly, as in the labels of series.
    """

    step: int
    owners: str
    optimizers: tuple[str, ...]
    skipped: bool
    series: tuple[SeriesLosses, ...]
    micro_batches: int


class _Pending(msgspec.Struct):
    """A backward whose optimizers have not stepped yet, and how often each has zeroed since."""

    site: str
    loss: int | None
    zeroed: dict[str, int] = msgspec.field(default_factory=dict)


class _Group(msgspec.Struct):
    """The step that is being assembled.

    `evaluated`: it contains the backward of a closure. `before`: its number of applied and skipped
    steps and of losses when the outermost running `optimizer.step()` was entered.
    """

    in_backward: bool
    applied: list[str] = msgspec.field(default_factory=list)
    skipped: list[str] = msgspec.field(default_factory=list)
    losses: list[_Pending] = msgspec.field(default_factory=list)
    evaluated: bool = False
    before: tuple[int, int, int] = (0, 0, 0)


class Grouper:
    """Receives events in order, and determines when a step ends.

    Attributes:
        step: number of the step in progress, which is the number of finished steps.
        running: optimizers whose `step()` is running, outermost first.
        between_steps: the latest step was applied, or skipped, and the next step has not begun.
    """

    MAX_PENDING: ClassVar[int] = 4096
    """Maximum number of stored backwards that no optimizer steps on (gradients are only evaluated).
    """

    def __init__(self, first_step: int = 0) -> None:
        self.step = first_step
        self._pending: list[_Pending] = []
        self._group: _Group | None = None
        self.running: list[str] = []
        self.between_steps = False
        self._backward_depth = 0
        self._batches = 0

    @property
    def steps_applied(self) -> int:
        """Number of steps applied to the weights, including the step in progress once applied."""
        applied = self._group is not None and bool(self._group.applied) and not self.running
        return self.step + applied

    @property
    def batches_applied(self) -> int:
        """Number of micro-batches whose gradients the steps so far applied."""
        if self._group is None or not self._group.applied or self.running:
            return self._batches
        open_now = Counter(pending.site for pending in self._group.losses)
        return self._batches + max(open_now.values(), default=0)

    @property
    def inside_step(self) -> bool:
        """Return whether an `optimizer.step()` is running; a backward is then a closure's."""
        return bool(self.running)

    @property
    def stepping(self) -> str | None:
        """The outermost optimizer whose `step()` is running."""
        return self.running[0] if self.running else None

    @property
    def losses(self) -> tuple[tuple[str, int], ...]:
        """Return call sites and keys of the losses whose gradients the current step applies."""
        pending = self._group.losses if self._group is not None else []
        return tuple((p.site, p.loss) for p in pending if p.loss is not None)

    @property
    def knows_no_loss(self) -> bool:
        """Return whether no backward pass has occurred since the last step closed."""
        return not self._pending and self._group is None

    def feed(self, event: Event) -> ClosedStep | None:
        """Process one event; return the step that it closed, if any."""
        closed = None
        match event:
            case RootCalled():
                if self.between_steps and event.owned:
                    closed = self._close()
            case BackwardBegan():
                closed = self._backward_began(event)
            case BackwardEnded():
                self._backward_depth = max(0, self._backward_depth - 1)
            case StepBegan():
                closed = self._step_began(event.optimizer, alone=event.alone)
            case StepEnded():
                if event.optimizer in self.running:
                    del self.running[self.running.index(event.optimizer) :]
            case GradientsZeroed():
                if self._pending and self._backward_depth == 0 and not self.running:
                    self._zeroed(event.optimizer)
            case StepSkipped():
                self._join(event.optimizer, applied=False)
            case StepCancelled():
                self._step_cancelled(event.optimizer)
            case Ended():
                self.running.clear()
                closed = self._close()
        waits = self._group is not None
        self.between_steps = waits and not (self.running or self._backward_depth)
        return closed

    def step_alone(self, optimizer: str, *, skipped: bool) -> ClosedStep:
        """Count a step of a framework that is unrelated to the events so far."""
        names = [optimizer]
        return self._finish(_Group(False, [] if skipped else names, names if skipped else []))

    def _backward_began(self, event: BackwardBegan) -> ClosedStep | None:
        self._backward_depth += 1
        if self._backward_depth > 1:  # reentrant checkpointing: part of the outer backward
            return None
        if self.running:
            return self._closure_evaluated(event)
        closed = self._close() if self._group is not None else None
        self._pending.append(_Pending(event.site, event.loss))
        del self._pending[: -self.MAX_PENDING]
        return closed

    def _closure_evaluated(self, event: BackwardBegan) -> ClosedStep | None:
        group = self._group
        if group is None:
            return None
        closed = None
        applied, skipped, losses = group.before
        if applied or skipped:  # steps that ended before the running one began
            running = list(dict.fromkeys((*self.running, *group.applied[applied:])))
            begun = _Group(False, running, group.skipped[skipped:], group.losses[losses:])
            del group.applied[applied:], group.skipped[skipped:], group.losses[losses:]
            closed, self._group = self._finish(group), begun
            group = begun
        is_first, group.evaluated = not group.evaluated, True
        if not group.losses or (is_first and event.accumulates):
            group.losses.append(_Pending(event.site, event.loss))
        return closed

    def _step_began(self, optimizer: str, *, alone: bool) -> ClosedStep | None:
        closed = None
        group = self._group
        if not self.running and not self._backward_depth and group is not None:
            if (group.evaluated or alone) and optimizer in group.applied:
                closed = self._close()
            else:
                group.before = len(group.applied), len(group.skipped), len(group.losses)
        if optimizer in self.running:  # its last step raised an exception, which was caught
            del self.running[self.running.index(optimizer) :]
        self.running.append(optimizer)
        self._join(optimizer, applied=True)
        return closed

    def _step_cancelled(self, optimizer: str) -> None:
        if optimizer in self.running:
            del self.running[self.running.index(optimizer) :]
        group = self._group
        if group is not None and optimizer in group.applied:
            group.applied.remove(optimizer)
            group.skipped.append(optimizer)

    def _join(self, optimizer: str, *, applied: bool) -> None:
        group = self._group
        if group is None:
            group = self._group = _Group(in_backward=self._backward_depth > 0)
        members = group.applied if applied else group.skipped
        if optimizer not in members:
            members.append(optimizer)
        waiting, self._pending = self._pending, []
        for pending in waiting:
            (self._pending if pending.zeroed.get(optimizer) else group.losses).append(pending)

    def _zeroed(self, optimizer: str) -> None:
        for pending in self._pending:
            pending.zeroed[optimizer] = pending.zeroed.get(optimizer, 0) + 1

    def _close(self) -> ClosedStep | None:
        group = self._group
        if group is None or self.running:
            return None
        self._group = None
        if not group.losses:
            group.losses = self._zeroed_last((*group.applied, *group.skipped)[0])
        self._pending.clear()
        return self._finish(group)

    def _zeroed_last(self, optimizer: str) -> list[_Pending]:
        """Return the latest backward passes whose losses, but not gradients, belong to the step."""
        fewest = min((p.zeroed.get(optimizer, 0) for p in self._pending), default=0)
        return [p for p in self._pending if p.zeroed.get(optimizer, 0) == fewest]

    def _finish(self, group: _Group) -> ClosedStep:
        single = len(group.applied) == 1 and not (group.skipped or group.in_backward)
        owners = group.applied[0] if single else _owners(group)
        backwards: dict[str, int] = {}
        by_site: dict[str, list[int]] = {}
        for pending in group.losses:
            backwards[pending.site] = backwards.get(pending.site, 0) + 1
            if pending.loss is not None:
                by_site.setdefault(pending.site, []).append(pending.loss)
        series = []
        for site, keys in by_site.items():
            series.append(SeriesLosses(f"{site} {owners}", site, tuple(keys)))
        closed = ClosedStep(
            step=self.step,
            owners=owners,
            optimizers=tuple(dict.fromkeys((*group.applied, *group.skipped))),
            skipped=not group.applied,
            series=tuple(series),
            micro_batches=max(backwards.values(), default=0),
        )
        self.step += 1
        self._batches += closed.micro_batches
        return closed


def _owners(group: _Group) -> str:
    """Name the optimizers of a group briefly: with one per parameter, there would be hundreds."""
    names = sorted({*group.applied, *group.skipped})
    if group.in_backward or len(names) > 3:
        return "+".join(sorted({name.partition("#")[0] for name in names})) + "*"
    return "+".join(names)
