"""Findings that a rule makes of its measurements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tests.rules.windows import window

from mothtrap.core import jsonable
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window


@dataclass(frozen=True)
class Anything(Rule):
    """Finds something each time."""

    code = "XYZ001"

    def check(self, window: Window) -> list[Finding]:
        value = np.array([1.5])[0]
        return [
            self.finding(
                window,
                severity=Severity.INFO,
                step=0,
                message="seen",
                evidence={"value": value, "count": np.int64(3), "bad": np.bool_(True)},
            )
        ]


def test_numbers_of_numpy_become_plain_ones() -> None:
    (found,) = Anything().check(window())
    assert found.evidence == {"value": 1.5, "count": 3, "bad": True}
    assert [type(value) for value in found.evidence.values()] == [float, int, bool]
    assert jsonable.encode(found)
