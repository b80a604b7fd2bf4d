from __future__ import annotations

import pytest
from tests.rules.looks import attention
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.attention_logit_growth import AttentionLogitGrowth

STEPS = [0, 1, 2, 50, 100, 200, 300, 400]


def check(scores: list[float | None], steps=STEPS):
    looks = [attention(at, largest_logit=score) for at, score in zip(steps, scores, strict=True)]
    return AttentionLogitGrowth().check(window(*looks))


def test_fires_at_once_on_huge_scores() -> None:
    [finding] = check([900.0, 950.0], steps=[0, 1])
    assert (finding.severity, finding.step, finding.count) == (Severity.WARNING, 0, 2)
    assert (finding.layers, finding.location) == (("attention 1 of 1",), "train.py:9")


def test_fires_on_large_scores_that_grow_on() -> None:
    [finding] = check([2, 2, 3, 5, 10, 20, 45, 80])
    assert finding.step == 200
    assert "is 80, up from 20 at step 200" in finding.message


def test_stays_quiet_on_large_scores_that_stay_and_on_small_ones_that_grow() -> None:
    assert check([60.0] * 8) == []
    assert check([1, 1, 2, 3, 5, 10, 20, 40]) == []
    assert check([2, 2, 3, 5, 10, 60, 90, 80]) == []


def test_one_huge_look_is_no_fault() -> None:
    assert check([2, 2, 900, 5, 6, 6, 6, 6]) == []


def test_does_not_apply_where_scores_are_not_kept() -> None:
    with pytest.raises(NotApplicable, match="weights"):
        check([None] * 8)
    with pytest.raises(NotApplicable):
        AttentionLogitGrowth().check(window(steps=9))


def looks(scale: float, top: float, usual: float, score: float = 9.0) -> list[Finding]:
    """Evaluate three inspections of attention with heads of dimension 64."""
    about = {"width": 64, "top_weight": top, "scaled_top_weight": usual, "largest_logit": score}
    return AttentionLogitGrowth().check(
        window(*(attention(step, scale=scale, **about) for step in (0, 1, 2)))
    )


@pytest.mark.parametrize(("scale", "words"), [(1.0, "not divided by"), (8.0, "multiplied by")])
def test_names_the_scale_where_the_usual_one_would_leave_weights_wide(
    scale: float, words: str
) -> None:
    [finding] = looks(scale, 0.95, 0.3)
    assert (finding.severity, finding.step) == (Severity.WARNING, 0)
    assert f"are {words} sqrt(64)" in finding.message
    assert finding.fixes[0].startswith("Divide the product of queries and keys by sqrt(64)")


def test_a_scale_is_no_fault_where_weights_are_wide_or_narrow_with_any() -> None:
    assert looks(1.0, 0.4, 0.1) == []  # the initial weights make up for it
    assert looks(8.0, 0.2, 0.1) == []  # queries and keys are normalized
    assert looks(1.0, 0.95, 0.9) == []
    assert looks(0.125, 0.95, 0.3) == []


def test_weights_that_are_narrow_from_the_start_by_large_scores() -> None:
    [finding] = looks(0.125, 0.95, 0.95, score=280.0)
    assert "is 280 from the first step" in finding.message


def test_inputs_are_the_first_fix_of_scores_with_the_usual_scale() -> None:
    [finding] = looks(0.125, 0.95, 0.95, score=80.0)
    assert "largest attention score" in finding.message
    assert finding.fixes[0].startswith("Bring the inputs")
    assert not any(fix.startswith("Divide") for fix in finding.fixes)
