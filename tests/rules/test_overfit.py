from __future__ import annotations

import numpy as np
import pytest
from msgspec import structs
from tests.rules.evaluations import PLACE, evaluations
from tests.rules.windows import loss, noise, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import RowsShared
from mothtrap.core.facts.evaluations import Evaluation, NormAverages
from mothtrap.core.facts.workers import WeightsReturned
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.steps import Mode
from mothtrap.rules.overfit import Overfit

N = 20
TURN = 6
FALLING = 1.0 * 0.8 ** np.arange(N)
VALID = np.concatenate([np.linspace(1.0, 0.5, TURN), np.linspace(0.52, 0.9, N - TURN)])


def check(found: list[Evaluation], rule: Overfit = Overfit()) -> list[Finding]:  # noqa: B008
    return rule.check(window(*found))


def test_fires_where_evaluation_turned_up_while_training_fell() -> None:
    [finding] = check(evaluations(VALID, FALLING))
    assert finding.severity is Severity.WARNING
    assert finding.step == 10 * TURN + 10
    assert (finding.mode, finding.location) == ("eval", PLACE)
    assert finding.evidence["best"] == 0.5
    assert "best: 0.5 at step 60" in finding.message


def test_of_the_rows_that_were_trained_on_nothing_is_learned_by_heart() -> None:
    shared = RowsShared(
        step=0, module="net", argument="x", source=PLACE, train_rows=200, eval_rows=200, shared=200
    )
    with pytest.raises(NotApplicable, match="the evaluated rows are the training rows"):
        Overfit().check(window(shared, *evaluations(VALID, FALLING)))
    some = structs.replace(shared, shared=20)
    assert Overfit().check(window(some, *evaluations(VALID, FALLING)))


def test_a_return_to_the_best_weights_makes_it_a_note() -> None:
    every = evaluations(VALID, FALLING)
    back = WeightsReturned(step=every[-1].step, module="Net", kept_step=10 * TURN)
    [finding] = Overfit().check(window(*every, back))
    assert finding.severity is Severity.INFO
    assert finding.message.endswith("then the script went back to the weights of step 60")
    assert not any("Stop at the best evaluation" in fix for fix in finding.fixes)
    for other in (
        structs.replace(back, step=every[-2].step),  # training continued
        structs.replace(back, kept_step=every[-2].step),  # these weights overfit, too
    ):
        [finding] = Overfit().check(window(*every, other))
        assert finding.severity is Severity.WARNING


def test_says_nothing_of_averages_that_lag_behind() -> None:
    slow = NormAverages(step=0, module="bn", momentum=0.01, updates=1)
    rising, falling = np.linspace(0.7, 1.5, 15), 0.9 ** np.arange(50)
    # After 150 steps 22 % of the averages are still their first value.
    assert Overfit().check(window(*evaluations(rising, falling[:15])))
    with pytest.raises(NotEnoughData, match="averages of batch norms"):
        Overfit().check(window(slow, *evaluations(rising, falling[:15])))
    lagging = np.concatenate([rising, np.linspace(1.5, 0.8, 35)])
    assert Overfit().check(window(*evaluations(lagging, falling)))
    assert Overfit().check(window(slow, *evaluations(lagging, falling))) == []
    later = evaluations(lagging, falling)
    assert Overfit().check(window(structs.replace(slow, step=400), *later)), "of another model"


def test_lagging_averages_do_no_harm_to_what_has_learned() -> None:
    slow = NormAverages(step=0, module="bn", momentum=0.001, updates=1)
    learned = np.concatenate([np.linspace(1.0, 0.3, TURN), np.linspace(0.32, 0.9, N - TURN)])
    [finding] = Overfit().check(window(slow, *evaluations(learned, FALLING)))
    assert finding.evidence["best_step"] == 60


def test_evaluations_are_compared_with_the_first_that_counts() -> None:
    slow = NormAverages(step=0, module="bn", momentum=0.025, updates=1)
    # The first loss is that of averages that had not begun to move.
    broken = np.concatenate([[9.0], np.full(5, 8.9), np.linspace(0.6, 1.2, 14)])
    assert Overfit().check(window(slow, *evaluations(broken, 0.01 * FALLING)))


def test_fires_on_fine_tuning_whose_first_evaluation_was_its_best() -> None:
    [finding] = check(evaluations([0.35, 0.40, 0.46, 0.55], [0.6, 0.3, 0.2, 0.1]))
    assert finding.evidence["best_step"] == 10


def test_what_was_gained_counts_from_guessing() -> None:
    rising = np.concatenate([[0.45, 0.4], np.full(8, 0.45)])
    assert check(evaluations(rising, FALLING[:10], guess=0.46))
    assert check(evaluations(rising, FALLING[:10], guess=2.3)) == []


