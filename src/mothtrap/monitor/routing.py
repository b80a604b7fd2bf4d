"""Selection of the reactions to an event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import msgspec

from mothtrap.core.actions import Reaction, When
from mothtrap.core.events import NEWS, Event
from mothtrap.core.findings import Finding, Severity, has_passed
from mothtrap.core.quiet_hours import is_within
from mothtrap.monitor.alerts import Alerts


@dataclass(slots=True)
class _Told:
    """Number and times of the calls of a reaction."""

    severities: dict[str, Severity] = field(default_factory=dict)
    last_s: dict[str, float] = field(default_factory=dict)
    waiting: list[Event] = field(default_factory=list)
    incidents: dict[str, _Incident] = field(default_factory=dict)


@dataclass(slots=True)
class _Incident:
    """A finding that was reported, and when it was last reported."""

    event: Event
    last_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A reaction that is due.

    `is_repeated`: a message about the same story was sent before. `is_reminder`: messages are sent
    again, without any effect on the job.
    """

    reaction: Reaction
    event: Event
    is_repeated: bool = False
    is_reminder: bool = False


class Router:
    """Matches the events of one run with the conditions of all reactions.

    Args:
        reactions: reactions of the configuration.
        alerts: alerts from which the events come.
    """

    def __init__(self, reactions: Sequence[Reaction], alerts: Alerts) -> None:
        self._alerts = alerts
        self._reported = [(reaction, _Told()) for reaction in reactions]

    def route(
        self, events: Iterable[Event], now_s: float, *, is_running: bool = True
    ) -> list[Call]:
        """Return the reactions that are due: those for events in order, then reminders.

        An event that has not lasted long enough, or that occurs in quiet hours, waits, and is
        checked again in the next call. When the job has ended, quiet hours no longer delay events,
        which would otherwise be lost.

        Args:
            events: events since the last call.
            now_s: Unix time.
            is_running: whether the job is running; if not, nothing is repeated or delayed.
        """
        events = list(events)
        calls = []
        for reaction, told in self._reported:
            waiting, told.waiting = told.waiting, []
            if is_running and is_within(reaction.quiet_hours, now_s):
                told.waiting = [*waiting, *(e for e in events if _is_meant(reaction.when, e))]
                continue
            for event in (*waiting, *events):
                due = self._is_due(reaction, told, event, now_s)
                if due is not None:
                    calls.append(Call(reaction=reaction, event=due[0], is_repeated=due[1]))
                    _remember(told, event, now_s, is_repeated=due[1])
            if is_running and reaction.remind_s:
                calls += self._reminders(reaction, told, now_s)
        return calls

    def _reminders(self, reaction: Reaction, told: _Told, now_s: float) -> Iterator[Call]:
        """Yield a call for each active incident without a recent message."""
        for name, incident in told.incidents.items():
            finding = self._alerts.findings.get(name)
            if finding is None or now_s - incident.last_s < reaction.remind_s:
                continue
            if self._alerts.is_acknowledged(name) or has_passed(finding):
                continue
            if not self._matters(reaction.when, incident.event, finding, now_s):
                continue
            incident.last_s = now_s
            period = int(now_s // reaction.remind_s)  # another monitor counts the same events
            event = msgspec.structs.replace(
                incident.event,
                key=f"{incident.event.key}/reminder/{period}",
                time_s=now_s,
                finding=finding,
                text=f"still active: {finding.message}",
            )
            yield Call(reaction=reaction, event=event, is_reminder=True)

    def _is_due(
        self, reaction: Reaction, told: _Told, event: Event, now_s: float
    ) -> tuple[Event, bool] | None:
        when = reaction.when
        finding = event.finding and self._alerts.findings.get(
            event.finding.fingerprint, event.finding
        )
        if not _is_meant(when, event):
            return None
        if finding is None or event.kind not in NEWS:
            return self._of_something_else(reaction, told, event, now_s)
        if not self._matters(when, event, finding, now_s):
            return None
        if not self._held(when, finding):
            told.waiting.append(event)
            return None
        name, severity = finding.fingerprint, finding.severity
        before = told.severities.get(name)
        is_worse = before is not None and severity.rank < before.rank
        if self._cools(reaction, told, finding.code, now_s) and not is_worse:
            return None
        story = self._alerts.stories.get(name, frozenset((name,)))
        repeated = any(
            other in told.severities and told.severities[other].rank <= severity.rank
            for other in story
            if other != name or event.kind == "opened"
        )
        told.severities[name] = severity
        told.last_s[finding.code] = now_s
        return msgspec.structs.replace(event, finding=finding), repeated

    def _of_something_else(
        self, reaction: Reaction, told: _Told, event: Event, now_s: float
    ) -> tuple[Event, bool] | None:
        """Return events that are not findings; recipients of a finding also learn about its end."""
        finding = event.finding
        if finding is None:
            about = event.rule.code if event.rule is not None else event.kind
            if self._cools(reaction, told, about, now_s) and event.rule is not None:
                return None
            told.last_s[about] = now_s
            return event, False
        if event.kind == "passed" and any(kind in NEWS for kind in reaction.when.kinds):
            told_of = finding.fingerprint in told.severities
            return (event, bool(event.follows)) if told_of else None
        return event, False

    def _matters(self, when: When, event: Event, finding: Finding, now_s: float) -> bool:
        """Return whether a finding is still as bad as requested, and not muted."""
        name = finding.fingerprint
        if self._alerts.is_muted(name, now_s):
            return False
        if self._alerts.is_acknowledged(name) and event.kind == "opened":
            return False
        return finding.severity.rank <= Severity(when.severity).rank

    def _held(self, when: When, finding: Finding) -> bool:
        held_s = self._alerts.held_s.get(finding.fingerprint, 0.0)
        return finding.count >= when.for_steps and held_s >= 60 * when.for_minutes

    @staticmethod
    def _cools(reaction: Reaction, told: _Told, about: str, now_s: float) -> bool:
        return now_s - told.last_s.get(about, float("-inf")) < reaction.cooldown_s


def _is_meant(when: When, event: Event) -> bool:
    return event.kind in when.kinds and matches(when, event)


def _remember(told: _Told, event: Event, now_s: float, *, is_repeated: bool) -> None:
    """Record an incident for reminders: one incident for each story."""
    if event.finding is not None and event.kind in NEWS and not is_repeated:
        told.incidents[event.finding.fingerprint] = _Incident(event, now_s)


def matches(when: When, event: Event) -> bool:
    """Return whether an event meets a condition on rule, layer, severity and state."""
    if event.rule is not None and (
        (when.states and event.rule.state not in when.states)
        or (when.rules and not event.rule.code.startswith(when.rules))
    ):
        return False
    finding = event.finding
    if finding is None:
        return event.rule is not None or not (when.rules or when.layers)
    if event.kind != "passed" and finding.severity.rank > Severity(when.severity).rank:
        # an event may wait, but not for a finding to get worse, which is another event
        return False
    if when.rules and not finding.code.startswith(when.rules):
        return False
    layers = finding.layers
    return not when.layers or any(fnmatchcase(name, g) for name in layers for g in when.layers)
