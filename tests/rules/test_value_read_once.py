from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.facts.compiling import ValueReadOnce as Seen
from mothtrap.core.findings import Severity
from mothtrap.rules.value_read_once import value_read_once


@pytest.mark.parametrize(
    ("told", "message", "fix"),
    [
        (
            {"name": "self.beta", "kind": "number", "before": "0", "now": "0.4"},
            "read `self.beta` while it was traced, and still uses 0, although it is now 0.4",
            "Pass the value",
        ),
        (
            {"name": "params", "kind": "array"},
            "read `params` while it was traced, and still uses the old values",
            "Pass `params` to `step` as an argument",
        ),
        (
            {"name": "np.random.normal", "kind": "random"},
            "calls `np.random.normal` only while it is traced",
            "jax.random.normal",
        ),
    ],
)
def test_says_what_was_read(told: dict[str, str], message: str, fix: str) -> None:
    one = Seen(step=30, function="step", calls=32, location="a.py:4", **told)
    [finding] = value_read_once().check(window(one))
    assert (finding.severity, finding.step) == (Severity.WARNING, 0)
    assert message in finding.message
    assert fix in finding.fixes[0]
    assert finding.location == "a.py:4"


def test_few_calls_are_nothing() -> None:
    one = Seen(step=3, function="step", calls=4, name="beta", kind="number")
    assert not value_read_once().check(window(one))
