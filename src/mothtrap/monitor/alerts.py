"""Events of a run, found by comparing its current state with the previous one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from mothtrap.core.diagnosis import diagnose
from mothtrap.core.events import Event, EventKind
from mothtrap.core.facts.captures import Dropped
from mothtrap.core.findings import Finding, has_passed
from mothtrap.core.marks import Mark
from mothtrap.core.runs import RuleStatus
from mothtrap.reader.run import Run
from mothtrap.store.marks import read_marks

STALLED_S = 300.0
STALLED_STEPS = 20
"""A job has stalled if no step has ended for this many seconds, and for this multiple of the
longest earlier wait. Chosen by hand: evaluations and checkpoints take minutes.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """State of a run at one time; `lost_steps` were captured but could not be stored."""

    id: str
    path: str
    now_s: float
    attempt: int = 1
    state: str = "running"
    steps: int = 0
    findings: tuple[Finding, ...] = ()
    rules: tuple[RuleStatus, ...] = ()
    lost_steps: int = 0
    marks: Mapping[str, Mark] = field(default_factory=dict)


def glance(run: Run, now_s: float) -> Glance:
    """Return the state of a run as far as it was read."""
    info = run.info
    return Glance(
        id=run.id,
        path=str(run.path),
        now_s=now_s,
        attempt=info.attempt if info is not None else 1,
        state=run.state,
        steps=run.steps,
        findings=run.findings,
        rules=run.rules,
        lost_steps=sum(seen.count for seen in run.observations(Dropped) if seen.what == "steps"),
        marks=read_marks(run.path),
    )


