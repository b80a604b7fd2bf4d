from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.losses import MixedAxes
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.mixed_axes import mixed_axes


def check(mixed: int, *, looks: int = 5, targets: bool = False) -> list[Finding]:
    seen = MixedAxes(
        step=11,
        looks=looks,
        mixed=mixed,
        given=(9, 32, 20),
        became=(32, 9, 20),
        targets=targets,
        location="net.py:7",
    )
    return mixed_axes().check(window(seen))


def test_axes_that_a_view_swaps_are_reported() -> None:
    [finding] = check(5)
    assert (finding.severity, finding.step, finding.location) == (
        Severity.WARNING,
        0,
        "net.py:7",
    )
    assert "shape (9, 32, 20) is viewed as (32, 9, 20)" in finding.message
    assert "transpose(1, 2)" in finding.fixes[0]


def test_targets_in_another_order_are_reported() -> None:
    [finding] = check(4, targets=True)
    assert "flattened from shape (9, 32, 20), and its targets from" in finding.message
    assert "Flatten the prediction and the targets" in finding.fixes[0]


def test_a_view_that_fits_by_chance_is_not_reported() -> None:
    assert check(2) == []


def test_needs_a_few_steps() -> None:
    with pytest.raises(NotEnoughData):
        mixed_axes().check(window(steps=2))
