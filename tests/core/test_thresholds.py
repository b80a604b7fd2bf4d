from __future__ import annotations

from dataclasses import dataclass, field

from mothtrap.core.findings import Finding
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import NO_SETTING, describe, threshold
from mothtrap.core.window import Window


@dataclass(frozen=True)
class _Tired(Rule):
    code = "TST001"
    limit: float = threshold(2.5, unit="hours", source="chosen by hand")
    given: tuple[str, ...] = field(default=(), metadata=NO_SETTING)

    def check(self, window: Window) -> list[Finding]:
        return []


def test_a_threshold_is_an_ordinary_field_with_a_default() -> None:
    assert _Tired().limit == 2.5
    assert _Tired(limit=1.0).limit == 1.0


def test_a_threshold_tells_unit_and_source_and_what_is_none_does_not() -> None:
    assert describe(_Tired) == describe(_Tired()) == {"limit": ("hours", "chosen by hand")}
