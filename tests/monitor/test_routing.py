"""Reactions to an event: rules, severity, layers, duration, stories, cooldown."""

from __future__ import annotations

import pytest
from tests.monitor.test_alerts import EXPLAINS, found, passed

from mothtrap.core.actions import reactions
from mothtrap.core.findings import Finding, RuleState, Severity
from mothtrap.core.marks import Mark
from mothtrap.core.runs import RuleStatus
from mothtrap.monitor import routing
from mothtrap.monitor.alerts import Alerts, Glance
from mothtrap.monitor.routing import Router


class Routed:
    """A made-up run with one reaction; `look` returns the events that trigger it."""

    def __init__(self, cooldown_s: float = 0.0, **when: object) -> None:
        self.alerts, self.now_s = Alerts(EXPLAINS), 1000.0
        table = {"do": ["stop"], "when": when, "cooldown_s": cooldown_s}
        self.router = Router(reactions([table]), self.alerts)

    def look(self, *findings: Finding, after_s: float = 1.0, **glance: object) -> list[str]:
        self.now_s += after_s
        now = Glance(id="r", path="r", now_s=self.now_s, findings=findings, **glance)  # type: ignore[arg-type]
        calls = self.router.route(self.alerts.look(now), self.now_s)
        return [
            f"{call.event.kind} {call.event.finding.code if call.event.finding else ''}".strip()
            + " again" * call.is_repeated
            for call in calls
        ]


def test_without_a_condition_warnings_and_errors_are_meant() -> None:
    assert Routed().look(found(), found("A1", severity=Severity.WARNING)) == [
        *("opened NUM001", "opened A1")
    ]
    assert Routed().look(found(severity=Severity.INFO)) == []


def test_rules_are_meant_by_code_or_family_and_layers_by_glob() -> None:
    assert Routed(rules=["NUM", "LOS402"]).look(found(), found("GRD101")) == ["opened NUM001"]
    inside, outside = found(layers=("blocks.1.q",)), found("NUM002", layers=("head",))
    assert Routed(layers=["blocks.*"]).look(inside, outside) == ["opened NUM001"]
    assert Routed(layers=["blocks.*"]).look(found()) == []


def test_a_finding_must_last_for_steps() -> None:
    run = Routed(for_steps=3)
    assert run.look(found(count=1)) == []
    assert run.look(found(count=2)) == []
    assert run.look(found(count=3)) == ["opened NUM001"]
    assert run.look(found(count=4)) == []


def test_a_finding_must_last_for_minutes_in_which_it_was_seen() -> None:
    run = Routed(for_minutes=2)
    assert run.look(found(last_step=5)) == []
    assert run.look(found(last_step=9), after_s=100) == []
    assert run.look(found(last_step=9), after_s=100) == [], "it was not seen since"
    assert run.look(found(last_step=10)) == ["opened NUM001"]


def test_one_that_passed_meanwhile_is_waited_for_no_more() -> None:
    run = Routed(for_steps=3)
    assert run.look(found(count=2)) == []
    assert run.look(passed(found(count=5))) == []
    assert run.look(passed(found(count=5))) == []


def test_what_follows_is_told_with_its_cause() -> None:
    run = Routed()
    assert run.look(found("LOS402", 3)) == ["opened LOS402"]
    assert run.look(found("LOS402", 3), found("NUM001", 7)) == ["opened NUM001 again"]
    together = Routed()
    assert together.look(found("NUM001", 7), found("LOS402", 3)) == [
        *("opened LOS402", "opened NUM001 again")
    ]


def test_an_effect_that_is_worse_than_what_was_told_is_told() -> None:
    run = Routed()
    cause = found("LOS402", 3, severity=Severity.WARNING)
    assert run.look(cause) == ["opened LOS402"]
    assert run.look(cause, found("NUM001", 7)) == ["opened NUM001"]


def test_an_effect_alone_is_told_where_its_cause_is_not_meant() -> None:
    run = Routed(rules=["NUM"])
    assert run.look(found("LOS402", 3), found("NUM001", 7)) == ["opened NUM001"]


def test_a_rule_that_flutters_is_told_once_in_the_cooldown() -> None:
    run = Routed(cooldown_s=3600, events=["opened", "reopened", "worsened"])
    mild = found(severity=Severity.WARNING)
    assert run.look(mild) == ["opened NUM001"]
    for _ in range(5):
        assert run.look(passed(mild)) == []
        assert run.look(mild) == []
    assert run.look(found()) == ["worsened NUM001"]
    assert run.look(passed(mild)) == []
    assert run.look(mild, after_s=4000) == ["reopened NUM001"]


def test_that_it_passed_is_told_only_to_whom_it_was_told() -> None:
    run = Routed(events=["opened", "passed"], rules=["NUM"])
    assert run.look(found("NUM002")) == ["opened NUM002"]
    assert run.look(passed(found("NUM002")), passed(found("NUM001"))) == ["passed NUM002"]


