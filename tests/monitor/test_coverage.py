"""A rule whose required data are missing is never reported as ok."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.capture.recording import Arithmetic, Clock
from tests.reader.runs import info
from tests.store.records import record as stored

from mothtrap.capture.containment import Containment
from mothtrap.capture.grouper import ClosedStep
from mothtrap.capture.readiness import Looks
from mothtrap.capture.recorder import Recorder
from mothtrap.capture.selection import streams
from mothtrap.core.config import Config
from mothtrap.core.errors import NotApplicable
from mothtrap.core.fact import Fact
from mothtrap.core.facts.evaluations import Evaluation
from mothtrap.core.facts.looks import AdapterReports, Cannot, Looked
from mothtrap.core.facts.modules import UnreachedModule
from mothtrap.core.facts.optimizers import ClippedLate
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.findings import Finding, RuleState, Severity
from mothtrap.core.needs import Need, any_of
from mothtrap.core.records import StepRecord
from mothtrap.core.reports import Reports
from mothtrap.core.rule import Rule
from mothtrap.core.runs import RuleStatus
from mothtrap.core.steps import Mode
from mothtrap.core.window import Window
from mothtrap.monitor.afterwards import judge_again
from mothtrap.monitor.catalogue import load_rules
from mothtrap.monitor.coverage import EXEMPT, Coverage
from mothtrap.monitor.monitor import Monitor
from mothtrap.reader.run import open_run
from mothtrap.store import layout
from mothtrap.store.worker_log import WorkerLog

STEPS = 600
OF_LOSSES = {
    *("nonfinite_loss", "loss_not_decreasing", "loss_diverging"),
    *("loss_oscillating", "loss_spike", "loss_unchanged", "stalled_training"),
}
"""Rules that evaluate nothing but losses and the clock."""
OK, LITTLE, NEVER = RuleState.OK, RuleState.NOT_ENOUGH_DATA, RuleState.NOT_APPLICABLE


class _Writing:
    """A sink that stores each record immediately."""

    def __init__(self, folder: Path) -> None:
        self._log = WorkerLog(folder)

    def put(self, record: StepRecord, *, urgent: bool = False) -> None:
        self._log.append([record])

    def close(self) -> None:
        self._log.close()


def loss_only_run(run: Path, can: Reports | None) -> None:
    """Store a job that reports only a loss."""
    attempt = layout.create_run(run, info())
    sink = _Writing(layout.claim_worker(attempt)[1])
    needs = [need for rule in load_rules(Config()) for need in rule.needs]
    clock = Clock()
    recorder = Recorder(
        Arithmetic(clock),
        streams(Config(), needs),
        Containment(lambda _: None),
        overhead=0.0,
        on_first_step=lambda: recorder.sinks.append(sink),
        looks=Looks(needs),
        clock=clock,
    )
    rng = np.random.default_rng(0)
    for step in range(STEPS):
        clock.now_s += 0.1
        if can is not None:
            recorder.looks.reports("toy", can, step)
        recorder.notes.scalar(
            "loss", "train.py:1", float(np.exp(-step / 200) + 0.01 * rng.normal())
        )
        recorder.close_step(
            ClosedStep(
                step=step, owners="", optimizers=(), skipped=False, series=(), micro_batches=1
            )
        )
    recorder.finish(WorkerEnded(step=STEPS, steps=STEPS, own_s=0.0, wall_s=60.0))
    sink.close()


def states(run: Path) -> dict[str, RuleStatus]:
    return {s.name: s for s in judge_again(open_run(run), load_rules(Config())).rules}


def test_a_run_that_reports_a_loss_only_has_no_ok_rule_but_those_of_losses(tmp_path: Path) -> None:
    loss_only_run(tmp_path / "run", Reports(scalars=frozenset({"loss"})))
    found = states(tmp_path / "run")
    ok = {name for name, status in found.items() if status.state is OK}
    assert ok == OF_LOSSES
    never = found["disconnected_parameter"]
    assert (never.state, never.reason) == (
        NEVER,
        'mothtrap does not record "unreached module" with toy',
    )
    assert found["nonfinite_gradient"].reason == 'mothtrap does not record "gradient" with toy'
    assert found["learning_rate_zero"].reason == 'mothtrap does not record "lr" with toy'


def test_what_could_come_and_was_not_looked_for_is_not_enough_data(tmp_path: Path) -> None:
    can = Reports(scalars=frozenset({"loss"}), facts=frozenset({UnreachedModule}))
    loss_only_run(tmp_path / "run", can)
    found = states(tmp_path / "run")["disconnected_parameter"]
    assert (found.state, found.reason) == (LITTLE, '"unreached module" was not checked')


def test_runs_that_do_not_say_what_can_come_are_judged_by_their_rules_alone(
    tmp_path: Path,
) -> None:
    loss_only_run(tmp_path / "run", None)
    assert states(tmp_path / "run")["disconnected_parameter"].state is OK


def test_the_exempt_rules_exist() -> None:
    assert {rule.name() for rule in load_rules(Config())} >= EXEMPT


# One rule, one need


CAN = AdapterReports(
    step=0,
    adapter="toy",
    kinds=("gradient", "weight"),
    scalars=("loss", "lr"),
    facts=("UnreachedModule", "ClippedLate"),
    modes=(Mode.TRAIN,),
)
WEIGHTS = Need(kinds=("weight",), statistics=("l2",))
MODULES = Need(facts=(UnreachedModule,))
EACH = Need(facts=(ClippedLate,), each_step=True)
LOSSES = Need(scalars=("loss",))
LOGGED = Need(scalars=("accuracy",))
EVALUATIONS = Need(facts=(Evaluation,))


def made(*needs: Need, answer: Exception | None = None) -> Rule:
    class Made(Rule):
        """It finds nothing."""

        code = "TST001"
        called = "made"

        def check(self, window: Window) -> list[Finding]:
            if answer is not None:
                raise answer
            return []

    Made.needs = needs
    return Made()


def looked(tag: str, *, missed: int = 0) -> Looked:
    return Looked(step=0, facts=(tag,), first=0, last=9, how_many=10 - missed, missed=missed)


def state(rule: Rule, *facts: Fact, **values: object) -> tuple[RuleState, str]:
    """Return the state of a rule after a step with these facts; the step has gradients."""
    monitor = Monitor([rule])
    monitor.feed(stored(0, observations=facts, **values))
    monitor.finish()
    (status,) = monitor.statuses()
    return status.state, status.reason


@pytest.mark.parametrize(
    ("needs", "facts", "expected"),
    [
        ((), (CAN,), (OK, "")),
        ((MODULES,), (CAN,), (LITTLE, '"unreached module" was not checked')),
        ((MODULES,), (CAN, looked("UnreachedModule")), (OK, "")),
        ((MODULES,), (CAN, looked("UnreachedModule", missed=5)), (OK, "")),
        ((MODULES,), (), (OK, "")),
        ((EACH,), (CAN, looked("ClippedLate")), (OK, "")),
        (
            (EACH,),
            (CAN, looked("ClippedLate", missed=5)),
            (LITTLE, '"clipped late" was not checked in 5 steps'),
        ),
        ((EVALUATIONS,), (CAN,), (NEVER, 'mothtrap does not record "evaluation" with toy')),
        ((WEIGHTS,), (CAN,), (LITTLE, "no l2 of weight was captured")),
        ((Need(scalars=("lr",)),), (CAN,), (LITTLE, "no lr was reported")),
        (
            (Need(scalars=("loss_scale",)),),
            (CAN,),
            (NEVER, 'mothtrap does not record "loss_scale" with toy'),
        ),
        ((LOGGED,), (CAN,), (LITTLE, "no accuracy was reported")),
        (any_of(EVALUATIONS, LOSSES), (CAN,), (OK, "")),
        (any_of(EVALUATIONS, MODULES), (CAN, looked("UnreachedModule")), (OK, "")),
        (
            any_of(EVALUATIONS, MODULES),
            (CAN,),
            (LITTLE, '"unreached module" was not checked'),
        ),
        (
            (Need(kinds=("gradient",), statistics=("l2",), modes=(Mode.EVAL,)),),
            (CAN,),
            (NEVER, 'mothtrap does not record steps of mode "eval" with toy'),
        ),
    ],
)
def test_the_state_follows_from_what_is_required(
    needs: tuple[Need, ...], facts: tuple[Fact, ...], expected: tuple[RuleState, str]
) -> None:
    assert state(made(*needs), *facts) == expected
    optional = [Need(facts=n.facts, scalars=n.scalars, optional=True) for n in needs]
    assert state(made(*optional), *facts) == (OK, "")


def test_what_another_adapter_of_the_job_reports_can_come() -> None:
    other = AdapterReports(step=0, adapter="other", facts=("Evaluation",))
    assert state(made(EVALUATIONS), CAN, other) == (LITTLE, '"evaluation" was not checked')


def test_what_an_adapter_says_it_cannot_report_never_comes_for_its_reason() -> None:
    cannot = Cannot(step=0, adapter="toy", why="no hooks were installed", facts=("ClippedLate",))
    assert state(made(EACH), CAN, cannot) == (NEVER, "no hooks were installed")
    other = AdapterReports(step=0, adapter="other", facts=("ClippedLate",))
    assert state(made(EACH), CAN, cannot, other)[0] is LITTLE


def test_a_rule_that_does_not_apply_says_so_only_where_someone_looked() -> None:
    rule = made(MODULES, answer=NotApplicable("no module is trained"))
    assert state(rule, CAN, looked("UnreachedModule")) == (NEVER, "no module is trained")
    assert state(rule, CAN) == (LITTLE, '"unreached module" was not checked')


def test_a_later_interval_takes_the_place_of_an_earlier() -> None:
    facts = (CAN, looked("ClippedLate"), looked("ClippedLate", missed=3))
    assert state(made(EACH), *facts)[0] is LITTLE


def test_of_two_adapters_that_look_one_unbroken_interval_is_enough() -> None:
    other = Looked(step=0, facts=("ClippedLate",), first=0, last=9, how_many=10, adapter="other")
    assert state(made(EACH), CAN, other, looked("ClippedLate", missed=3)) == (OK, "")


def test_a_finding_stays_whatever_was_looked_for() -> None:
    class Finds(Rule):
        """It finds something."""

        code = "TST002"
        called = "finds"
        needs = (EVALUATIONS,)

        def check(self, window: Window) -> list[Finding]:
            return [self.finding(window, severity=Severity.WARNING, step=0, message="x")]

    assert state(Finds(), CAN) == (RuleState.WARNING, "")


def test_a_failed_rule_stays_failed() -> None:
    rule = made(EVALUATIONS, answer=ZeroDivisionError("a planted fault"))
    assert state(rule, CAN)[0] is RuleState.RULE_FAILED


def test_coverage_without_reports_changes_nothing() -> None:
    assert Coverage().limited(made(EVALUATIONS), (OK, "")) == (OK, "")
