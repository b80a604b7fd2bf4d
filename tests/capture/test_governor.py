"""The governor keeps captures within their share, whatever they cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mothtrap.capture.governor import Governor


def spend(
    governor: Governor, costs: dict[str, float], *, steps: int, step_s: float
) -> tuple[dict[str, int], float]:
    """Simulate a job that wants every stream at every step.

    Returns:
        Captures per stream, and the seconds that those after the trials took.
    """
    runs = dict.fromkeys(costs, 0)
    spent_s = 0.0
    for _ in range(steps):
        chosen = [stream for stream in costs if governor.admits(stream)]
        for stream in chosen:
            runs[stream] += 1
            governor.spent(stream, costs[stream])
            spent_s += costs[stream] if runs[stream] > Governor.TRIAL_RUNS else 0.0
        governor.earn(step_s + sum(costs[stream] for stream in chosen))
    return runs, spent_s


def test_a_dear_stream_stays_within_its_share() -> None:
    runs, spent_s = spend(Governor(0.02), {"all gradients": 0.005}, steps=5000, step_s=0.01)
    share = spent_s / (5000 * 0.01 + runs["all gradients"] * 0.005)
    assert 0.019 <= share <= 0.0201


def test_a_cheap_stream_is_never_thinned() -> None:
    governor = Governor(0.02)
    runs, _ = spend(governor, {"norms": 0.0001}, steps=1000, step_s=0.01)
    assert runs == {"norms": 1000}
    assert governor.shed == ()


@given(
    costs=st.lists(st.floats(1e-6, 0.1), min_size=1, max_size=4),
    overhead=st.floats(0.001, 0.2),
)
def test_no_mix_of_streams_takes_more_than_the_share_and_one_purse(
    costs: list[float], overhead: float
) -> None:
    named = {f"stream {n}": cost for n, cost in enumerate(costs)}
    runs, spent_s = spend(Governor(overhead), named, steps=400, step_s=0.01)
    wall_s = 400 * 0.01 + sum(runs[stream] * named[stream] for stream in named)
    # All may be admitted by one purse in the same step, before it knows of the others.
    assert spent_s <= overhead * wall_s + sum(costs) + 1e-9


def test_every_stream_runs_twice_before_it_is_thinned() -> None:
    governor = Governor(0.02)
    runs, _ = spend(governor, {"histograms": 10.0}, steps=50, step_s=0.01)
    assert runs == {"histograms": 2}
    assert governor.shed == ("histograms: 48 of 50 captures skipped",)


def test_a_first_capture_that_paid_for_imports_is_forgotten() -> None:
    governor = Governor(0.1)
    assert governor.admits("norms")
    governor.spent("norms", 5.0)
    assert governor.admits("norms")
    governor.spent("norms", 0.0001)
    governor.earn(0.01)
    assert governor.admits("norms")


def test_a_long_pause_does_not_buy_a_burst() -> None:
    governor = Governor(0.02)
    spend(governor, {"all gradients": 0.005}, steps=100, step_s=0.01)
    governor.earn(3600.0)
    governor.earn(0.01)
    runs, _ = spend(governor, {"all gradients": 0.005}, steps=20, step_s=0.0)
    assert runs["all gradients"] <= Governor.PURSE_STEPS + 1


def test_a_stream_that_became_dearer_is_thinned_more() -> None:
    governor = Governor(0.02)
    before, _ = spend(governor, {"norms": 0.001}, steps=1000, step_s=0.01)
    after, _ = spend(governor, {"norms": 0.01}, steps=1000, step_s=0.01)
    assert after["norms"] < before["norms"] / 5


@pytest.mark.parametrize("cost", [0.001, 100.0])
def test_no_limit_admits_everything(cost: float) -> None:
    runs, _ = spend(Governor(0.0), {"norms": cost}, steps=100, step_s=0.01)
    assert runs == {"norms": 100}


def test_a_cheap_stream_starves_no_dear_one() -> None:
    costs = {"means": 0.003, "histograms": 0.020}
    runs, spent_s = spend(Governor(0.02), costs, steps=1000, step_s=0.1)
    wall_s = 1000 * 0.1 + sum(runs[stream] * costs[stream] for stream in costs)
    assert runs["histograms"] >= 45  # half of 2 ms a step, 20 ms each: one in twenty
    assert runs["means"] >= 300
    assert spent_s <= 0.02 * wall_s


def test_what_a_cheap_stream_leaves_goes_to_a_dear_one() -> None:
    costs = {"norms": 0.0001, "histograms": 0.020}
    runs, _ = spend(Governor(0.02), costs, steps=1000, step_s=0.1)
    assert runs["norms"] == 1000
    assert runs["histograms"] >= 90  # 1.9 of 2 ms a step
