"""Helpers to write training loops as events, together with the expected steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain

from mothtrap.capture.grouper import (
    BackwardBegan,
    BackwardEnded,
    ClosedStep,
    Event,
    GradientsZeroed,
    RootCalled,
    StepBegan,
    StepEnded,
)

Events = list[Event]


@dataclass(frozen=True)
class Step:
    """Expected closed step; `losses` has the loss keys of each series label."""

    optimizers: tuple[str, ...]
    losses: dict[str, tuple[int, ...]] = field(default_factory=dict)
    skipped: bool = False
    micro_batches: int = 1

    @classmethod
    def of(cls, closed: ClosedStep) -> Step:
        losses = {series.series: series.losses for series in closed.series}
        assert len(losses) == len(closed.series), "two series of a step share a label"
        return cls(closed.optimizers, losses, closed.skipped, closed.micro_batches)


@dataclass(frozen=True)
class Loop:
    """A loop's name, its events up to the current point, and the steps closed by then."""

    name: str
    events: Events
    steps: list[Step]


def forward(root: str = "Net", *, owned: bool = True) -> Events:
    return [RootCalled(root, owned)]


def backward(
    site: str,
    loss: int | None = None,
    inside: Iterable[Event] = (),
    *,
    accumulates: bool = False,
) -> Events:
    return [BackwardBegan(site, loss, accumulates), *inside, BackwardEnded()]


def step(optimizer: str, inside: Iterable[Event] = ()) -> Events:
    return [StepBegan(optimizer), *inside, StepEnded(optimizer)]


def zero(optimizer: str) -> Events:
    return [GradientsZeroed(optimizer)]


def joined(*parts: Events) -> Events:
    return list(chain(*parts))


def iteration(loss: int, site: str = "loss", optimizer: str = "Adam") -> Events:
    """Return one iteration of the plainest loop."""
    return joined(forward(), zero(optimizer), backward(site, loss), step(optimizer))
