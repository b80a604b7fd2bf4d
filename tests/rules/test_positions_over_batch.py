from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.layers import PositionAxis
from mothtrap.core.findings import Severity
from mothtrap.rules.positions_over_batch import positions_over_batch


def test_vectors_along_the_batch_are_a_warning() -> None:
    seen = PositionAxis(step=0, module="pos", shape=(16, 40, 64), location="model.py:7")
    [finding] = positions_over_batch().check(window(seen, steps=20))
    assert (finding.severity, finding.location) == (Severity.WARNING, "model.py:7")
    assert finding.layers == ("pos",)
    assert "each of the 16 rows of the batch, and the same vector to all 40" in finding.message


def test_stays_quiet_without_it() -> None:
    assert positions_over_batch().check(window(steps=20)) == []


def test_needs_a_step() -> None:
    with pytest.raises(NotEnoughData):
        positions_over_batch().check(window())
