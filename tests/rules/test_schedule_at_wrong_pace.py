from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.optimizers import ScheduleEnded
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.schedule_at_wrong_pace import ScheduleAtWrongPace


def check(
    planned: int,
    calls: int,
    *,
    steps: int = 200,
    passes: int = 10,
    warms_up: bool = False,
    schedule: str = "OneCycleLR",
    argument: str = "total_steps",
) -> list[Finding]:
    ended = ScheduleEnded(
        step=steps - 1,
        schedule=schedule,
        argument=argument,
        planned=planned,
        calls=calls,
        steps=steps,
        passes=passes,
        warms_up=warms_up,
        location="train.py:7",
    )
    return ScheduleAtWrongPace().check(window(ended))


def test_a_schedule_of_steps_that_is_called_for_each_pass_is_reported() -> None:
    [finding] = check(200, 10)
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:7")
    assert "OneCycleLR (total_steps=200) plans for 200 calls" in finding.message
    assert "the rate covered 5 %" in finding.message


def test_a_schedule_of_passes_that_is_called_in_each_step_is_reported() -> None:
    [finding] = check(10, 200)
    assert "reaches the end of the schedule after 5 % of the training" in finding.message


def test_a_warm_up_that_is_called_for_each_pass_is_a_note() -> None:
    [finding] = check(150, 10, warms_up=True)
    assert finding.severity is Severity.INFO
    assert finding.message.endswith("the warm-up never ends")
    assert check(20, 10, warms_up=True) == []
    assert check(500, 10, warms_up=True) == []


def test_a_warm_up_of_steps_that_is_called_for_each_pass_is_a_warning() -> None:
    def warm_up(argument: str, planned: int, calls: int = 10) -> list[Finding]:
        return check(planned, calls, warms_up=True, schedule="LambdaLR", argument=argument)

    [finding] = warm_up("warmup_steps", 50)
    assert finding.severity is Severity.WARNING
    [finding] = warm_up("constant 1", 150)
    assert finding.severity is Severity.INFO
    assert warm_up("warmup_steps", 15) == []
    assert warm_up("warmup_epochs", 50) == []
    assert warm_up("warmup_steps", 50, 40) == []


@pytest.mark.parametrize(
    ("planned", "calls"),
    [
        pytest.param(200, 200, id="steps"),
        pytest.param(10, 10, id="passes"),
        pytest.param(1000, 10, id="a job that ended early"),
        pytest.param(50, 200, id="four cycles"),
        pytest.param(200, 1, id="one call"),
    ],
)
def test_stays_quiet(planned: int, calls: int) -> None:
    assert check(planned, calls) == []


def test_needs_a_schedule() -> None:
    with pytest.raises(NotEnoughData):
        ScheduleAtWrongPace().check(window())


def test_a_warm_up_longer_than_the_training_is_a_warning() -> None:
    [finding] = check(
        3360, 336, steps=336, warms_up=True, schedule="LambdaLR", argument="warmup_steps"
    )
    assert finding.severity is Severity.WARNING
    assert "raises the learning rate for 3360 steps, but training had only 336" in finding.message
    assert "LambdaLR (warmup_steps=3360)" in finding.message
    [finding] = check(3360, 336, steps=336, warms_up=True, schedule="LambdaLR", argument="")
    assert finding.message.startswith("LambdaLR raises")
    assert check(3360, 150, steps=150, warms_up=True) == []  # a trial
    assert check(400, 336, steps=336, warms_up=True) == []  # nearly there
    assert check(3360, 336, steps=336) == []  # no warm-up
