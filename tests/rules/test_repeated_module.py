from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.modules import RepeatedModule
from mothtrap.core.findings import Severity
from mothtrap.rules.repeated_module import repeated_module

SEEN = RepeatedModule(
    step=3, container="blocks", module_type="Block", copies=3, elements=1056, location="net.py:9"
)


def test_a_repeated_module_is_a_warning() -> None:
    [finding] = repeated_module().check(window(SEEN, steps=20))
    assert (finding.severity, finding.step, finding.location) == (Severity.WARNING, 0, "net.py:9")
    assert "the 3 entries of blocks are one Block with 1,056 trained" in finding.message
    assert finding.layers == ("blocks",)


def test_stays_quiet_without_it() -> None:
    assert repeated_module().check(window(steps=20)) == []


def test_needs_a_few_steps() -> None:
    with pytest.raises(NotEnoughData):
        repeated_module().check(window(steps=3))
