from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.rules.classified import classified
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.class_weights_inverted import class_weights_inverted

RARE = [[85, 0], [12, 3]]


def check(weights: Sequence[float], counts: Sequence[Sequence[int]] = RARE) -> list[Finding]:
    calls = classified(counts, class_weights=weights)
    return class_weights_inverted().check(window(loss(np.ones(100)), *calls))


def test_a_rare_class_that_weighs_less_is_a_warning() -> None:
    [finding] = check([5.7, 0.6])
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:9")
    assert finding.evidence["rarest"] == 1
    assert "class 1 is rare (150 of 1000 labels) and has weight 0.6" in finding.message


@pytest.mark.parametrize(
    ("weights", "counts"),
    [
        pytest.param([0.6, 5.7], RARE, id="the right way round"),
        pytest.param([1.0, 0.8], RARE, id="hardly less"),
        pytest.param([1.0, 0.0], RARE, id="left out on purpose"),
        pytest.param([1.0, 0.1], [[30, 20], [10, 40]], id="as many of either"),
        pytest.param([1.0, 0.1, 1.0], RARE, id="weights of other classes"),
        pytest.param([0.2], RARE, id="the rare one has the weight 1"),
        pytest.param([1.0, 0.1, 1.0], [[50, 0, 0], [0, 0, 0], [0, 0, 50]], id="not seen"),
    ],
)
def test_stays_quiet(weights: Sequence[float], counts: Sequence[Sequence[int]]) -> None:
    assert check(weights, counts) == []


def test_two_weights_that_no_counts_explain_are_a_note() -> None:
    counts = [[66, 4], [22, 8]]
    assert check([1.0, 0.4], counts)[0].severity is Severity.WARNING
    assert check([1.0, 0.05], counts)[0].severity is Severity.INFO


def test_of_many_classes_most_must_weigh_by_their_counts() -> None:
    counts = np.diag([40, 25, 15, 12, 8])
    [finding] = check([2.0, 1.2, 0.8, 0.6, 0.4], counts)
    assert (finding.evidence["rarest"], finding.evidence["most_frequent"]) == (4, 0)
    assert check([1.0, 1.0, 1.5, 2.0, 0.1], counts) == [], "the last one is of no interest"


def test_a_class_that_outweighs_all_others_is_a_warning() -> None:
    even = np.diag([20, 20, 20, 20, 20])
    [finding] = check([1.0, 300.0, 1.0, 1.0, 1.0], even)
    assert finding.severity is Severity.WARNING
    assert finding.title == "one class outweighs all others"
    assert "class 1 has weight 300, and no other class more than 1: 20 % of" in finding.message
    assert check([1.0, 9.0, 1.0, 1.0, 1.0], even) == []
    assert check([1.0, 60.0, 60.0], np.diag([98, 1, 1])) == [], "weights of inverse counts"
    assert check([1.0, 300.0], np.diag([50, 50])) == [], "two classes may be weighed on purpose"
    assert check([0.0, 0.0, 1.0, 1.0], np.diag([25, 25, 25, 25])) == [], "left out on purpose"


def test_a_loss_without_weights_is_not_judged() -> None:
    with pytest.raises(NotApplicable, match="no loss has class weights"):
        check([])


def test_few_labels_are_not_judged() -> None:
    calls = classified(RARE, looks=4, class_weights=[5.7, 0.6])
    with pytest.raises(NotEnoughData, match="saw 400"):
        class_weights_inverted().check(window(*calls))
