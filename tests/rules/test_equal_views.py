from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.evaluations import EqualViews
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Severity
from mothtrap.rules.equal_views import equal_views


def seen(steps: int = 8, *, dropout: bool = False) -> EqualViews:
    return EqualViews(step=7, steps=steps, dropout=dropout, location="net.py:3")


def test_equal_views_are_a_note() -> None:
    [finding] = equal_views().check(window(seen(), steps=40))
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
    [finding] = equal_views().check(window(seen(), call, steps=40))
    assert finding.severity is severity


def test_dropout_makes_two_outputs_of_equal_data() -> None:
    assert equal_views().check(window(seen(dropout=True), steps=40)) == []


def test_needs_some_steps() -> None:
    with pytest.raises(NotEnoughData):
        equal_views().check(window(seen(), steps=5))


def test_an_anchor_that_is_its_positive_is_a_warning() -> None:
    one = EqualViews(step=7, steps=8, loss="triplet_margin_loss", location="net.py:9")
    [finding] = equal_views().check(window(one, steps=40))
    assert (finding.severity, finding.location) == (Severity.WARNING, "net.py:9")
    assert "the first two arguments of triplet_margin_loss were equal" in finding.message
    assert finding.fixes[0].startswith("Pass two different rows of the same class")
