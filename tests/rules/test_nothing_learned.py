from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace
from tests.rules.boosting import began, held_out, table, trees
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.rules.nothing_learned import nothing_learned


def check(*parts, rule: nothing_learned = nothing_learned()):  # noqa: B008
    return rule.check(window(*parts))


SLOW = np.linspace(0.693, 0.689, 40)
RISES = np.linspace(0.694, 0.8, 40)


def evaluated(values, guess: float | None = 0.693, rows: int = 500):
    return [replace(one, guess=guess, rows=rows) for one in held_out(values)]


def test_an_evaluation_that_was_never_better_than_guessing_is_a_warning() -> None:
    [finding] = check(began(), *evaluated(RISES), *trees(8.0, 3))
    assert (finding.severity, finding.mode) == (Severity.WARNING, "eval")
    assert "guessing gives 0.693" in finding.message


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param((began(), *evaluated(RISES - 0.1), *trees(8.0, 3)), id="better once"),
        pytest.param((began(), *evaluated(RISES), *trees(1.0, 0)), id="no tree grows"),
        pytest.param((began(), *evaluated(SLOW), *trees(8.0, 3)), id="it falls slowly"),
        pytest.param(
            (began(learning_rate=0.001), *evaluated(RISES), *trees(8.0, 3)), id="tiny steps"
        ),
    ],
)
def test_stays_quiet(parts) -> None:
    assert check(*parts) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="guessing"):
        check(began(), *evaluated(RISES, guess=None))
    with pytest.raises(NotEnoughData):
        check(began(), *evaluated(RISES[:5]))
    with pytest.raises(NotEnoughData):
        check(began(), *evaluated(RISES, rows=20))
    with pytest.raises(NotApplicable, match="weighted"):
        check(began(), *evaluated(RISES), *trees(8.0, 3), table(weighted=True))
