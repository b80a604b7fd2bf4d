"""The governor keeps mothtrap within its share of the time, and drops captures in order.

The job is simulated: the time of each step, the time of mothtrap's hooks in it, and the streams
with captures due. No clock is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mothtrap.capture.governor import Governor, Priority

BUDGET = 0.02
TOLERANCE = 0.002
"""0.2 percentage points."""
REACTS_STEPS = 50


@dataclass(frozen=True, slots=True)
class Wants:
    """A stream: the cost of a capture at a step, and the number of steps between due captures."""

    priority: Priority
    cost_s: Callable[[int], float]
    every: int = 1


@dataclass(frozen=True, slots=True)
class Course:
    """Course of a job; S = steps.

    `fixed_S` and `captures_S` are seconds of mothtrap in a step, `time_S` those of the whole step.
    """

    time_S: npt.NDArray[np.float64]
    fixed_S: npt.NDArray[np.float64]
    captures_S: npt.NDArray[np.float64]
    due: dict[str, list[int]]
    made: dict[str, list[int]]

    def share(self, begin: int, end: int) -> float:
        """Return the share of mothtrap in the time of some steps."""
        own_S = self.fixed_S + self.captures_S
        return float(own_S[begin:end].sum() / self.time_S[begin:end].sum())

    def rate(self, stream: str, begin: int = 0) -> float:
        """Return the share of due captures that were made, from a step on."""
        due = sum(step >= begin for step in self.due[stream])
        return sum(step >= begin for step in self.made[stream]) / due


def always(cost_s: float) -> Callable[[int], float]:
    return lambda _: cost_s


def simulate(
    steps_s: Sequence[float],
    streams: dict[str, Wants],
    fixed_s: Callable[[int], float] = lambda step: 0.0,
    *,
    overhead: float = BUDGET,
) -> Course:
    """Let the governor decide in a job with the given step times without mothtrap."""
    governor = Governor(overhead)
    time_S, fixed_S, captures_S = (np.zeros(len(steps_s)) for _ in range(3))
    due: dict[str, list[int]] = {name: [] for name in streams}
    made: dict[str, list[int]] = {name: [] for name in streams}
    for step, step_s in enumerate(steps_s):
        for name, stream in streams.items():
            if step % stream.every == 0:
                due[name].append(step)
                if governor.admits(name, stream.priority):
                    made[name].append(step)
        for name, stream in streams.items():
            if made[name][-1:] == [step]:
                cost_s = stream.cost_s(step)
                governor.spent(name, cost_s)
                captures_S[step] += cost_s
        fixed_S[step] = fixed_s(step)
        time_S[step] = step_s + fixed_S[step] + captures_S[step]
        governor.earn(time_S[step], fixed_S[step] + captures_S[step])
    return Course(time_S, fixed_S, captures_S, due, made)


def changes(seed: int, *, steps: int, step_s: float) -> tuple[list[float], list[int]]:
    """Return step times with occasional tenfold jumps, and the steps of the jumps."""
    random = np.random.default_rng(seed)
    found: list[float] = []
    jumps: list[int] = []
    while len(found) < steps:
        jumps.append(len(found))
        step_s = step_s / 10 if step_s > 0.05 else step_s * 10
        length = int(random.integers(3 * REACTS_STEPS, 8 * REACTS_STEPS))
        found += list(step_s * random.uniform(0.8, 1.2, length))
    return found, jumps


def shares(course: Course, jumps: Sequence[int], length: int) -> list[float]:
    """Return the shares of all stretches of that length that exclude 50 steps after a jump."""
    ends = [*jumps[1:], len(course.time_S)]
    return [
        course.share(begin, begin + length)
        for jump, end in zip(jumps, ends, strict=True)
        for begin in range(jump + REACTS_STEPS, end - length + 1)
    ]


# The budget


@given(
    seed=st.integers(0, 2**32 - 1),
    step_s=st.sampled_from([0.01, 0.1]),
    parts=st.lists(st.floats(0.001, 0.02), min_size=1, max_size=4),
    hooks=st.floats(0.0, 0.9),
)
@settings(max_examples=25, deadline=None)
def test_the_budget_is_held_within_a_fifth_of_a_point_fifty_steps_after_steps_changed_tenfold(
    seed: int, step_s: float, parts: list[float], hooks: float
) -> None:
    """The costs of hooks and captures are proportional to the step, as with longer sequences."""
    steps_s, jumps = changes(seed, steps=1500, step_s=step_s)
    streams = {
        f"stream {n}": Wants(list(Priority)[n], lambda step, part=part: part * steps_s[step])  # type: ignore[misc]
        for n, part in enumerate(parts)
    }
    course = simulate(steps_s, streams, lambda step: hooks * BUDGET * steps_s[step])
    wanted = min(BUDGET, sum(parts) + hooks * BUDGET)
    for share in shares(course, jumps, 2 * REACTS_STEPS):
        assert wanted - TOLERANCE <= share / (1 + wanted) <= BUDGET + TOLERANCE


@given(
    seed=st.integers(0, 2**32 - 1),
    costs=st.lists(st.tuples(st.floats(1e-5, 0.1), st.integers(1, 60)), min_size=1, max_size=5),
    order=st.permutations([*Priority, Priority.GRADIENTS]),
    hooks_s=st.floats(0.0, 0.0002),
)
@settings(max_examples=25, deadline=None)
def test_no_stretch_costs_more_than_the_budget_and_one_capture_of_each_stream(
    seed: int, costs: list[tuple[float, int]], order: list[Priority], hooks_s: float
) -> None:
    """This holds for all costs and step times, as the module docstring states."""
    random = np.random.default_rng(seed)
    steps_s = 0.01 * 10 ** random.integers(0, 2, 1200)
    course = simulate(
        steps_s.tolist(),
        {
            f"stream {n}": Wants(order[n], always(cost), every)
            for n, (cost, every) in enumerate(costs)
        },
        always(hooks_s),
    )
    first = [made[1] for made in course.made.values() if len(made) > 1]
    if len(first) < len(costs):
        return  # not all have had their trials
    own_S = course.fixed_S + course.captures_S
    over_S = np.cumsum(own_S - (BUDGET + TOLERANCE / 2) * course.time_S)[max(first) + 1 :]
    worst_s = float(np.max(over_S - np.minimum.accumulate(over_S), initial=0.0))
    usual_s = BUDGET * float(course.time_S.max())
    assert worst_s <= sum(2 * cost for cost, _ in costs) + len(costs) * usual_s


def test_hooks_are_paid_first_and_captures_get_the_rest() -> None:
    expensive = {"gradients": Wants(Priority.GRADIENTS, always(0.003))}
    for hooks in (0.0, 0.005, 0.01, 0.015):
        course = simulate([0.1] * 3000, expensive, always(0.1 * hooks))
        assert course.share(100, 3000) == pytest.approx(BUDGET, abs=5e-4)


def test_a_hook_that_is_expensive_now_and_then_is_paid_by_the_steps_after_it() -> None:
    course = simulate(
        [0.1] * 3000,
        {"gradients": Wants(Priority.GRADIENTS, always(0.002))},
        lambda step: 0.12 if step % 100 == 0 else 0.0002,
    )
    for begin in range(100, 2800, 50):
        assert course.share(begin, begin + 200) <= BUDGET + TOLERANCE


@pytest.mark.parametrize("hooks", [0.03, 0.1, 0.5])
def test_hooks_that_leave_nothing_leave_captures_a_tenth_of_what_they_take(hooks: float) -> None:
    course = simulate(
        [0.002] * 5000,
        {"dead units": Wants(Priority.ACTIVATIONS, always(0.0001), 16)},
        always(0.002 * hooks),
    )
    assert len(course.made["dead units"]) >= 30
    assert course.captures_S.sum() <= 0.12 * course.fixed_S.sum()
    assert course.captures_S.sum() <= BUDGET * course.time_S.sum()


def test_what_hooks_took_of_short_steps_is_soon_forgotten_when_steps_become_longer() -> None:
    streams = {"gradients": Wants(Priority.GRADIENTS, always(0.001))}
    course = simulate([0.01] * 2000 + [0.1] * 200, streams, always(0.001))
    assert course.share(2000 + REACTS_STEPS, 2200) == pytest.approx(BUDGET, abs=TOLERANCE)


def test_a_stream_that_becomes_ten_times_more_expensive_is_thinned_as_much() -> None:
    streams = {
        "norms": Wants(Priority.WEIGHTS, lambda step: 0.0004 if step < 1000 else 0.004),
        "means": Wants(Priority.WEIGHTS, always(0.0002)),
    }
    course = simulate([0.1] * 2000, streams)
    assert course.rate("norms", 1000) == pytest.approx(0.1 * 0.0018 / 0.0004, rel=0.2)
    assert course.rate("means") > 0.98
    for begin in range(1000 + REACTS_STEPS, 1900, 10):
        assert course.share(begin, begin + 100) <= BUDGET + TOLERANCE


def test_an_expensive_first_capture_costs_no_later_one() -> None:
    streams = {"norms": Wants(Priority.GRADIENTS, lambda step: 0.0001 if step else 5.0)}
    assert simulate([0.01] * 100, streams).rate("norms") == 1.0


def test_a_stream_that_costs_seconds_is_captured_twice() -> None:
    streams = {"histograms": Wants(Priority.COPIES, always(10.0))}
    assert simulate([0.01] * 50, streams).made == {"histograms": [0, 1]}


@pytest.mark.parametrize("cost", [0.001, 100.0])
def test_no_limit_admits_everything(cost: float) -> None:
    streams = {"norms": Wants(Priority.COPIES, always(cost))}
    assert simulate([0.01] * 100, streams, overhead=0.0).rate("norms") == 1.0


def test_cheap_streams_are_never_thinned() -> None:
    """Not even in the first steps, while the credits are empty."""
    streams = {name: Wants(priority, always(0.00003)) for name, priority in ONE_EACH.items()}
    course = simulate([0.01] * 1000, streams)
    assert [course.rate(name) for name in streams] == [1.0] * 4


@pytest.mark.parametrize("pause_s", [10.0, 3600.0])
def test_a_long_pause_buys_no_burst(pause_s: float) -> None:
    streams = {name: Wants(priority, always(0.0005)) for name, priority in ONE_EACH.items()}
    course = simulate([0.01] * 300 + [pause_s] + [0.01] * 300, streams)
    assert course.share(301, 301 + REACTS_STEPS) == pytest.approx(BUDGET, abs=TOLERANCE)
    assert course.share(301 + REACTS_STEPS, 600) == pytest.approx(BUDGET, abs=TOLERANCE)
    for name in ("copies", "activations", "weights"):
        assert max(course.made[name]) < 300


def test_steps_of_no_time_do_not_stop_the_pay_for_good() -> None:
    costs = {"gradients": Wants(Priority.GRADIENTS, lambda step: 0.001 if step > 20 else 0.0)}
    course = simulate([0.0] * 20 + [0.1] * 500, costs)
    assert course.rate("gradients", 100) == 1.0


# Who is thinned

ONE_EACH = {
    "copies": Priority.COPIES,
    "activations": Priority.ACTIVATIONS,
    "weights": Priority.WEIGHTS,
    "gradients": Priority.GRADIENTS,
}


@pytest.mark.parametrize(
    ("cost_s", "rates"),
    [
        (0.0004, [1.0, 1.0, 1.0, 1.0]),
        (0.0006, [0.40, 1.0, 1.0, 1.0]),
        (0.0009, [0.0, 0.27, 1.0, 1.0]),
        (0.0015, [0.0, 0.0, 0.36, 1.0]),
        (0.0030, [0.0, 0.0, 0.0, 0.68]),
    ],
)
def test_copies_are_shed_first_then_activations_then_weights_and_gradients_last(
    cost_s: float, rates: list[float]
) -> None:
    """Each would cost `cost_s` at every step of 100 ms, which earns 2.04 ms with mothtrap in it."""
    course = simulate([0.1] * 2000, {n: Wants(p, always(cost_s)) for n, p in ONE_EACH.items()})
    assert [course.rate(name, 50) for name in ONE_EACH] == pytest.approx(rates, abs=0.03)


def test_a_stream_that_is_asked_for_other_tensors_is_shed_as_they_are() -> None:
    """A collection may be replaced by one of the same name while a job runs."""
    governor = Governor(BUDGET)

    def admitted(priority: Priority) -> list[str]:
        asked = {"replaced": priority, "weights": Priority.WEIGHTS}
        return [name for name, rank in asked.items() if governor.admits(name, rank)]

    for _ in range(2):
        for stream in admitted(Priority.GRADIENTS):
            governor.spent(stream, 0.1)
        governor.earn(0.1, 0.2)
    while not (first := admitted(Priority.ACTIVATIONS)):
        governor.earn(0.1, 0.0)
    assert first == ["weights"]


@given(
    cost=st.floats(0.0001, 0.01),
    gradient_every=st.integers(2, 60),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=25, deadline=None)
def test_gradients_that_are_due_now_and_then_are_not_pushed_out_by_what_is_due_always(
    cost: float, gradient_every: int, seed: int
) -> None:
    """They save up for their turn: what they need on average is reserved for them."""
    steps_s, _ = changes(seed, steps=2000, step_s=0.1)
    needed = cost / gradient_every
    if needed > 0.5 * BUDGET * 0.008:
        return  # not affordable in the short steps by a wide margin
    streams = {
        "gradients": Wants(Priority.GRADIENTS, always(cost), gradient_every),
        "copies": Wants(Priority.COPIES, always(0.01)),
    }
    course = simulate(steps_s, streams)
    assert course.rate("gradients", 100) >= 0.9
    assert course.rate("copies", 100) < 0.9


@given(
    costs=st.lists(st.floats(0.0005, 0.02), min_size=2, max_size=5),
    every=st.lists(st.sampled_from([1, 2, 3, 7, 16, 50]), min_size=5, max_size=5),
)
@settings(max_examples=25, deadline=None)
def test_no_one_starves_among_equals(costs: list[float], every: list[int]) -> None:
    """Each gets an equal part of the credit, or all that it needs."""
    streams = {
        f"stream {n}": Wants(Priority.ACTIVATIONS, always(cost), every[n])
        for n, cost in enumerate(costs)
    }
    course = simulate([0.1] * 6000, streams)
    part_s = BUDGET * 0.1 / len(costs)
    for name, stream in streams.items():
        affordable = min(1.0, part_s * stream.every / stream.cost_s(0))
        # What is due every 50 steps, and affordable every 51 steps, is made every second time.
        assert course.rate(name, 200) >= 0.45 * affordable
    starved = [n for n in streams if len([s for s in course.made[n] if s >= 3000]) == 0]
    assert not starved


def test_what_a_cheap_stream_leaves_goes_to_a_expensive_one() -> None:
    streams = {
        "norms": Wants(Priority.WEIGHTS, always(0.0001)),
        "histograms": Wants(Priority.WEIGHTS, always(0.020)),
    }
    course = simulate([0.1] * 1000, streams)
    assert course.rate("norms") == 1.0
    assert len(course.made["histograms"]) >= 90  # 1.9 of 2 ms a step


def test_a_cheap_stream_starves_no_expensive_one() -> None:
    streams = {
        "means": Wants(Priority.WEIGHTS, always(0.003)),
        "histograms": Wants(Priority.WEIGHTS, always(0.020)),
    }
    course = simulate([0.1] * 1000, streams)
    assert len(course.made["histograms"]) >= 45  # half of 2 ms a step, 20 ms each
    assert len(course.made["means"]) >= 300


# The guards can fail


def test_the_simulation_shows_a_governor_that_is_not_there() -> None:
    streams = {n: Wants(p, always(0.003)) for n, p in ONE_EACH.items()}
    steps_s, jumps = changes(0, steps=1000, step_s=0.1)
    course = simulate(steps_s, streams, overhead=0.0)
    assert all(course.rate(name) == 1.0 for name in streams)
    assert max(shares(course, jumps, 100)) > 10 * BUDGET
