from __future__ import annotations

from tests.rules.windows import window

from mothtrap.core.facts.compiling import HostCallback
from mothtrap.core.findings import Severity
from mothtrap.rules.callback_in_step import CallbackInStep


def test_a_callback_is_a_note() -> None:
    [finding] = CallbackInStep().check(
        window(HostCallback(step=1, function="step", callbacks=("a.py:4",), location="a.py:4"))
    )
    assert (finding.severity, finding.location) == (Severity.INFO, "a.py:4")


def test_no_callback_is_nothing() -> None:
    assert not CallbackInStep().check(window())
