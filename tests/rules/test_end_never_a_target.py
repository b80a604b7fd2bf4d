from __future__ import annotations

import msgspec
import pytest
from tests.rules.windows import LOSS, loss, loss_call_of, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import TargetSample
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.end_never_a_target import end_never_a_target

Endings = tuple[int, int, int, int, int]


def check(*endings: Endings | None) -> list[Finding]:
    calls = [
        msgspec.structs.replace(
            loss_call_of(16),
            step=step,
            targets=TargetSample(dtype="int64", count=160, endings=one),
        )
        for step, one in enumerate(endings)
    ]
    return end_never_a_target().check(window(loss([1.0] * 20), *calls))


def test_sequences_that_nothing_ends_are_a_note() -> None:
    [finding] = check((15, 7, 3, 0, 15), (15, 4, 4, 0, 15), (14, 7, 2, 0, 14))
    assert (finding.severity, finding.location) == (Severity.INFO, LOSS)
    assert "44 of 44 sequences are followed by token 0, which the loss ignores" in finding.message
    assert "the most frequent last target ends 11 % of them (limit 50 %)" in finding.message


@pytest.mark.parametrize(
    "endings",
    [
        pytest.param((15, 1, 15, 0, 15), id="each ends with token 1"),
        pytest.param((15, 1, 9, 0, 15), id="most end with a full stop"),
        pytest.param((15, 7, 3, 5, 4), id="answers inside a text"),
    ],
)
def test_stays_quiet(endings: Endings) -> None:
    assert check(*[endings] * 3) == []


def test_few_sequences_say_nothing() -> None:
    assert check((15, 7, 3, 0, 15)) == []


def test_needs_targets_of_sequences() -> None:
    with pytest.raises(NotApplicable, match="no next-token loss"):
        check(None)
    with pytest.raises(NotEnoughData, match="no loss was traced"):
        end_never_a_target().check(window())
