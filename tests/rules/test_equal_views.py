from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.evaluations import EqualViews
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Severity
from mothtrap.rules.equal_views import EqualViewsOfStep


def seen(steps: int = 8, *, dropout: bool = False) -> EqualViews:
    return EqualViews(step=7, steps=steps, dropout=dropout, location="net.py:3")


def test_equal_views_are_a_note() -> None:
    [finding] = EqualViewsOfStep().check(window(seen(), steps=40))
    assert (finding.severity, finding.step, finding.location) == (Severity.INFO, 0, "net.py:3")
    assert "the two views are equal" in finding.message
    assert "augment(x), augment(x)" in finding.fixes[0]


@pytest.mark.parametrize(
    ("shape", "severity"),
    [((32, 32), Severity.WARNING), ((64, 63), Severity.WARNING), ((64, 10), Severity.INFO)],
    ids=["rows against rows", "rows against the others", "classes"],
)
def test_equal_views_of_a_contrastive_loss_are_a_warning(
    shape: tuple[int, int], severity: Severity
) -> None:
    call = LossCall(step=0, operation="cross_entropy", prediction_shape=shape)
    [finding] = EqualViewsOfStep().check(window(seen(), call, steps=40))
    assert finding.severity is severity


def test_dropout_makes_two_outputs_of_equal_data() -> None:
    assert EqualViewsOfStep().check(window(seen(dropout=True), steps=40)) == []


def test_needs_some_steps() -> None:
    with pytest.raises(NotEnoughData):
        EqualViewsOfStep().check(window(seen(), steps=5))
