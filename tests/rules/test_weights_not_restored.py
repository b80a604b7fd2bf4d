from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.workers import Resumed, WeightsNotRestored
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.weights_not_restored import weights_not_restored


def check(step: int, *, untouched: bool | None = True) -> list[Finding]:
    lost = WeightsNotRestored(step=step, optimizers=("SGD", "SGD"), untouched=untouched)
    return weights_not_restored().check(window(Resumed(step=step, evidence=""), lost))


def test_new_weights_with_old_averages_are_a_warning() -> None:
    [finding] = check(40)
    assert (finding.severity, finding.step) == (Severity.WARNING, 40)
    assert "continues at step 40 with the averages of SGD" in finding.message
    assert finding.fixes[0].startswith("Load the weights before the first step")


def test_weights_of_unknown_origin_are_a_note() -> None:
    for untouched in (None, False):
        [finding] = check(40, untouched=untouched)
        assert finding.severity is Severity.INFO


def test_stays_quiet() -> None:
    assert check(5) == []
    assert weights_not_restored().check(window(Resumed(step=40, evidence=""))) == []
    with pytest.raises(NotApplicable):
        weights_not_restored().check(window())
