from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.loss_terms import AgreeingLosses
from mothtrap.core.findings import Severity
from mothtrap.rules.opponents_agree import opponents_agree


def seen(*, looks: int = 8, unused: bool = False) -> AgreeingLosses:
    return AgreeingLosses(
        step=7, label=0, looks=looks, unused=unused, location="gan.py:20", other="gan.py:26"
    )


def test_equal_labels_of_the_same_outputs_are_a_warning() -> None:
    [finding] = opponents_agree().check(window(seen(), steps=40))
    assert (finding.severity, finding.location) == (Severity.WARNING, "gan.py:20")
    assert "both ask for the label 0 on generated examples" in finding.message
    assert finding.fixes[0].startswith("Give generated examples the label 0")


def test_a_loss_that_is_not_differentiated_is_a_warning() -> None:
    [finding] = opponents_agree().check(window(seen(unused=True), steps=40))
    assert "only one of them is differentiated" in finding.message
    assert finding.fixes[0].startswith("Compute the generator's gradient")


def test_a_few_steps_are_not_enough() -> None:
    assert opponents_agree().check(window(seen(looks=4), steps=40)) == []
    with pytest.raises(NotEnoughData):
        opponents_agree().check(window(seen(), steps=5))
