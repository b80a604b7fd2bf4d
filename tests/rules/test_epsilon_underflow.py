from __future__ import annotations

import numpy as np
import pytest
from tests.rules.weights import MADE, facts
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.rules.epsilon_underflow import SMALLEST, epsilon_underflow


def test_fires_on_the_usual_epsilon_in_float16() -> None:
    [finding] = epsilon_underflow().check(window(facts(state="float16", epsilon=1e-8)))
    assert (finding.severity, finding.step) == (Severity.ERROR, 0)
    assert finding.location == MADE
    assert "float16" in finding.message


@pytest.mark.parametrize(
    ("state", "epsilon", "fused"),
    [
        ("float16", 1e-4, False),
        ("float16", 6e-8, False),
        ("float16", 1e-8, True),
        ("bfloat16", 1e-8, False),
        ("float32", 1e-30, False),
        ("float64", 1e-300, False),
    ],
)
def test_stays_quiet_where_epsilon_is_kept(state: str, epsilon: float, fused: bool) -> None:
    known = facts(state=state, epsilon=epsilon, fused=fused)
    assert epsilon_underflow().check(window(known)) == []


def test_the_smallest_numbers_are_those_of_the_types() -> None:
    for name in ("float16", "float32"):
        smallest = SMALLEST[name]
        kind = np.dtype(name).type
        assert float(kind(smallest)) == smallest
        assert float(kind(smallest / 2)) == 0.0
        assert float(kind(0.51 * smallest)) == smallest


def test_does_not_apply_without_averaged_squares() -> None:
    with pytest.raises(NotApplicable):
        epsilon_underflow().check(window(facts(kind="SGD")))
    with pytest.raises(NotEnoughData):
        epsilon_underflow().check(window(steps=3))