def test_muted_and_acknowledged_findings_are_not_told() -> None:
    for kind in ("muted", "acknowledged"):
        run = Routed()
        mark = Mark(fingerprint="NUM001-1", kind=kind, at_s=1.0)  # type: ignore[arg-type]
        run.look()
        mild = found(severity=Severity.INFO)
        run.look(mild, marks={"NUM001-1": mark})
        again = run.look(found(severity=Severity.WARNING), marks={"NUM001-1": mark})
        assert again == ([] if kind == "muted" else ["worsened NUM001"])


def test_rule_states_and_events_of_the_run_are_told_where_they_are_asked_for() -> None:
    failed = RuleStatus(code="NUM001", name="n", state=RuleState.RULE_FAILED)
    fine = RuleStatus(code="NUM002", name="m", state=RuleState.OK)
    assert Routed().look(rules=(failed, fine), state="crashed") == []
    assert Routed(states=["rule_failed"]).look(rules=(failed, fine)) == ["rule_state"]
    assert Routed(states=["ok"], rules=["GRD"]).look(rules=(fine,)) == []
    assert Routed(events=["crashed", "started"]).look(state="crashed") == ["started", "crashed"]


def reminding(**more: object) -> Routed:
    run = Routed()
    table = {"do": ["stop"], "cooldown_s": 0, "remind_s": 60, **more}
    run.router = Router(reactions([table]), run.alerts)
    return run


def test_an_active_finding_is_reported_again_until_it_passes() -> None:
    run = reminding()
    assert run.look(found()) == ["opened NUM001"]
    assert run.look(found(count=2), after_s=59) == []
    assert run.look(found(count=3), after_s=1) == ["opened NUM001"]
    assert run.look(found(count=3), after_s=30) == []
    assert run.look(found(count=4), after_s=30) == ["opened NUM001"]
    assert run.look(passed(found(count=4)), after_s=90) == []


def test_reminders_have_keys_and_texts_of_their_own() -> None:
    run = reminding()
    keys = []
    for _ in range(3):
        run.now_s += 60
        glance = Glance(id="r", path="r", now_s=run.now_s, findings=(found(),))
        calls = run.router.route(run.alerts.look(glance), run.now_s)
        keys += [(call.event.key, call.is_reminder) for call in calls]
        assert call_texts(calls)[-1].startswith("still active: ") is bool(len(keys) > 1)
    first = keys[0][0]
    assert [again for _, again in keys] == [False, True, True]
    assert all(key.startswith(f"{first}/reminder/") for key, _ in keys[1:])
    assert len(set(keys)) == 3


def test_a_monitor_that_takes_over_sends_further_reminders_under_keys_of_their_own() -> None:
    keys: list[str] = []
    now_s = 0.0
    for _ in range(2):  # the second one has no record of the reminders of the first
        run = reminding()
        run.now_s = now_s
        for _ in range(3):
            run.now_s += 60
            glance = Glance(id="r", path="r", now_s=run.now_s, findings=(found(),))
            calls = run.router.route(run.alerts.look(glance), run.now_s)
            keys += [call.event.key for call in calls if call.is_reminder]
        now_s = run.now_s
    assert len(set(keys)) == len(keys) == 4


def call_texts(calls: list) -> list[str]:  # type: ignore[type-arg]
    return [call.event.text for call in calls]


def test_no_reminder_of_acknowledged_findings_and_ended_jobs() -> None:
    run = reminding()
    assert run.look(found()) == ["opened NUM001"]
    mark = Mark(fingerprint=found().fingerprint, kind="acknowledged", at_s=1.0)
    assert run.look(found(), after_s=90, marks={found().fingerprint: mark}) == []
    run = reminding()
    assert run.look(found()) == ["opened NUM001"]
    run.now_s += 90
    assert run.router.route([], run.now_s, is_running=False) == []


def test_effects_of_a_reported_cause_are_not_reminded_of() -> None:
    run = reminding()
    cause, effect = found("LOS402", step=1), found("NUM001", step=2)
    assert run.look(cause, effect) == ["opened LOS402", "opened NUM001 again"]
    assert run.look(cause, effect, after_s=60) == ["opened LOS402"]


def test_in_quiet_hours_a_reaction_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = True
    monkeypatch.setattr(routing, "is_within", lambda hours, now_s: quiet and hours == "22:00-07:00")
    run = reminding(quiet_hours="22:00-07:00")
    other = found("GRD101", step=3)
    assert run.look(found(), other) == []
    assert run.look(found(count=2), passed(other)) == []
    quiet = False
    assert run.look(found(count=3), passed(other)) == ["opened NUM001"], "the other has passed"


def test_what_waits_in_quiet_hours_is_sent_at_once_if_the_job_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routing, "is_within", lambda hours, now_s: bool(hours))
    run = reminding(quiet_hours="22:00-07:00")
    assert run.look(found()) == []
    [call] = run.router.route([], run.now_s + 1, is_running=False)
    assert call.event.finding is not None
    assert call.event.finding.code == "NUM001"
