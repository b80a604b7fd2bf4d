"""Events of a run: each change is reported once, causes before their consequences."""

from __future__ import annotations

import msgspec

from mothtrap.core.findings import Finding, RuleState, Severity
from mothtrap.core.marks import Mark
from mothtrap.core.runs import RuleStatus
from mothtrap.monitor.alerts import Alerts, Glance

EXPLAINS = {"LOS402": frozenset({"NUM001"})}


def found(code: str = "NUM001", step: int = 5, **changed: object) -> Finding:
    whole: dict[str, object] = {
        "code": code,
        "name": code.lower(),
        "severity": Severity.ERROR,
        "step": step,
        "detected_step": step,
        "message": f"{code} was found",
        "fingerprint": f"{code}-1",
        "last_step": step,
        **changed,
    }
    return Finding(**whole)  # type: ignore[arg-type]


def passed(finding: Finding) -> Finding:
    return msgspec.structs.replace(finding, severity=Severity.INFO, evidence={"passed_at_step": 9})


class Watched:
    """Evaluates a made-up run once per second and returns the kinds of events."""

    def __init__(self) -> None:
        self.alerts = Alerts(EXPLAINS)
        self.now_s = 1000.0

    def look(self, *findings: Finding, **glance: object) -> list[str]:
        self.now_s += 1
        fields = {"id": "r1", "path": "runs/r1", "now_s": self.now_s, "findings": findings}
        self.events = self.alerts.look(Glance(**{**fields, **glance}))  # type: ignore[arg-type]
        return [event.kind for event in self.events]


def test_a_finding_opens_gets_worse_passes_and_reopens_each_once() -> None:
    run = Watched()
    mild = found(severity=Severity.WARNING)
    assert run.look(mild) == ["started", "opened"]
    assert run.look(mild) == []
    assert run.look(found()) == ["worsened"]
    assert run.look(found(count=7, last_step=12)) == []
    assert run.look(passed(found())) == ["passed"]
    assert run.look(passed(found())) == []
    assert run.look(found()) == ["reopened"]
    assert [event.key for event in run.events] == ["reopened/NUM001-1/1"]


def test_keys_are_those_of_another_start_so_that_nothing_is_told_twice() -> None:
    first, second = Watched(), Watched()
    first.look(found())
    second.now_s = 5000.0
    second.look(found(), attempt=2)
    keys = [[e.key for e in run.events if e.finding is not None] for run in (first, second)]
    assert keys[0] == keys[1]


def test_causes_come_before_what_follows_and_name_each_other() -> None:
    run = Watched()
    run.look(found("NUM001", 7), found("LOS402", 3))
    opened = [event for event in run.events if event.kind == "opened"]
    assert [event.finding.code for event in opened if event.finding] == ["LOS402", "NUM001"]
    assert [event.leads_to for event in opened] == [("NUM001",), ()]
    assert [event.follows for event in opened] == [(), ("LOS402",)]
    assert run.alerts.stories["NUM001-1"] == {"LOS402-1", "NUM001-1"}


def test_changes_of_rule_states_are_events() -> None:
    run, state = Watched(), RuleState.NOT_ENOUGH_DATA
    waiting = RuleStatus(code="NUM001", name="n", state=state, reason="no step")
    fine = RuleStatus(code="NUM001", name="n", state=RuleState.OK)
    assert run.look(rules=(waiting,)) == ["started", "rule_state"]
    assert run.look(rules=(waiting,)) == []
    assert run.look(rules=(fine,)) == ["rule_state"]
    (event,) = run.events
    assert (event.before, event.rule) == (RuleState.NOT_ENOUGH_DATA, fine)


def test_marks_of_people_are_events_and_mute_until_their_time() -> None:
    run = Watched()
    run.look(found())
    mark = Mark(fingerprint="NUM001-1", kind="muted", at_s=1.0, by="ada", until_s=1005.0)
    assert run.look(found(), marks={"NUM001-1": mark}) == ["muted"]
    assert run.events[0].text == "NUM001 num001 was muted by ada"
    assert run.look(found(), marks={"NUM001-1": mark}) == []
    assert run.alerts.is_muted("NUM001-1", 1004.0)
    assert not run.alerts.is_muted("NUM001-1", 1006.0)
    mark = Mark(fingerprint="NUM001-1", kind="acknowledged", at_s=2.0)
    assert run.look(found(), marks={"NUM001-1": mark}) == ["acknowledged"]
    assert run.alerts.is_acknowledged("NUM001-1")


def test_the_end_of_a_run_is_told_once() -> None:
    run = Watched()
    assert run.look(steps=5) == ["started"]
    assert run.look(steps=9, state="crashed") == ["crashed"]
    assert run.events[0].text == "r1 crashed after 9 steps"
    assert run.look(steps=9, state="crashed") == []
    assert Watched().look(state="finished") == ["started", "finished"]


def test_a_job_without_steps_has_stalled_and_may_do_so_again() -> None:
    run = Watched()
    run.look(steps=5)
    assert run.look(steps=6) == []
    run.now_s += 290
    assert run.look(steps=6) == []
    run.now_s += 20
    assert run.look(steps=6) == ["stalled"]
    assert run.look(steps=6) == []
    assert run.look(steps=7) == []
    run.now_s += 400
    assert run.look(steps=7) == [], "it once took as long"
    run.now_s += 20 * 400
    assert run.look(steps=7) == ["stalled"]


def test_lost_steps_are_told_again_when_they_have_doubled() -> None:
    run = Watched()
    assert run.look(lost_steps=3) == ["started", "lost_steps"]
    assert run.look(lost_steps=6) == []
    assert run.look(lost_steps=7) == ["lost_steps"]
