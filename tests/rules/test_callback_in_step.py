from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.compiling import HostCallback
from mothtrap.core.findings import Severity
from mothtrap.rules.callback_in_step import callback_in_step


def test_a_callback_is_a_note() -> None:
    [finding] = callback_in_step().check(
        window(HostCallback(step=1, function="step", callbacks=("a.py:4",), location="a.py:4"))
    )
    assert (finding.severity, finding.location) == (Severity.INFO, "a.py:4")


def test_no_callback_is_nothing() -> None:
    assert not callback_in_step().check(window(steps=50))


def test_without_steps_there_is_nothing_to_judge() -> None:
    with pytest.raises(NotEnoughData):
        callback_in_step().check(window())
