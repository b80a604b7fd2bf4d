"""Needed facts, facts that can be recorded, and the steps in which observers searched for them."""

from __future__ import annotations

from collections.abc import Iterable

from mothtrap.core.fact import Fact, fact_types, tag_of
from mothtrap.core.facts.looks import AdapterReports, Cannot, Looked
from mothtrap.core.needs import Need, facts_of
from mothtrap.core.reports import Reports
from mothtrap.core.standing_needs import STANDING_NEEDS
from mothtrap.core.steps import Mode

Facts = tuple[type[Fact], ...]

_SETTLED_STEPS = 64
"""Steps between two searches for interrupted intervals; chosen by hand."""


class _Interval:
    __slots__ = ("first", "how_many", "is_told", "last", "missed", "recorded")

    def __init__(self, step: int, recorded: int) -> None:
        self.first = self.last = step
        self.recorded = recorded
        self.how_many, self.missed = 1, 0
        self.is_told = False


class Looks:
    """Record of which facts observers could report in each step; used on the training thread.

    Facts that are listed together share an interval of steps. The interval is reported when it
    begins, when it is first interrupted, and at the end.

    Attributes:
        needed: facts that an active rule, or another reader of the run, needs.
        needed_each_step: facts that must be searched for at every step.

    Args:
        needs: needs of the active rules; None: every fact is needed.
    """

    def __init__(self, needs: Iterable[Need] | None = None) -> None:
        every = (*(needs or ()), *STANDING_NEEDS)
        installed = frozenset(fact_types().values()) if needs is None else frozenset()
        self.needed = installed | facts_of(every)
        self.needed_each_step = installed or facts_of(every, each_step=True)
        self._intervals: dict[tuple[str, Facts], _Interval] = {}
        self._recorded: dict[str, int] = {}
        self._steps, self._owner = 0, ""
        self._said: list[Fact] = []
        self._adapters: set[str] = set()
        self._began = False

    def reports(self, adapter: str, reports: Reports, step: int) -> None:
        """Declare, once, everything that an adapter can report, when it runs a step."""
        self._owner = adapter
        if adapter in self._adapters:
            return
        self._adapters.add(adapter)
        self._said.append(
            AdapterReports(
                step=step,
                adapter=adapter,
                kinds=tuple(sorted(reports.kinds)),
                scalars=tuple(sorted(reports.scalars)),
                facts=tuple(sorted(map(tag_of, reports.facts))),
                modes=tuple(mode for mode in Mode if mode in reports.modes),
            )
        )

    def cannot(self, adapter: str, why: str, lacking: Reports, step: int) -> None:
        """Record the facts that an adapter cannot report in this job.

        Args:
            adapter: name of the adapter.
            why: completes "not applicable: ...", e.g. `no evals were passed to train()`.
            lacking: missing parts of its reports; a mode means that nothing in this mode is
                reported.
            step: step in progress.
        """
        self._said.append(
            Cannot(
                step=step,
                adapter=adapter,
                why=why,
                kinds=tuple(sorted(lacking.kinds)),
                scalars=tuple(sorted(lacking.scalars)),
                facts=tuple(sorted(map(tag_of, lacking.facts))),
                modes=tuple(mode for mode in Mode if mode in lacking.modes),
            )
        )

    def stood_ready(self, facts: Facts, step: int, adapter: str = "") -> None:
        """Record that an observer was ready to report facts in a step.

        Args:
            facts: the same tuple at each step.
            step: step in progress.
            adapter: adapter of the observer, which need not be ready in steps of other adapters.
        """
        interval = self._intervals.get((adapter, facts))
        if interval is None:
            recorded = self._recorded.get(adapter, 0)
            self._intervals[adapter, facts] = _Interval(step, recorded)
            self._began = True
        elif step > interval.last:
            interval.last = step
            interval.how_many += 1

    def close(self, step: int) -> list[Fact]:
        """Count a recorded step; return the resulting facts."""
        self._steps += 1
        self._recorded[self._owner] = self._recorded.get(self._owner, 0) + 1
        if not (self._said or self._began or self._steps % _SETTLED_STEPS == 0):
            return []
        self._began = False
        said, self._said = self._said, []
        return [*said, *self._intervals_to_report(step, last=False)]

    def take_declarations(self) -> list[Fact]:
        """Return and remove what adapters declared about their reports since the last step."""
        said, self._said = self._said, []
        return said

    def end(self, step: int) -> list[Fact]:
        """Return all intervals at the end, and declarations not returned yet."""
        return [*self.take_declarations(), *self._intervals_to_report(step, last=True)]

    def _intervals_to_report(self, step: int, *, last: bool) -> list[Looked]:
        """Return the intervals that began or were interrupted, or all; equal ones are combined."""
        joined: dict[tuple[str, int, int, int, int], set[str]] = {}
        for (adapter, facts), own in self._intervals.items():
            before = own.missed
            steps = self._recorded.get(adapter, 0) - own.recorded
            own.missed = max(0, steps - own.how_many)
            if last or not own.is_told or (own.missed and not before):
                own.is_told = True
                key = (adapter, own.first, own.last, own.how_many, own.missed)
                joined.setdefault(key, set()).update(map(tag_of, facts))
        return [
            Looked(
                step=step,
                adapter=adapter,
                facts=tuple(sorted(tags)),
                first=first,
                last=until,
                how_many=how_many,
                missed=missed,
            )
            for (adapter, first, until, how_many, missed), tags in joined.items()
        ]
