from __future__ import annotations

from collections.abc import Iterable

from tests.rules.windows import window

from mothtrap.core.facts.pairs import OwnRowCompetes
from mothtrap.core.findings import Severity
from mothtrap.core.window import Window
from mothtrap.rules.own_row_competes import own_row_competes
from mothtrap.testing import RuleTests


def looked(found: int) -> OwnRowCompetes:
    return OwnRowCompetes(step=11, looks=5, found=found, rows=64, location="train.py:9")


class TestOwnRowCompetes(RuleTests):
    rule = own_row_competes

    def sick(self) -> Iterable[Window]:
        yield window(looked(5))

    def healthy(self) -> Iterable[Window]:
        yield window(looked(1), steps=60)
        yield window(steps=60)


def test_the_line_and_the_mask_are_named() -> None:
    [finding] = own_row_competes().check(window(looked(5)))
    assert (finding.severity, finding.step, finding.location) == (
        Severity.WARNING,
        0,
        "train.py:9",
    )
    assert "each of 64 rows is compared with itself in 5 of 5" in finding.message
    assert finding.fixes[0].startswith("Mask the diagonal")
