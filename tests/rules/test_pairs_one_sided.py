from __future__ import annotations

import pytest
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.pairs import OneSidedPairs
from mothtrap.core.findings import Severity
from mothtrap.rules.pairs_one_sided import pairs_one_sided


@pytest.mark.parametrize(
    ("together", "goal"), [(True, "pulls pairs together"), (False, "pushes pairs apart")]
)
def test_pairs_of_one_sign_are_a_note(together: bool, goal: str) -> None:
    seen = OneSidedPairs(step=11, looks=5, terms=2, together=together, location="train.py:7")
    [finding] = pairs_one_sided().check(window(loss([1.0] * 20), seen))
    assert (finding.severity, finding.location) == (Severity.INFO, "train.py:7")
    assert finding.message.endswith(f"the loss only {goal}")


def test_other_losses_are_fine() -> None:
    assert pairs_one_sided().check(window(loss([1.0] * 20))) == []


def test_needs_a_few_steps() -> None:
    with pytest.raises(NotEnoughData, match="needs 4 steps, saw 0"):
        pairs_one_sided().check(window())
