from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import loss, series, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.warm_up_restarts import warm_up_restarts

RISE = np.linspace(0.001, 0.02, 20)


def check(rates: np.ndarray) -> list[Finding]:
    return warm_up_restarts().check(window(loss(np.ones(len(rates))), series("lr", rates)))


def test_a_warm_up_that_starts_again_in_each_pass() -> None:
    [finding] = check(np.tile(RISE, 5))
    assert (finding.severity, finding.step, finding.count) == (Severity.WARNING, 20, 4)
    assert "from 0.001 to 0.02, and starts at 0.001 again every 20 steps" in finding.message


def test_a_warm_up_that_ends_within_each_pass() -> None:
    [finding] = check(np.tile(np.append(RISE, np.full(30, 0.02)), 4))
    assert finding.evidence["steps"] == 50


@pytest.mark.parametrize(
    "rates",
    [
        np.append(RISE, np.full(80, 0.02)),
        np.tile(RISE, 3),  # only two new starts
        np.tile(RISE[::-1], 5),  # restarts of a decay
        np.tile(np.append(RISE, RISE[::-1]), 5),  # a cycle
        np.concatenate([RISE, RISE[:15], RISE, RISE[:10], RISE]),
        np.full(100, 0.1),
        np.tile([0.1, 0.2], 50),
        np.zeros(100),
    ],
    ids=["once", "few", "decay", "cycle", "uneven", "constant", "alternating", "zero"],
)
def test_stays_quiet(rates: np.ndarray) -> None:
    assert check(rates) == []


def test_says_what_is_missing() -> None:
    with pytest.raises(NotEnoughData, match="fewer than 20 learning rates"):
        check(RISE[:15])
