from __future__ import annotations

import math

import numpy as np
import pytest
from msgspec import structs
from tests.rules.evaluations import PLACE, evaluations
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.estimators import EstimatorFitted, PredictionsCompared
from mothtrap.core.facts.evaluations import Evaluation, NormAverages
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.labels_unrelated import LabelsUnrelated

GUESS = math.log(4)
LEARNED = GUESS * np.linspace(1.0, 0.2, 12)
APART = GUESS * np.linspace(1.01, 1.6, 12)


def check(found: list[Evaluation]) -> list[Finding]:
    return LabelsUnrelated().check(window(*found))


def test_fires_where_nothing_of_what_was_learned_holds() -> None:
    [finding] = check(evaluations(APART, LEARNED, guess=GUESS))
    assert finding.severity is Severity.WARNING
    assert (finding.step, finding.location) == (0, PLACE)
    assert "guessing gives 1.39" in finding.message


def test_waits_until_the_averages_of_batch_norms_are_of_the_training() -> None:
    found = evaluations(APART, LEARNED, guess=GUESS)
    slow = NormAverages(step=0, module="bn", momentum=0.01, updates=1)
    with pytest.raises(NotEnoughData):
        LabelsUnrelated().check(window(slow, *found))
    [finding] = LabelsUnrelated().check(window(structs.replace(slow, momentum=0.1), *found))
    assert finding.count == 12


@pytest.mark.parametrize(
    ("values", "train"),
    [
        pytest.param(LEARNED * 1.1, LEARNED, id="it holds"),
        pytest.param(
            np.concatenate([[GUESS * 0.9], APART[1:]]), LEARNED, id="it held once: overfit"
        ),
        pytest.param(
            APART,
            np.concatenate([LEARNED[:8], np.full(4, GUESS)]),
            id="what was learned by heart was lost again",
        ),
        pytest.param(np.full(12, GUESS * 1.1), LEARNED, id="the evaluated weights stand still"),
    ],
)
def test_stays_quiet(values: np.ndarray, train: np.ndarray) -> None:
    assert check(evaluations(values, train, guess=GUESS)) == []


def test_fires_where_the_losses_drift_apart_slowly() -> None:
    noise = 0.002 * np.random.default_rng(0).normal(size=(2, 25))
    train = GUESS * (np.linspace(1.003, 0.955, 25) + noise[0])
    [finding] = check(
        evaluations(GUESS * (np.linspace(1.0, 1.03, 25) + noise[1]), train, guess=GUESS)
    )
    assert finding.severity is Severity.WARNING
    assert "training loss fell to 1.3" in finding.message


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(np.full(25, 1.002), id="evaluation stays where it is"),
        pytest.param(1.01 + 0.01 * (-1.0) ** np.arange(25), id="evaluation hovers"),
        pytest.param(np.linspace(1.03, 1.0, 25), id="evaluation falls, too"),
    ],
)
def test_waits_where_training_creeps_and_evaluation_does_not_rise(values: np.ndarray) -> None:
    train = GUESS * np.linspace(1.003, 0.955, 25)
    with pytest.raises(NotEnoughData, match="has memorized nothing yet"):
        check(evaluations(GUESS * values, train, guess=GUESS))


def test_does_not_apply_where_the_best_guess_is_unknown() -> None:
    with pytest.raises(NotApplicable, match="guessing"):
        check(evaluations(APART, LEARNED))


def test_does_not_apply_to_a_gan() -> None:
    turns = np.arange(0, 100, 2)
    game = (
        loss(np.ones(50), of="gan.py:5", optimizers=("D",), steps=turns),
        loss(np.ones(50), of="gan.py:9", optimizers=("G",), steps=turns + 1),
    )
    with pytest.raises(NotApplicable, match="compete"):
        LabelsUnrelated().check(window(*game, *evaluations(APART, LEARNED, guess=GUESS)))


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (evaluations(APART[:4], LEARNED[:4], guess=GUESS), "fewer than 5"),
        (evaluations(APART, LEARNED, guess=GUESS, rows=20), "50 rows"),
        (evaluations(APART, np.full(12, GUESS), guess=GUESS), "has memorized nothing yet"),
        (evaluations(APART, LEARNED * 0.5, guess=GUESS), "before the first evaluation"),
        (evaluations(APART, guess=GUESS), "fewer than 5 evaluations follow"),
        ([], "no evaluation loss was recorded"),
    ],
)
def test_cannot_judge_little(found: list[Evaluation], reason: str) -> None:
    with pytest.raises(NotEnoughData, match=reason):
        check(found)


def test_one_loss_that_holds_is_judged_though_another_is_at_chance() -> None:
    waits = evaluations(APART, np.full(12, GUESS), guess=GUESS, site="train.py:30")
    assert check([*waits, *evaluations(LEARNED, LEARNED, guess=GUESS)]) == []


def test_a_loss_that_tumbled_at_first_is_on_no_other_scale() -> None:
    tumbling = [21_561.0, 177.0, *np.linspace(3.2, 3.0, 10)]
    before = [810_680.0, 2_774.0, 21.9, *np.linspace(3.2, 3.0, 9)]
    with pytest.raises(NotEnoughData, match="neither training nor evaluation"):
        check(evaluations(tumbling, before, guess=1.3))


def fold(number: int, relation: float, **more) -> PredictionsCompared:
    told = {"estimator": "LogisticRegression", "site": "score", "location": "a.py:3"}
    return PredictionsCompared(
        **told | {"step": number, "rows": 105, "chance": 0.3} | more,
        fit=f"a#{number}",
        relation=relation,
    )


def test_one_weak_fold_of_several_is_chance() -> None:
    relations = (0.5, 0.41, 0.18, 0.35)
    assert LabelsUnrelated().check(window(*[fold(n, r) for n, r in enumerate(relations)])) == []
    [finding] = LabelsUnrelated().check(window(fold(0, 0.18)))
    assert "is 0.18" in finding.message
    unrelated = [fold(n, r) for n, r in enumerate((0.05, -0.1, 0.18, -0.04))]
    [finding] = LabelsUnrelated().check(window(*unrelated))
    elsewhere = fold(9, 0.6, location="a.py:9")
    [finding] = LabelsUnrelated().check(window(*unrelated, elsewhere))
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize(
    ("last", "exhausted", "fires"), [(0.55, True, False), (0.3, True, True), (0.55, False, True)]
)
def test_a_network_that_has_only_begun_to_learn(last: float, exhausted: bool, fires: bool) -> None:
    fitted = EstimatorFitted(
        step=0,
        fit="a#0",
        estimator="MLPRegressor",
        call="fit",
        rows=1000,
        columns=7,
        exhausted=exhausted,
        label_std=1.0,  # guessing the mean gives half of its square
        loss_curve=(0.76, last),
    )
    assert bool(LabelsUnrelated().check(window(fitted, fold(0, 0.02)))) is fires
