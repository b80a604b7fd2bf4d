from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.compiling import HostCallback
from mothtrap.core.findings import Severity
from mothtrap.rules.callback_in_step import CallbackInStep


def test_a_callback_is_a_note() -> None:
    [finding] = CallbackInStep().check(
        window(HostCallback(step=1, function="step", callbacks=("a.py:4",), location="a.py:4"))
    )
    assert (finding.severity, finding.location) == (Severity.INFO, "a.py:4")


def test_no_callback_is_nothing() -> None:
    assert not CallbackInStep().check(window(steps=50))


def test_without_steps_there_is_nothing_to_judge() -> None:
    with pytest.raises(NotEnoughData):
        CallbackInStep().check(window())
