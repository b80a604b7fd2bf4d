"""Events of a run that actions react to."""

from __future__ import annotations

from typing import Literal

import msgspec

from mothtrap.core.findings import Finding, RuleState
from mothtrap.core.runs import RuleStatus

FindingEvent = Literal[
    "opened", "worsened", "passed", "reopened", "muted", "unmuted", "acknowledged"
]
RunEvent = Literal["started", "finished", "crashed", "stalled", "lost_steps"]
EventKind = (
    FindingEvent | RunEvent | Literal["rule_state", "test"]  # `test`: of `mothtrap actions test`
)

FINDING_EVENTS = (
    *("opened", "worsened", "passed", "reopened"),
    *("muted", "unmuted", "acknowledged"),
)
RUN_EVENTS = ("started", "finished", "crashed", "stalled", "lost_steps")
EVENTS = (*FINDING_EVENTS, "rule_state", *RUN_EVENTS)
NEWS = ("opened", "worsened", "reopened")
"""Events at which a finding appears or becomes more important."""


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event of a run; `key` is unique within the run.

    Attributes:
        key: the kind, the subject, and the number of earlier events of this kind.
        kind: kind of the event.
        run: name of the run.
        path: folder of the run.
        attempt: number of the attempt.
        time_s: Unix time at which the event was recorded.
        step: number of train steps so far; for a finding, its onset.
        text: the event in one line.
        finding: the finding at that time, for events about findings.
        follows: codes of the findings that caused this finding.
        leads_to: codes of the findings that this finding caused.
        rule: the new state, if a rule's state changed.
        before: the previous state of the rule.
        next: the command that shows more.
    """

    key: str
    kind: EventKind
    run: str
    path: str
    attempt: int
    time_s: float
    step: int = 0
    text: str = ""
    finding: Finding | None = None
    follows: tuple[str, ...] = ()
    leads_to: tuple[str, ...] = ()
    rule: RuleStatus | None = None
    before: RuleState | None = None
    next: str = ""
