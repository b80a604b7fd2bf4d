from __future__ import annotations

import pytest
from tests.rules.boosting import PLACE, began, table
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.rules.class_imbalance import ClassImbalance
from mothtrap.rules.unscaled_weights import unscaled_weights

ERROR = began(metrics=("error",))
RARE = table(counts=(2990, 10))


def test_fires_on_a_rare_class_that_only_an_error_rate_judges() -> None:
    [finding] = unscaled_weights().check(window(ERROR, RARE))
    assert finding.location == PLACE
    assert finding.evidence["rarest"] == 1
    assert unscaled_weights().check(
        window(began(objective="multi:softprob", metrics=("merror",)), table(counts=(900, 900, 5)))
    )


@pytest.mark.parametrize(
    ("fit", "seen"),
    [
        pytest.param(began(metrics=("error", "aucpr")), RARE, id="a metric that ranks"),
        pytest.param(began(metrics=("logloss",)), RARE, id="a loss"),
        pytest.param(ERROR, table(counts=(2990, 10), weighted=True), id="weights"),
        pytest.param(ERROR, table(counts=(2900, 100)), id="not that rare"),
    ],
)
def test_stays_quiet(fit, seen) -> None:
    assert unscaled_weights().check(window(fit, seen)) == []


def test_thresholds_are_what_they_say() -> None:
    assert unscaled_weights(share=0.003).check(window(ERROR, RARE)) == []
    with pytest.raises(NotApplicable, match="too few"):
        unscaled_weights(rows=3001).check(window(ERROR, RARE))


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="not a classifier"):
        unscaled_weights().check(window(ERROR, table(counts=None)))
    with pytest.raises(NotApplicable, match="no evals"):
        unscaled_weights().check(window(began(metrics=()), RARE))
    with pytest.raises(NotApplicable, match="one class"):
        unscaled_weights().check(window(ERROR, table(counts=(3000,))))
    with pytest.raises(NotEnoughData):
        unscaled_weights().check(window(ERROR))


def test_classes_of_a_table_are_counted_with_advice_for_trees() -> None:
    [finding] = ClassImbalance().check(window(ERROR, RARE))
    assert "scale_pos_weight=299" in finding.fixes[0]
    assert ClassImbalance().check(window(ERROR, table())) == []
    with pytest.raises(NotApplicable, match="classifier"):
        ClassImbalance().check(window(ERROR, table(counts=None)))
