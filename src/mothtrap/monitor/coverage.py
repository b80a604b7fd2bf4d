"""States of rules without required data: a missing fact does not mean that a run is healthy."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product

from mothtrap.core.fact import tag_of
from mothtrap.core.facts.looks import AdapterReports, Cannot, Looked
from mothtrap.core.findings import RuleState
from mothtrap.core.measured import MEASURED
from mothtrap.core.needs import Need, facts_of, required
from mothtrap.core.records import StepRecord
from mothtrap.core.rule import Rule
from mothtrap.core.standing_needs import NEEDS_OF_THE_JOB
from mothtrap.core.steps import Mode
from mothtrap.core.window import Window

EXEMPT = frozenset(
    {
        *("ranks_diverge", "straggler", "same_batches_on_ranks", "ddp_bypassed"),
        *("stalled_training", "differs_across_runs", "broken_invariant"),
    }
)
"""Rules about other workers, clocks or other runs: their own state is kept."""

_OF_THE_JOB = frozenset(tag_of(fact) for fact in facts_of(NEEDS_OF_THE_JOB))
_OF_ADAPTERS = MEASURED - {"skipped", "micro_batches", "step_s", "own_s"}
"""Scalars that only an adapter can report; users log others, or every step has them."""

LOGGED_KIND = "metric"
"""Tensors logged by users are recorded with every adapter."""

Outcome = tuple[RuleState, str]


class Coverage:
    """Reports that the adapters of one worker can make, and the facts observed in its steps.

    For runs of versions that did not store this, the rules decide from their own data.
    """

    def __init__(self) -> None:
        self._adapters: dict[str, AdapterReports] = {}
        self._cannot: list[Cannot] = []
        self._looked: dict[str, dict[str, Looked]] = {}
        self._scalars: set[str] = set()
        self._statistics: set[tuple[str, Mode, str]] = set()

    def feed(self, record: StepRecord) -> None:
        """Process the facts in a record."""
        for fact in record.observations:
            if isinstance(fact, Looked):
                for tag in fact.facts:
                    self._looked.setdefault(tag, {})[fact.adapter] = fact
            elif isinstance(fact, AdapterReports):
                self._adapters[fact.adapter] = fact
            elif isinstance(fact, Cannot):
                self._cannot.append(fact)

    def judged(self, window: Window) -> None:
        """Record which scalars and statistics a window has."""
        self._scalars.update(series.name for series in window.series)
        self._statistics.update((m.kind, m.mode, m.statistic) for m in window.matrices)

    def limited(self, rule: Rule, outcome: Outcome) -> Outcome:
        """Return the state of a rule without findings, given the data that it could use.

        Args:
            rule: active rule.
            outcome: its state and the reason from the rule itself.
        """
        state, _ = outcome
        if not self._adapters or state is RuleState.RULE_FAILED or rule.name() in EXEMPT:
            return outcome
        lacks = []
        for alternatives in required(rule.needs):
            possible = [need for need in alternatives if not self._why_never(need)]
            if not possible:
                return RuleState.NOT_APPLICABLE, self._why_never(alternatives[0])
            lacking = [self._lack(need, seen=state is not RuleState.OK) for need in possible]
            lacks += lacking[:1] if all(lacking) else []
        if lacks and state is not RuleState.NOT_ENOUGH_DATA:
            return RuleState.NOT_ENOUGH_DATA, lacks[0]
        return outcome

    def _why_never(self, need: Need) -> str:
        """Return why data of a need can never be recorded; '' if it can."""
        facts = {tag_of(fact) for fact in need.facts} - _OF_THE_JOB
        for tag in sorted(facts):
            if not any(tag in self._left(own, "facts") for own in self._adapters.values()):
                return self._reason("facts", (tag,))
        for name in sorted(_OF_ADAPTERS.intersection(need.scalars)):
            if not any(name in self._left(own, "scalars") for own in self._adapters.values()):
                return self._reason("scalars", (name,))
        for field, named in (("kinds", need.kinds), ("modes", need.modes if need.kinds else ())):
            if named and not any(
                self._left(own, field).intersection(named) for own in self._adapters.values()
            ):
                return self._reason(field, named)
        return ""

    def _left(self, own: AdapterReports, field: str) -> frozenset[str]:
        """Return the names of one kind that an adapter can report in this job."""
        lacking = (c for c in self._cannot if c.adapter == own.adapter)
        left = frozenset(getattr(own, field)).difference(*(getattr(c, field) for c in lacking))
        return left | {LOGGED_KIND} if field == "kinds" else left

    def _reason(self, field: str, named: Iterable[str]) -> str:
        for fact in self._cannot:
            if set(getattr(fact, field)).intersection(named):
                return fact.why
        adapters = " and ".join(sorted(self._adapters))
        of = "steps of mode " if field == "modes" else ""
        return f"mothtrap does not record {of}{' or '.join(map(_quoted, named))} with {adapters}"

    def _lack(self, need: Need, *, seen: bool) -> str:
        """Return the missing part of a need; '' if it is complete.

        Args:
            need: need whose data can be recorded.
            seen: assume that its scalars and statistics were recorded.
        """
        for fact in need.facts:
            tag = tag_of(fact)
            if tag in _OF_THE_JOB:
                continue
            looked = self._looked.get(tag, {}).values()
            if not looked:
                return f"{_quoted(tag)} was not checked"
            missed = min(interval.missed for interval in looked)
            if need.each_step and missed:
                return f"{_quoted(tag)} was not checked in {missed} steps"
        if seen:
            return ""
        for name in need.scalars:
            if name not in self._scalars:
                return f"no {name} was reported"
        if need.kinds and self._statistics.isdisjoint(
            product(need.kinds, need.modes, need.statistics)
        ):
            return f"no {', '.join(need.statistics)} of {', '.join(need.kinds)} was captured"
        return ""


def _quoted(name: str) -> str:
    """Return a name in quotes; a tag becomes words, `BoostingBegan` as `"boosting began"`."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower() if name[:1].isupper() else name
    return f'"{words}"'