class Alerts:
    """Turns successive states of a run into events; each event occurs once.

    Args:
        explains: by rule code, codes of the rules whose findings that rule's findings cause.

    Attributes:
        findings: the newest revision of each finding, linked by causes, by fingerprint.
        stories: for each fingerprint, the fingerprints of all findings of its stories.
        held_s: how long each finding has been active since it was opened, by fingerprint.
    """

    def __init__(self, explains: Mapping[str, frozenset[str]]) -> None:
        self._explains = explains
        self.findings: dict[str, Finding] = {}
        self.stories: dict[str, frozenset[str]] = {}
        self.held_s: dict[str, float] = {}
        self._opened_s: dict[str, float] = {}
        self._rules: dict[str, RuleStatus] = {}
        self._marks: dict[str, Mark] = {}
        self._counts: Counter[str] = Counter()
        self._begun = self._ended = self._stalled = False
        self._lost_from = 0
        self._steps, self._stepped_s, self._longest_s = -1, 0.0, 0.0

    def look(self, now: Glance) -> list[Event]:
        """Return the events since the last call, causes before their effects."""
        events = []
        if not self._begun:
            self._begun = True
            events.append(self._event(now, "started", "", f"{now.id} started"))
        events += self._of_findings(now)
        events += self._of_rules(now)
        events += self._of_marks(now)
        events += self._of_the_run(now)
        return events

    def is_muted(self, fingerprint: str, now_s: float) -> bool:
        """Return whether a user has muted a finding."""
        mark = self._marks.get(fingerprint)
        return mark is not None and mark.mutes(now_s)

    def is_acknowledged(self, fingerprint: str) -> bool:
        """Return whether a user has acknowledged a finding."""
        mark = self._marks.get(fingerprint)
        return mark is not None and mark.kind == "acknowledged"

    def _of_findings(self, now: Glance) -> list[Event]:
        diagnosis = diagnose(now.findings, self._explains)
        for story in diagnosis.stories:
            members = frozenset((story.root, *story.effects))
            for name in members:
                self.stories[name] = self.stories.get(name, frozenset()) | members
        events = []
        for finding in sorted(diagnosis.findings, key=lambda f: (len(f.caused_by) > 0, f.step)):
            name = finding.fingerprint
            old = self.findings.get(name)
            self.findings[name] = finding
            kind = _change(old, finding)
            if kind in ("opened", "reopened"):
                self._opened_s[name], self.held_s[name] = now.now_s, 0.0
            elif old is not None and finding.last_step > old.last_step:
                self.held_s[name] = now.now_s - self._opened_s[name]
            if kind is not None:
                events.append(self._event(now, kind, name, finding.message, finding))
        return events

    def _of_rules(self, now: Glance) -> list[Event]:
        events = []
        for status in now.rules:
            old = self._rules.get(status.code)
            self._rules[status.code] = status
            if old is None or old.state != status.state:
                reason = f" ({status.reason})" if status.reason else ""
                text = f"rule {status.code} {status.name}: {status.state}{reason}"
                events.append(
                    self._event(
                        now,
                        "rule_state",
                        status.code,
                        text,
                        rule=status,
                        before=old.state if old is not None else None,
                    )
                )
        return events

    def _of_marks(self, now: Glance) -> list[Event]:
        events = []
        for name, mark in now.marks.items():
            finding = self.findings.get(name)
            if self._marks.get(name) == mark or finding is None:
                continue
            self._marks[name] = mark
            by, note = f" by {mark.by}" * bool(mark.by), f": {mark.note}" * bool(mark.note)
            text = f"{finding.code} {finding.name} was {mark.kind}{by}{note}"
            events.append(self._event(now, mark.kind, name, text, finding))
        return events

    def _of_the_run(self, now: Glance) -> list[Event]:
        events = []
        if now.lost_steps > self._lost_from:
            self._lost_from = 2 * now.lost_steps  # reported again when the number has doubled
            text = f"{now.lost_steps} captured steps could not be stored"
            events.append(self._event(now, "lost_steps", "", text))
        if self._has_stalled(now):
            wait_s = now.now_s - self._stepped_s
            text = f"no step for {wait_s:.0f} s, after {now.steps} steps"
            events.append(self._event(now, "stalled", "", text))
        if now.state != "running" and not self._ended:
            kind: EventKind = "finished" if now.state == "finished" else "crashed"
            events.append(self._event(now, kind, "", f"{now.id} {kind} after {now.steps} steps"))
        self._ended = now.state != "running"
        return events

    def _has_stalled(self, now: Glance) -> bool:
        """Return whether the job was just detected to be stuck."""
        if now.steps != self._steps:
            if self._steps > 0:
                self._longest_s = max(self._longest_s, now.now_s - self._stepped_s)
            self._steps, self._stepped_s, self._stalled = now.steps, now.now_s, False
            return False
        if self._stalled or now.state != "running" or now.steps <= 0:
            return False
        limit_s = max(STALLED_S, STALLED_STEPS * self._longest_s)
        self._stalled = now.now_s - self._stepped_s >= limit_s
        return self._stalled

    def _event(
        self,
        now: Glance,
        kind: EventKind,
        about: str,
        text: str,
        finding: Finding | None = None,
        **more: object,
    ) -> Event:
        base = f"{now.attempt}/{kind}/{about}" if finding is None else f"{kind}/{about}"
        self._counts[base] += 1
        fields: dict[str, object] = {
            "key": f"{base}/{self._counts[base]}",
            "kind": kind,
            "run": now.id,
            "path": now.path,
            "attempt": now.attempt,
            "time_s": now.now_s,
            "step": finding.step if finding is not None else now.steps,
            "text": text,
            "finding": finding,
            "follows": finding.caused_by if finding is not None else (),
            "leads_to": finding.causes if finding is not None else (),
            "next": f"mothtrap show {now.path}",
            **more,
        }
        return Event(**fields)  # type: ignore[arg-type]


def _change(old: Finding | None, new: Finding) -> EventKind | None:
    """Return the event of a finding, if there is one."""
    is_passed = has_passed(new)
    if old is None:
        return "opened"
    was_passed = has_passed(old)
    if is_passed != was_passed:
        return "passed" if is_passed else "reopened"
    return "worsened" if new.severity.rank < old.severity.rank else None