@pytest.mark.parametrize(
    ("values", "train"),
    [
        pytest.param(FALLING + 0.2, FALLING, id="both fall"),
        pytest.param(np.maximum(FALLING, 0.3) + noise(N, scale=0.005), FALLING, id="a plateau"),
        pytest.param(VALID, np.full(N, 1.2), id="training stays above"),
        pytest.param(VALID, VALID * 0.8, id="both rise: something else is wrong"),
        pytest.param(
            np.concatenate([np.geomspace(2.3, 0.04, 10), np.linspace(0.04, 0.06, 10)]),
            FALLING,
            id="a small loss near its floor",
        ),
        pytest.param(np.where(np.arange(N) % 4 == 3, 0.8, 0.5), FALLING, id="single bad ones"),
    ],
)
def test_stays_quiet(values: np.ndarray, train: np.ndarray) -> None:
    assert check(evaluations(values, train)) == []


def test_an_evaluation_that_is_not_finite_does_not_confuse_it() -> None:
    found = evaluations(np.where(np.arange(N) == 3, np.nan, VALID), FALLING)
    assert check(found)


def test_a_training_loss_that_is_summed_over_the_batch_is_brought_to_scale() -> None:
    assert check(evaluations(VALID, 64 * FALLING))
    assert check(evaluations(FALLING + 0.2, 64 * FALLING)) == []


def test_does_not_apply_to_a_gan() -> None:
    turns = np.arange(0, 100, 2)
    game = (
        loss(np.ones(50), of="gan.py:5", optimizers=("D",), steps=turns),
        loss(np.ones(50), of="gan.py:9", optimizers=("G",), steps=turns + 1),
    )
    with pytest.raises(NotApplicable, match="compete with"):
        Overfit().check(window(*game, *evaluations(VALID, FALLING)))


def test_cannot_judge_without_evaluations_or_training() -> None:
    with pytest.raises(NotEnoughData, match="no evaluation loss was recorded"):
        check([])
    with pytest.raises(NotEnoughData, match="no finite evaluation loss"):
        check(evaluations([np.nan, np.inf], [1.0, 1.0]))
    with pytest.raises(NotEnoughData, match="no finite evaluation loss"):
        Overfit().check(window(loss(FALLING), loss([np.nan], steps=[2], mode=Mode.EVAL)))
    with pytest.raises(NotEnoughData, match="needs 4 evaluations"):
        check(evaluations(VALID[:3], FALLING[:3]))
    with pytest.raises(NotEnoughData, match="no training loss"):
        check(evaluations(VALID))


# The parameters of the rule Overfit of SageMaker Debugger: a rule that looks at the gap alone.

GAP = evaluations([1.0, 0.8, 0.66, 0.55, 0.44], [1.0, 0.75, 0.55, 0.45, 0.3])
GAP_ONLY = {"while_improving": True, "patience": 1, "ratio": 0.1}


def test_the_gap_alone_can_be_judged() -> None:
    [finding] = check(GAP, Overfit(**GAP_ONLY))
    assert finding.step == 30
    assert check(GAP) == []


def test_ratio_threshold_is_ratio() -> None:
    [finding] = check(GAP, Overfit(**{**GAP_ONLY, "ratio": 0.4}))
    assert finding.step == 50
    assert check(GAP, Overfit(**{**GAP_ONLY, "ratio": 0.5})) == []


def test_patience_is_patience() -> None:
    assert check(GAP, Overfit(**{**GAP_ONLY, "patience": 3}))
    assert check(GAP, Overfit(**{**GAP_ONLY, "patience": 4})) == []


def test_start_step_is_start_step() -> None:
    [finding] = check(GAP, Overfit(**{**GAP_ONLY, "start_step": 40}))
    assert finding.step == 40
    assert check(GAP, Overfit(**{**GAP_ONLY, "start_step": 60})) == []


def test_tensor_regex_is_site() -> None:
    assert check(GAP, Overfit(**{**GAP_ONLY, "site": "train.py:20"}))
    with pytest.raises(NotEnoughData):
        check(GAP, Overfit(**{**GAP_ONLY, "site": "other.py"}))


def test_a_program_that_evaluates_at_every_step_needs_more_of_them() -> None:
    steps = np.arange(200)
    values = np.where(steps < 195, 0.5 + np.exp(-steps / 20), 0.7)
    assert check(evaluations(values, np.exp(-steps / 40), every=1)) == []
    values = np.where(steps < 185, 0.5 + np.exp(-steps / 20), 0.7)
    assert check(evaluations(values, np.exp(-steps / 40), every=1))
