from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.facts.compiling import UpdateDropped as Seen
from mothtrap.core.findings import Severity
from mothtrap.rules.update_dropped import WITHOUT_STEP, update_dropped


def test_weights_that_stay_the_old_ones_are_an_error() -> None:
    told = [Seen(step=s, function="step", calls=s - 4, location="a.py:9") for s in (12, 36)]
    [finding] = update_dropped().check(window(*told))
    assert (finding.severity, finding.step, finding.count) == (Severity.ERROR, 5, 32)
    assert finding.location == "a.py:9"


def test_warming_up_is_nothing() -> None:
    assert not update_dropped().check(window(Seen(step=3, function="step", calls=4)))


@pytest.mark.parametrize(
    ("told", "severity", "message", "fix"),
    [
        ({"why": "unchanged"}, Severity.ERROR, "returns its input weights", "Return"),
        ({"why": "in place"}, Severity.ERROR, "updates its model in place", "nnx.jit"),
        (
            {"why": "not returned", "state": "batch_stats"},
            Severity.WARNING,
            "computed new `batch_stats` in each of 32 calls",
            "Return the new values",
        ),
        ({"state": "opt"}, Severity.WARNING, "a new `opt` in 32 consecutive calls", "Assign `opt`"),
    ],
)
def test_says_how_the_update_is_lost(
    told: dict[str, str], severity: Severity, message: str, fix: str
) -> None:
    [finding] = update_dropped().check(window(Seen(step=40, function="step", calls=32, **told)))
    assert finding.severity is severity
    assert message in finding.message
    assert fix in finding.fixes[0]


def test_lost_weights_come_before_a_lost_state() -> None:
    state = Seen(step=9, function="step", calls=8, state="opt")
    [finding] = update_dropped().check(window(state, Seen(step=9, function="step", calls=8)))
    assert "new weights" in finding.message


def test_gradients_that_no_optimizer_gets() -> None:
    told = Seen(step=31, function="Model.train_step", calls=32, why="not applied")
    [finding] = update_dropped().check(window(told))
    assert (finding.severity, finding.step) == (Severity.ERROR, 0)
    assert "`Model.train_step` computed gradients in 32 consecutive calls" in finding.message


def test_an_optimizer_that_never_steps_is_an_error_without_a_step() -> None:
    told = Seen(step=0, function="Adam", calls=80, why="not stepped", location="a.py:9")
    [finding] = update_dropped().check(window(told, steps=0))
    assert (finding.severity, finding.location) == (Severity.ERROR, "a.py:9")
    assert "backward ran 80 times, but Adam never stepped" in finding.message
    assert finding.why == WITHOUT_STEP
    assert "optimizer.step()" in finding.fixes[0]
