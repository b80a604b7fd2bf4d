from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.optimizers import OptimizerFacts, ScheduleEnded
from mothtrap.core.facts.trainers import TrainerSettings
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.schedule_of_batches import ScheduleOfBatches


def check(
    planned: int,
    calls: int,
    *,
    steps: int = 100,
    batches: int = 400,
    processes: int = 1,
    warms_up: bool = False,
    optimizers: int = 1,
    trainer: str = "",
) -> list[Finding]:
    ended = ScheduleEnded(
        step=steps - 1,
        schedule="LambdaLR",
        argument="num_training_steps",
        planned=planned,
        calls=calls,
        steps=steps,
        passes=10,
        batches=batches,
        processes=processes,
        warms_up=warms_up,
        location="train.py:7",
    )
    used = [OptimizerFacts(step=0, optimizer=f"SGD#{n}", kind="SGD") for n in range(optimizers)]
    trained = TrainerSettings(step=0, trainer=trainer, model="Net", accumulates=1)
    return ScheduleOfBatches().check(window(ended, *used, *([trained] if trainer else [])))


def test_a_schedule_of_batches_that_is_called_in_each_step() -> None:
    [finding] = check(400, 100)
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:7")
    assert "LambdaLR (num_training_steps=400) plans for 400 calls" in finding.message
    assert "the rate covered only 25 % of the schedule" in finding.message
    assert finding.fixes[0].startswith("Plan for the calls")


def test_a_schedule_of_steps_that_is_called_for_each_batch() -> None:
    [finding] = check(100, 400)
    assert "as many as there are steps (100)" in finding.message
    assert "it ended after 25 % of the training" in finding.message
    assert finding.fixes[0].startswith("Call `scheduler.step()` only after")


@pytest.mark.parametrize(("planned", "calls"), [(200, 100), (100, 200)])
@pytest.mark.parametrize("trainer", ["", "Accelerator"])
def test_batches_of_all_processes(planned: int, calls: int, trainer: str) -> None:
    [finding] = check(planned, calls, batches=100, processes=2, trainer=trainer)
    assert "batches of 2 processes" in finding.message
    assert finding.fixes[0].startswith("With Accelerate") == bool(trainer)


def test_accelerate_calls_a_schedule_for_each_process() -> None:
    [finding] = check(800, 200, processes=2, trainer="Accelerator")
    assert "batches of 2 processes (800), but was called 200 times in 100 steps" in finding.message
    assert finding.fixes[0].startswith("Plan for the calls")
    assert check(200, 200, batches=100, processes=2, trainer="Accelerator") == []


@pytest.mark.parametrize(
    ("planned", "calls"),
    [
        pytest.param(400, 400, id="batches"),
        pytest.param(100, 100, id="steps"),
        pytest.param(1000, 100, id="a job that ended early"),
        pytest.param(200, 100, id="another number"),
        pytest.param(400, 10, id="passes"),
    ],
)
def test_stays_quiet(planned: int, calls: int) -> None:
    assert check(planned, calls) == []


def test_one_batch_a_step_says_nothing() -> None:
    assert check(400, 100, batches=100) == []
    assert check(400, 100, batches=0) == []
    assert check(400, 100, warms_up=True) == []
    assert check(32, 8, steps=8, batches=32) == []
    with pytest.raises(NotApplicable):
        check(400, 100, optimizers=2)


def test_needs_a_schedule() -> None:
    with pytest.raises(NotEnoughData):
        ScheduleOfBatches().check(window())
