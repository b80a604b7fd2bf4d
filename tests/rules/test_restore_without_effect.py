from __future__ import annotations

import pytest
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.workers import RestoredNothing, UnmatchedState
from mothtrap.core.findings import Severity
from mothtrap.rules.restore_without_effect import restore_without_effect


def test_a_state_that_is_the_models_own_is_reported() -> None:
    seen = RestoredNothing(
        step=90, module="Net", kept_step=40, taken_at="train.py:12", location="train.py:30"
    )
    [finding] = restore_without_effect().check(window(loss([1.0] * 90), seen))
    assert (finding.severity, finding.step, finding.location) == (
        Severity.WARNING,
        40,
        "train.py:12",
    )
    assert "saved after 40 steps was loaded after 90 steps" in finding.message


def test_stays_quiet_where_none_was_seen() -> None:
    assert restore_without_effect().check(window(loss([1.0] * 90))) == []


def test_needs_a_step() -> None:
    with pytest.raises(NotEnoughData):
        restore_without_effect().check(window())


def test_a_state_with_other_names_is_reported() -> None:
    seen = UnmatchedState(
        step=0,
        module="Net",
        names=6,
        given=6,
        shared=0,
        own="fc.weight",
        other="module.fc.weight",
        location="train.py:8",
    )
    [finding] = restore_without_effect().check(window(loss([1.0] * 9), seen))
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:8")
    assert "loaded none of the 6 tensors of Net" in finding.message
    assert finding.fixes[0].startswith("Rename the keys")
