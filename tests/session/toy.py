"""A framework that implements only the protocol: all that a session may use of an adapter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mothtrap.core.adapters import Environment, Given, Job, Losses, SnapshotTaker
from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.options import WITHOUT_SNAPSHOTS
from mothtrap.core.reports import Reports
from mothtrap.core.steps import Mode
from mothtrap.tracing.handle import AdapterSpec


class Model:
    """One weight, trained by calls of `fit_round`."""

    def __init__(self) -> None:
        self.job: Job | None = None
        self.loss = 1.0

    def fit_round(self) -> float:
        """Halve the loss; one step of training."""
        self.loss /= 2
        if self.job is not None:
            self.job.contain(self.job.step, [Losses(series="toy", value=self.loss)])
        return self.loss


class ToyHandle:
    """Has no attribute that the protocol does not name."""

    __slots__ = ("_calls", "_error", "_job", "snapshots")

    honors = WITHOUT_SNAPSHOTS

    def __init__(
        self,
        job: Job,
        calls: list[str],
        snapshots: SnapshotTaker | None = None,
        error: Exception | None = None,
    ) -> None:
        self._job, self._calls, self.snapshots, self._error = job, calls, snapshots, error

    def step(self, given: Given) -> None:
        self._job.contain(self._take, given)

    def _take(self, given: Given) -> None:
        for name, value in given.numbers.items():
            self._job.number(name, value)
        if given.makes_step:
            self._job.step([Losses(series="given", value=float(given.loss))])

    def surroundings(self) -> None:
        self._calls.append("surroundings")

    def stop(self, reason: str) -> bool:
        self._calls.append(f"stop: {reason}")
        return True

    def detach(self) -> None:
        self._calls.append("detach")
        if self._error is not None:
            raise self._error

    def abandon(self) -> None:
        self._job.live = False
        self._calls.append("abandon")


class Toy:
    """An adapter that records its jobs, and the calls of its handles."""

    def __init__(
        self,
        framework: str = "toy",
        *,
        rank: int | None = None,
        size: int = 1,
        base: str | None = None,
        kind: type = Model,
        snapshots: SnapshotTaker | None = None,
        error: Exception | None = None,
    ) -> None:
        self._snapshots, self._error = snapshots, error
        self.jobs: list[Job] = []
        self.calls: list[str] = []
        here = Environment(rank=rank, size=size, versions={framework: "1.0"})
        self.spec = AdapterSpec(
            framework=framework,
            handle=self.begin,
            requires="numpy",
            reports=Reports(
                scalars=frozenset({"loss"}),
                facts=frozenset({LossSeries}),
                modes=frozenset({Mode.TRAIN}),
            ),
            watched=(kind,),
            refines=base,
            replay=lambda plan: self.calls.append(f"replay step {plan.step}"),
            place=lambda: here,
        )

    def begin(self, job: Job, targets: Sequence[object]) -> ToyHandle:
        for target in targets:
            if isinstance(target, Model):
                target.job = job
        self.jobs.append(job)
        return ToyHandle(job, self.calls, self._snapshots, self._error)


def attached(worker: Any, adapter: Toy) -> Job:
    """Attach an adapter to a worker; return the job that it was given."""
    worker.attach(adapter.spec)
    return adapter.jobs[-1]
