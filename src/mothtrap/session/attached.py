"""The adapters that are attached to the job of a process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import FrameType

from mothtrap.core import registry
from mothtrap.core.adapters import Environment, Handle, Job, SnapshotTaker, Surroundings
from mothtrap.core.facts.stalls import CollectiveCall, InputState
from mothtrap.tracing.handle import AdapterSpec
from mothtrap.tracing.jobs.adapter_job import AdapterJob
from mothtrap.tracing.jobs.process_job import ProcessJob

STATISTICS = "mothtrap.statistics"


@dataclass(frozen=True, slots=True, eq=False)
class _Attached:
    """An attached adapter."""

    adapter: AdapterSpec
    job: AdapterJob
    handle: Handle


def no_collective(_: FrameType) -> None:
    """Return None, because no framework here has collectives."""


class AttachedAdapters:
    """Attaches adapters to one job, and manages their handles.

    Args:
        job: job of the process.

    Attributes:
        abandoned: observation has ended.
    """

    def __init__(self, job: ProcessJob) -> None:
        self._job = job
        self._attached: list[_Attached] = []
        self.abandoned = False

    @property
    def framework(self) -> str:
        """Framework of the latest step; before the first step, the framework attached first."""
        return next((each.job.framework for each in self._by_steps()), "")

    def attach(self, adapter: AdapterSpec, begin: Callable[[Job], Handle] | None = None) -> Handle:
        """Attach an adapter.

        Args:
            adapter: adapter of a framework.
            begin: function that attaches it to a job; default: to the whole process.
        """
        job = AdapterJob(
            self._job,
            adapter.framework,
            arrays=registry.load(STATISTICS, adapter.arrays),
            reports=adapter.reports,
            refines=adapter.refines,
            counts_steps=adapter.steps == "own"
            or (adapter.refines is None and adapter.steps != "none"),
        )
        try:
            handle = (begin or adapter.attach)(job)
        except BaseException:
            job.leave()
            raise
        # An adapter of another distribution may not support options.
        job.settings.honored = getattr(handle, "honors", frozenset())
        self._attached.append(_Attached(adapter, job, handle))
        return handle

    def check_options(self, handles: Iterable[Handle]) -> None:
        """Report, before the first step, the options that some handles do not honor."""
        for each in self._attached:
            if each.job.counts_steps and any(each.handle is handle for handle in handles):
                each.job.settings.check(self._job.grouper.step)

    def handle_of(self, adapter: AdapterSpec) -> Handle | None:
        """Return the handle of an adapter; None if it is not attached."""
        for each in self._attached:
            if each.adapter.framework == adapter.framework:
                return each.handle
        return None

    def are_only(self, handles: Iterable[Handle]) -> bool:
        """Return whether only these handles are attached."""
        known = {id(handle) for handle in handles}
        return all(id(each.handle) in known for each in self._attached)

    def detach(self, handle: Handle) -> None:
        """Remove the hooks of a handle, and exclude its adapter from the job."""
        for each in [each for each in self._attached if each.handle is handle]:
            try:
                handle.detach()  # closes the last step, which may be the first one
            finally:
                self._attached.remove(each)
                each.job.leave()

    def handles(self) -> list[Handle]:
        """Return all handles, latest first, so that refining adapters come first."""
        return [each.handle for each in reversed(self._attached)]

    def abandon(self) -> None:
        """Stop observing."""
        self.abandoned = True
        for each in self._attached:
            each.handle.abandon()

    def taker(self) -> tuple[SnapshotTaker, str, Mapping[str, str]] | None:
        """Return the snapshot taker, its framework, and the versions relevant for a replay."""
        for each in self._by_steps():
            if (taker := each.handle.snapshots) is not None:
                return taker, each.job.framework, each.adapter.environment().versions
        return None

    def surroundings(self) -> list[Surroundings]:
        """Return the settings of each framework that affect the numbers."""
        found = [each.handle.surroundings() for each in self._by_steps()]
        return [each for each in found if each is not None]

    def environment(self) -> Environment:
        """Return this process's position in its job, as reported by the stepping framework."""
        found = [each.adapter.environment() for each in self._by_steps()]
        ranked = [each for each in found if each.rank is not None]
        versions: dict[str, str] = {}
        for each in found:
            versions = {**each.versions, **versions}
        return Environment(
            rank=ranked[0].rank if ranked else None,
            size=max((each.size for each in ranked or found), default=1),
            versions=versions,
            store=next((each.store for each in found if each.store is not None), None),
        )

    @property
    def collective(self) -> Callable[[FrameType], CollectiveCall | None]:
        """Return a function for the last collective call of this process; see `StallParts`."""
        for each in self._by_steps():
            if each.adapter.stalls.collective is not None:
                return each.adapter.stalls.collective
        return no_collective

    @property
    def reading(self) -> Callable[[], InputState] | None:
        """Return a function for the files that input pipelines are reading; see `StallParts`."""
        found = (each.adapter.stalls.reading for each in self._by_steps())
        return next((each for each in found if each is not None), None)

    def _by_steps(self) -> list[_Attached]:
        return sorted(self._attached, key=lambda each: each.job.framework != self._job.stepping)
