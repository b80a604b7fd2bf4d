"""OPT624: a warm-up of the learning rate starts again and again."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.proof import Proof
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Ints, Window
from mothtrap.rules._losses import learning_rates, loss_series
from mothtrap.rules._weights import optimizer_location

FALL = 0.5
"""Share of the previous rate below which a rate counts as a new start; chosen by hand."""
NEAR = 0.02
"""Relative difference up to which two rates are equal; chosen by hand."""


@rule(
    "OPT624",
    title="warm-up starts again and again",
    needs=[Need(scalars=("loss", "lr")), Need(facts=(OptimizerFacts,), optional=True)],
    proof=Proof(title="Learning rate", scalars=("lr",)),
    explains=("learning_rate_too_low", "loss_not_decreasing", "loss_oscillating"),
)
def warm_up_restarts(
    window: Window,
    *,
    starts: int = threshold(3, unit="new starts", source="chosen by hand"),
    length: int = threshold(5, unit="steps of each rise", source="chosen by hand"),
    rise: float = threshold(2.0, unit="times the first rate", source="chosen by hand"),
) -> Found | None:
    """A warm-up of the learning rate starts again and again.

    What it detects:
        A learning rate that rises for a number of steps, falls back to the rate of the first step,
        and rises again, always for the same number of steps.

    Why it matters:
        The warm-up counts the batches of a pass instead of all steps of the training, so it starts
        again with every pass. The learning rate often never reaches its full value.

    Fires:
        Warning when the learning rate rises from its first value, or rises and then stays, for the
        same number of steps, at least `length`, and at least `starts` times it falls back to its
        first value in one step. Each rise is at least `rise` times the first value.

    Stays quiet:
        For rates that fall step by step, as in cosine restarts and cyclical schedules. For rises of
        different lengths.

    What to do:
        - Count all steps, not those of a pass: `step = epoch * len(loader) + batch`.
        - Create the scheduler once, before the loop over the epochs.

    Example:
        for epoch in range(epochs):
            for i, batch in enumerate(loader):
                rate = lr * min(1, (i + 1) / warm_up)                            # starts again
                rate = lr * min(1, (epoch * len(loader) + i + 1) / warm_up)

    References:
        Goyal et al. 2017, Accurate, large minibatch SGD, section 2.2,
        https://arxiv.org/abs/1706.02677
    """
    every = [(series, *learning_rates(window, series)) for series in loss_series(window)]
    longest = max((len(rate_S) for _, _, rate_S in every), default=0)
    if longest < (starts + 1) * length:
        raise NotEnoughData(f"fewer than {(starts + 1) * length} learning rates were recorded")
    for series, step_S, rate_S in every:
        begins = _begins(step_S, rate_S, length, rise)
        if len(begins) <= starts:
            continue
        apart, least = int(begins[1] - begins[0]), float(rate_S[begins[0]])
        most, again = float(rate_S[begins[0] : begins[-1]].max()), len(begins) - 1
        return Found(
            step=int(step_S[begins[1]]),
            last_step=int(step_S[-1]),
            count=again,
            message=(
                f"the learning rate rises from {least:.3g} to {most:.3g}, and starts at "
                f"{least:.3g} again every {apart} steps, {again} times: the warm-up begins anew "
                "in each pass"
            ),
            evidence={"value": again, "limit": starts, "steps": apart},
            location=next((optimizer_location(window, o) for o in series.optimizers), None),
        )
    return None


def _begins(step_S: Ints, rate_S: Floats, length: int, rise: float) -> Ints:
    """Return the places at which a rate begins to rise; empty if it does not repeat itself."""
    none = np.empty(0, dtype=np.int64)
    if not len(rate_S) or not (rate_S > 0).all() or not (np.diff(step_S) == 1).all():
        return none
    begins = np.flatnonzero(rate_S[1:] < FALL * rate_S[:-1]) + 1
    if step_S[0] == 0:
        begins = np.append(0, begins)
    apart = np.diff(begins)
    if len(apart) < 1 or apart.min() < length or apart.max() != apart.min():
        return none
    first = rate_S[begins[0]]
    change_S = np.diff(rate_S[begins[0] :])
    change_S[begins[1:] - 1 - begins[0]] = 0
    rises = (change_S >= -NEAR * first).all()
    same = (np.abs(rate_S[begins] - first) <= NEAR * first).all()
    high = (rate_S[begins[1:] - 1] >= rise * first).all()
    return begins if rises and same and high else none
