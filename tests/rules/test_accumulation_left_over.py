from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.rules.windows import series, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import BatchesLoaded, LoaderBegan
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.accumulation_left_over import accumulation_left_over


def check(
    counts: Sequence[int],
    ends: Sequence[int],
    *,
    batches: int = 22,
    seen: int | None = None,
    trained: bool = True,
) -> list[Finding]:
    began = LoaderBegan(
        step=0, loader="loader 1", sampler="shuffled", batches=batches, location="train.py:4"
    )
    ended = [
        BatchesLoaded(
            step=end,
            loader="loader 1",
            sampler="shuffled",
            workers=0,
            pass_number=1 + at,
            batches=seen or batches,
            repeated=0,
            ended=True,
            trained=trained,
        )
        for at, end in enumerate(ends)
    ]
    counted = series("micro_batches", counts, of="")
    return accumulation_left_over().check(window(counted, began, *ended))


def test_gradients_that_are_cleared_at_the_end_of_a_pass() -> None:
    [finding] = check([8] * 12, (2, 4, 6))
    assert (finding.severity, finding.step, finding.location) == (
        Severity.WARNING,
        2,
        "train.py:4",
    )
    assert "the last 6 batches are cleared: 27 %" in finding.message


def test_gradients_that_flow_into_the_next_pass() -> None:
    [finding] = check([4, 4, 4, 7, 4, 4, 7, 4, 4], (3, 6, 9), batches=15)
    assert finding.severity is Severity.WARNING
    assert "first step of the next pass, which then has 7" in finding.message


def test_a_small_rest_is_a_note() -> None:
    [finding] = check([4] * 75, (25, 50, 75), batches=103)
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    ("counts", "ends", "batches"),
    [
        ([8, 8, 6] * 4, (2, 5, 8), 22),
        ([8] * 12, (2, 5, 8), 22),
        ([4] * 12, (4, 8, 12), 17),
        ([4] * 12, (3, 7, 11), 16),
        ([8] * 3, (2,), 22),
    ],
    ids=["smaller step", "counted across passes", "unclear", "divides", "one pass"],
)
def test_stays_quiet(counts: Sequence[int], ends: Sequence[int], batches: int) -> None:
    assert check(counts, ends, batches=batches) == []


def test_what_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="nothing is accumulated"):
        check([1] * 12, (2, 4, 6))
    with pytest.raises(NotApplicable, match="known number of batches"):
        check([8] * 12, (2, 4, 6), seen=20)
    with pytest.raises(NotEnoughData, match="no pass"):
        check([8] * 12, (2, 4, 6), trained=False)
