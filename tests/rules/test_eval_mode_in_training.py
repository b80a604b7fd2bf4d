from __future__ import annotations

import pytest
from tests.rules.evaluations import evaluations
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.fact import Fact
from mothtrap.core.facts.evaluations import TrainingMode
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.eval_mode_in_training import eval_mode_in_training


def mode(
    step: int,
    *,
    trains: bool,
    dropouts: tuple[str, ...] = ("drop",),
    norms: tuple[str, ...] = (),
    sleeping: tuple[str, ...] = (),
    module: str = "Net",
) -> TrainingMode:
    return TrainingMode(
        step=step,
        module=module,
        module_type="Net",
        trains=trains,
        dropouts=dropouts,
        norms=norms,
        sleeping=sleeping,
        location="model.py:3",
    )


def check(*facts: Fact, steps: int = 100) -> list[Finding]:
    return eval_mode_in_training().check(window(*facts, steps=steps))


def test_an_evaluation_after_which_training_mode_did_not_come_back_is_an_error() -> None:
    evaluation = evaluations([0.5], every=40)
    [finding] = check(mode(0, trains=True), *evaluation, mode(40, trains=False))
    assert finding.severity is Severity.ERROR
    assert (finding.step, finding.layers, finding.location) == (40, ("Net",), "model.py:3")
    assert "train() was not called after an evaluation" in finding.message
    assert "dropout off" in finding.message


def test_without_an_evaluation_before_it_is_a_warning() -> None:
    [finding] = check(mode(0, trains=True), mode(40, trains=False, norms=("bn",)))
    assert finding.severity is Severity.WARNING
    assert "dropout off and batch norms using running statistics" in finding.message


def test_evaluation_mode_from_the_start_is_a_warning() -> None:
    [finding] = check(mode(0, trains=False, dropouts=(), norms=("bn",)))
    assert (finding.severity, finding.step) == (Severity.WARNING, 0)


def test_batch_norms_that_were_frozen_alone_are_a_note() -> None:
    [finding] = check(mode(0, trains=True, norms=("bn1", "bn2"), sleeping=("bn1",)))
    assert (finding.severity, finding.layers) == (Severity.INFO, ("bn1",))


def test_the_worst_module_is_told() -> None:
    [finding] = check(
        mode(0, trains=True, module="A", sleeping=("drop",)), mode(0, trains=False, module="B")
    )
    assert finding.layers == ("B",)


@pytest.mark.parametrize(
    "modes",
    [
        pytest.param((mode(0, trains=True),), id="training mode"),
        pytest.param((mode(0, trains=False), mode(50, trains=True)), id="came back"),
        pytest.param((mode(0, trains=True), mode(95, trains=False)), id="not for long"),
    ],
)
def test_stays_quiet(modes: tuple[TrainingMode, ...]) -> None:
    assert check(*modes) == []


def test_does_not_apply_where_the_mode_changes_nothing() -> None:
    with pytest.raises(NotApplicable, match="dropout or batch norms"):
        check(mode(0, trains=False, dropouts=()))


def test_cannot_judge_before_a_step() -> None:
    with pytest.raises(NotEnoughData, match="training step"):
        check()
