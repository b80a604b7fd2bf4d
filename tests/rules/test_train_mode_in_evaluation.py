from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.fact import Fact
from mothtrap.core.facts.evaluations import EvaluationPhase
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.steps import Mode
from mothtrap.core.window import Series
from mothtrap.rules.train_mode_in_evaluation import TrainModeInEvaluation

CLASS_LOSS = LossCall(step=0, operation="cross_entropy", prediction_shape=(32, 10), classes=10)


def phases(
    *,
    count: int = 4,
    steps: int = 20,
    forwards: int = 1,
    labelled: int = 1,
    trains: bool = True,
    repeated: bool = False,
    dropouts: tuple[str, ...] = ("drop",),
    updating: tuple[str, ...] = (),
    dropping: tuple[str, ...] = (),
    created: bool = False,
    output_shape: tuple[int, ...] | None = (200, 10),
) -> list[EvaluationPhase]:
    return [
        EvaluationPhase(
            step=steps * (number + 1),
            mode=Mode.EVAL,
            module="Net",
            module_type="Net",
            forwards=forwards,
            trains=trains,
            number=number,
            steps=steps,
            labelled=labelled,
            repeated=repeated,
            dropouts=dropouts if trains else (),
            updating=updating if trains else (),
            dropping=dropping,
            created=created,
            output_shape=output_shape,
            location="train.py:30",
        )
        for number in range(count)
    ]


def check(*parts: Fact | Series) -> list[Finding]:
    return TrainModeInEvaluation().check(window(*parts))


def test_losses_of_several_evaluations_in_training_mode_are_an_error() -> None:
    [finding] = check(*phases())
    assert finding.severity is Severity.ERROR
    assert (finding.step, finding.mode, finding.location) == (20, "eval", "train.py:30")
    assert finding.layers == ("Net", "drop")
    assert "in 4 evaluations, always in training mode: dropout (drop) active" in finding.message


def test_one_long_evaluation_is_enough() -> None:
    [finding] = check(*phases(count=1, forwards=10, labelled=10))
    assert finding.severity is Severity.ERROR


def test_two_evaluations_that_compute_a_loss_are_enough() -> None:
    [finding] = check(*phases(count=2))
    assert finding.severity is Severity.ERROR
    assert "ran 2 times in 2 evaluations" in finding.message
    with pytest.raises(NotEnoughData):
        check(*phases(count=1))
    assert check(*phases(count=2, dropouts=(), trains=False)) == []


def test_parts_that_update_buffers_count_like_batch_norms() -> None:
    [finding] = check(*phases(dropouts=(), updating=("flow.1",)))
    assert finding.severity is Severity.ERROR
    assert finding.message.endswith("always in training mode: updates of buffers (flow.1) active")


def test_one_test_of_a_trained_model_is_enough() -> None:
    [finding] = check(*phases(count=1, steps=60))
    assert finding.severity is Severity.WARNING
    [finding] = check(CLASS_LOSS, *phases(count=1, steps=60, labelled=0))
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize(
    "other",
    [
        {"steps": 40},  # the model has hardly been trained
        {"output_shape": (10, 10)},  # a few rows to look at
        {"output_shape": (200, 3)},  # no prediction
        {"dropouts": ()},
    ],
)
def test_one_forward_may_have_another_purpose(other: dict[str, object]) -> None:
    given: dict[str, object] = {"count": 1, "steps": 60, "labelled": 0, **other}
    with pytest.raises((NotEnoughData, NotApplicable)):
        check(CLASS_LOSS, *phases(**given))


def test_what_is_evaluated_at_every_step_is_a_warning() -> None:
    [finding] = check(*phases(steps=1))
    assert finding.severity is Severity.WARNING


def test_an_accuracy_is_taken_of_what_the_training_loss_is_computed_on() -> None:
    [finding] = check(CLASS_LOSS, *phases(labelled=0))
    assert (finding.severity, finding.confidence) == (Severity.WARNING, "medium")
    [finding] = check(CLASS_LOSS, *phases(count=1, forwards=10, labelled=0))  # after the training
    assert finding.severity is Severity.WARNING
    assert "in 1 evaluation, always" in finding.message


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(phases(labelled=0), id="unknown loss"),
        pytest.param([CLASS_LOSS, *phases(labelled=0, output_shape=(8, 64))], id="other outputs"),
    ],
)
def test_forwards_whose_purpose_is_unknown_are_a_note(parts: list[Fact]) -> None:
    [finding] = check(*parts)
    assert finding.severity is Severity.INFO


def test_samples_of_a_generator_are_a_note() -> None:
    turns = np.arange(0, 80, 2)
    game = (
        loss(np.ones(40), of="gan.py:5", optimizers=("D",), steps=turns),
        loss(np.ones(40), of="gan.py:9", optimizers=("G",), steps=turns + 1),
    )
    [finding] = check(*game, CLASS_LOSS, *phases(labelled=0))
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(phases(trains=False), id="evaluation mode"),
        pytest.param([*phases(), *phases(count=1, trains=False)], id="at times on purpose"),
        pytest.param([CLASS_LOSS, *phases(labelled=0, steps=1)], id="pseudo labels at each step"),
        pytest.param(phases(forwards=20, repeated=True), id="dropout sampled on purpose"),
    ],
)
def test_stays_quiet(found: list[Fact]) -> None:
    assert check(*found) == []


def test_does_not_apply_without_dropout_and_batch_norms() -> None:
    with pytest.raises(NotApplicable, match="dropout or batch norms"):
        check(*phases(dropouts=()))


@pytest.mark.parametrize(
    "few",
    [
        pytest.param(phases(count=1), id="one forward, as of a dry run"),
        pytest.param(phases(count=2, forwards=5, labelled=0), id="two evaluations without a loss"),
    ],
)
def test_cannot_judge_a_few_evaluations(few: list[EvaluationPhase]) -> None:
    with pytest.raises(NotEnoughData, match="too few"):
        check(*few)


def test_cannot_judge_before_the_first_step() -> None:
    with pytest.raises(NotEnoughData, match="no evaluation of a training model"):
        check(*phases(count=3, steps=0))


def test_a_dropout_function_that_does_not_get_the_mode_is_a_warning() -> None:
    [finding] = check(*phases(trains=False, dropping=("body",)))
    assert (finding.severity, finding.title) == (Severity.WARNING, "dropout in evaluation")
    assert "dropout in the `forward` of body was always active" in finding.message
    assert finding.fixes[0].startswith("Pass the mode to the function")
    [other] = check(*phases())
    assert other.fixes[0].startswith("Call `model.eval()`")
    assert not any("in `__init__`" in fix for fix in (*finding.fixes, *other.fixes))


def test_a_dropout_that_forward_creates_is_a_warning() -> None:
    [finding] = check(*phases(trains=False, dropping=("body",), created=True))
    assert finding.severity is Severity.WARNING
    assert "`forward` creates the module" in finding.message
    assert len(finding.fixes) == 1
    assert finding.fixes[0].startswith("Create the dropout in `__init__`")


def test_rows_of_one_graph_are_evaluated_with_the_same_input() -> None:
    [finding] = check(*phases(forwards=2, labelled=2, repeated=True))
    assert finding.severity is Severity.ERROR
    assert check(*phases(forwards=20, labelled=1, repeated=True)) == []
