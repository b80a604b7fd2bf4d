from __future__ import annotations

import pytest
from tests.rules.boosting import FIT, began, table
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.trees import GradientsGiven, ScoresSeen
from mothtrap.core.findings import Severity
from mothtrap.rules.wrong_objective_gradient import wrong_objective_gradient


def check(*parts, rule: wrong_objective_gradient = wrong_objective_gradient()):  # noqa: B008
    return rule.check(window(*parts))


def seen(**more) -> GradientsGiven:
    return GradientsGiven(**{"step": 0, "fit": FIT, "rows": 100, "against": -0.9} | more)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"against": 0.9}, "sign is wrong"),
        ({"hessians_below": 0.5}, "50.0 % of the hessians"),
        ({"nonfinite": 3}, "3 gradients or hessians"),
    ],
)
def test_fires(more, words: str) -> None:
    [finding] = check(began(), seen(**more))
    assert finding.severity is Severity.ERROR
    assert words in finding.message


def test_stays_quiet() -> None:
    assert check(began(), seen()) == []
    assert check(began(), seen(against=None)) == []


def test_margins_that_are_clipped_to_probabilities_are_a_warning() -> None:
    labels = table(label_min=0.0, label_max=1.0)
    [finding] = check(began(), labels, seen(shift_spread=5e5))
    assert finding.severity is Severity.WARNING
    assert "spread by 5e+05 (limit 1000)" in finding.message
    assert "sigmoid" in finding.fixes[0]
    assert check(began(), labels, seen(shift_spread=2.0)) == []
    amounts = table(counts=None, label_min=0.0, label_max=9e6)
    assert check(began(), amounts, seen(shift_spread=5e5)) == []


def scored(relation: float, **more) -> ScoresSeen:
    given = {"step": 9, "fit": FIT, "site": "train", "rounds": 10, "rows": 75, "last": True}
    return ScoresSeen(**given | more, relation=relation)


def test_predictions_that_fall_as_the_labels_rise_are_an_error() -> None:
    fit = began(objective="custom", library="catboost")
    [finding] = check(fit, scored(-0.8))
    assert finding.severity is Severity.ERROR
    assert "derivative has the wrong sign" in finding.message
    assert "target - approx" in finding.fixes[0]
    assert check(fit, scored(0.8)) == []
    assert check(fit, scored(-0.1)) == []
    with pytest.raises(NotEnoughData, match="50 rows"):
        check(fit, scored(-0.8, rows=40))
    with pytest.raises(NotEnoughData, match="no gradients"):
        check(began(), scored(-0.8))


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotEnoughData):
        check(began())


@pytest.mark.parametrize(("library", "fix"), [("lightgbm", "ravel"), ("xgboost", "ravel")])
def test_gradients_in_the_order_of_the_other_library_are_an_error(library: str, fix: str) -> None:
    right, wrong = {"by_row": 1.0, "by_class": 0.35}, {"by_row": 0.35, "by_class": 1.0}
    given, other = (right, wrong) if library == "lightgbm" else (wrong, right)
    [finding] = check(began(library=library), seen(against=None, **given))
    assert finding.severity is Severity.ERROR
    assert "smallest gradient in 35" in finding.message
    assert fix in finding.fixes[0]
    assert check(began(library=library), seen(against=None, **other)) == []
    assert check(began(library=library), seen(against=None, by_row=0.9, by_class=0.9)) == []
