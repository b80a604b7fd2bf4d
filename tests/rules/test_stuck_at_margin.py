from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.pairs import MarginLoss
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.stuck_at_margin import stuck_at_margin


def check(*levels: float, margin: float = 0.5, loss: str = "TripletMarginLoss") -> list[Finding]:
    """Findings for reports of 25 values each, from every 8th call."""
    seen = [
        MarginLoss(
            step=200 * number + 199,
            loss=loss,
            margin=margin,
            calls=200 * number + 200,
            values=tuple(level + 0.05 * (-1) ** n for n in range(25)),
            location="net.py:9",
        )
        for number, level in enumerate(levels)
    ]
    return stuck_at_margin().check(window(*seen, steps=200 * len(levels)))


def test_a_loss_at_its_margin_is_a_warning_and_later_an_error() -> None:
    [finding] = check(0.5)
    assert (finding.severity, finding.location) == (Severity.WARNING, "net.py:9")
    assert "stayed at its margin of 0.5 for 200 calls (mean 0.502)" in finding.message
    assert finding.fixes[0].startswith("Check the order of the arguments")
    [finding] = check(0.52, 0.5, 0.5)
    assert finding.severity is Severity.ERROR


def test_a_triplet_loss_without_a_margin_is_a_warning() -> None:
    [finding] = check(0.1, margin=0.0, loss="the loss")
    assert (finding.severity, finding.title) == (
        Severity.WARNING,
        "triplet loss without a margin",
    )
    assert finding.fixes[0].startswith("Set a positive margin")
    with pytest.raises(NotApplicable):
        check(0.1, margin=0.0, loss="margin_ranking_loss")


def test_a_loss_that_leaves_its_margin_is_fine() -> None:
    assert check(0.45) == []
    assert check(0.5, 0.5, 0.3) == []
    assert check(0.8) == []


def test_a_loss_that_only_falls_to_its_margin_is_a_warning() -> None:
    [finding] = check(0.8, 0.5)
    assert finding.severity is Severity.WARNING
    assert "fell only to its margin of 0.5 in 400 calls" in finding.message
    assert check(0.8, 0.6) == []
    assert check(0.8, 0.45) == []


def test_needs_a_loss_with_a_margin_and_enough_calls() -> None:
    with pytest.raises(NotApplicable):
        check()
    few = MarginLoss(step=90, loss="L", margin=1.0, calls=96, values=(1.0,) * 12)
    with pytest.raises(NotEnoughData, match="200 calls"):
        stuck_at_margin().check(window(few, steps=96))


def test_a_pair_loss_is_compared_with_equal_distances() -> None:
    seen = MarginLoss(
        step=199,
        loss="cosine_embedding_loss",
        margin=0.2,
        calls=200,
        values=(0.4,) * 25,
        level=0.4,
        equal=25,
    )
    [finding] = stuck_at_margin().check(window(seen, steps=200))
    assert "stayed at 0.4, its value for equal distances (margin 0.2)" in finding.message
    assert finding.message.endswith("all embeddings have become equal")
    assert finding.fixes[0].startswith(
        "Check which label means that the rows of a pair belong together"
    )


def test_pairs_of_one_label_have_no_level() -> None:
    seen = MarginLoss(step=199, loss="L", margin=0.2, calls=200, values=(0.0,) * 25, level=0.0)
    with pytest.raises(NotApplicable):
        stuck_at_margin().check(window(seen, steps=200))
