from __future__ import annotations

import numpy as np
import pytest
from tests.rules.boosting import PLACE, SITE, began, held_out
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.rules.stopped_too_late import stopped_too_late

TURNS = np.concatenate([np.linspace(0.7, 0.4, 40), np.linspace(0.4, 0.6, 100)])


def test_fires_where_many_rounds_follow_the_best() -> None:
    [finding] = stopped_too_late().check(window(began(), *held_out(TURNS)))
    assert (finding.severity, finding.location) == (Severity.WARNING, PLACE)
    assert finding.evidence["best_round"] == 40
    assert finding.evidence["rounds_after"] == 100


@pytest.mark.parametrize(
    ("values", "changed"),
    [
        pytest.param(TURNS, {"stops_after": 50}, id="it stops early by itself"),
        pytest.param(TURNS, {"keeps_best": True}, id="it keeps its best rounds"),
        pytest.param(TURNS[:80], {}, id="not for long"),
        pytest.param(np.minimum(TURNS, TURNS[:40].min() + 0.002), {}, id="it hovers at its best"),
        pytest.param(np.linspace(0.7, 0.4, 140), {}, id="it falls"),
        pytest.param(
            np.concatenate([np.linspace(0.7, 0.4, 140), np.linspace(0.4, 0.5, 60)]),
            {},
            id="not for half of the rounds to the best",
        ),
    ],
)
def test_stays_quiet(values: np.ndarray, changed: dict) -> None:
    assert stopped_too_late().check(window(began(**changed), *held_out(values))) == []


def test_rounds_share_and_rise_are_what_they_say() -> None:
    seen = window(began(), *held_out(TURNS))
    assert stopped_too_late(rounds=101).check(seen) == []
    assert stopped_too_late(share=2.6).check(seen) == []
    assert stopped_too_late(rise=0.51).check(seen) == []


def test_does_not_apply_without_data_that_are_not_trained_on() -> None:
    with pytest.raises(NotApplicable, match="no evals"):
        stopped_too_late().check(window(began(sites=("train",))))
    with pytest.raises(NotEnoughData):
        stopped_too_late().check(window(began()))
    with pytest.raises(NotEnoughData, match="no boosting round"):
        stopped_too_late().check(window(*held_out(TURNS)))


def test_the_last_evaluation_set_counts() -> None:
    seen = window(began(sites=("train", SITE, "other")), *held_out(TURNS))
    assert stopped_too_late().check(seen)  # of `other` there is no loss
