from __future__ import annotations

from collections.abc import Iterable

from tests.rules.windows import window

from mothtrap.core.facts.targets import ShiftedTargets
from mothtrap.core.findings import Severity
from mothtrap.core.window import Window
from mothtrap.rules.shifted_targets import shifted_targets
from mothtrap.testing import RuleTests


def looked(*, rows: int = 100, shifted: int = 80, drift: float = 0.02) -> ShiftedTargets:
    return ShiftedTargets(
        step=120,
        looks=8,
        rows=rows,
        shifted=shifted,
        distance=0.15,
        drift=drift,
        location="train.py:9",
    )


class TestShiftedTargets(RuleTests):
    rule = shifted_targets

    def sick(self) -> Iterable[Window]:
        yield window(looked(), steps=200)

    def healthy(self) -> Iterable[Window]:
        yield window(looked(shifted=20), steps=200)
        yield window(looked(rows=20, shifted=20), steps=200)
        yield window(looked(drift=0.14), steps=200)


def test_the_distance_is_named() -> None:
    [finding] = shifted_targets().check(window(looked(), steps=200))
    assert (finding.severity, finding.step, finding.location) == (
        Severity.WARNING,
        0,
        "train.py:9",
    )
    assert "80 of 100 masks fit their prediction better at another place, 15 %" in finding.message
    assert finding.fixes[0].startswith("Draw each random crop once")
