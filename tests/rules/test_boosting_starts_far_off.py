from __future__ import annotations

import pytest
from tests.rules.boosting import FIT, PLACE, began, ended
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.trees import GradientsGiven
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.boosting_starts_far_off import boosting_starts_far_off


def check(
    rounds: int | None = 60,
    *,
    rate: float | None = 0.05,
    shift: float | None = 300.0,
    spread: float | None = 10.0,
    one_sided: float = 1.0,
    before: int = 0,
) -> list[Finding]:
    seen = GradientsGiven(
        step=0, fit=FIT, rows=1000, shift=shift, shift_spread=spread, one_sided=one_sided
    )
    parts = [began(learning_rate=rate, rounds_before=before), seen]
    if rounds is not None:
        parts.append(ended(rounds))
    return boosting_starts_far_off().check(window(*parts))


def test_rounds_that_cannot_reach_the_labels_are_reported() -> None:
    [finding] = check()  # 300 / 10 * 0.95^67 < 1
    assert (finding.severity, finding.location) == (Severity.WARNING, PLACE)
    assert "300 too low" in finding.message
    assert "closing this gap alone takes 67 rounds; this run has 60" in finding.message
    assert "base_score" in finding.fixes[0]


def test_rounds_that_are_wasted_are_a_note() -> None:
    [finding] = check(200, shift=-300.0)
    assert finding.severity is Severity.INFO
    assert "300 too high" in finding.message


@pytest.mark.parametrize(
    "more",
    [
        {"rounds": 1000},
        {"rate": 0.3},
        {"shift": 25.0},
        {"one_sided": 0.9},
        {"before": 10},
    ],
    ids=["many rounds", "a high rate", "near", "two sides", "a model that is continued"],
)
def test_stays_quiet(more: dict) -> None:
    assert check(**more) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="do not show"):
        check(spread=0.0)
    with pytest.raises(NotApplicable, match="built into the library"):
        boosting_starts_far_off().check(window(began(), ended(10)))
    with pytest.raises(NotEnoughData, match="has not ended"):
        check(None)
