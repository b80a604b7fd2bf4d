"""DAT529: values after the end of an episode count in the targets."""

from __future__ import annotations

import numpy as np

from mothtrap.core.facts.policies import UnreadEnds
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window

MEDIAN_STEPS = 20
"""Number of losses per median; chosen by hand."""


@rule(
    "DAT529",
    title="ends of episodes are not used",
    needs=[Need(facts=(UnreadEnds,)), Need(scalars=("loss",), optional=True)],
    explains=("activation_growth", "exploding_gradient", "loss_diverging"),
)
def episode_ends_ignored(
    window: Window,
    *,
    steps: int = threshold(8, unit="steps", source="chosen by hand: the source is read early"),
    grown: float = threshold(
        1e3,
        unit="times the first losses",
        source="chosen by hand: losses of values that start near 0 grow less",
    ),
) -> Found | None:
    """Values after the end of an episode count in the targets.

    What it detects:
        A function of the script that computes `reward + gamma * value`, and receives the ends of
        episodes (`done`, `terminated`), but never reads them. PyTorch: also a function that
        multiplies the value by `done` instead of `1 - done`.

    Why it matters:
        After the last step of an episode nothing follows, so the value of the next state is 0.
        Without the ends, the target adds the value of a state that is never reached. Failures look
        as good as successes, and the values grow. If the value is multiplied by `done`, it is 0 in
        all other states, so the model only learns the next reward.

    Fires:
        Info after `steps` steps if the source shows this. Warning if the value is multiplied by
        `done`, and at most half of the entries of `done` are 1. Warning if the loss has grown to
        `grown` times its first values: without ends, the values can grow without bound.

    Stays quiet:
        Functions that get no ends, and files in which such a function reads ends or a mask.

    What to do:
        - Multiply the value of the next state by 0 at the end of an episode:
          `reward + gamma * (1 - done) * value`.
        - Ignore this if episodes only end because of a time limit.

    Example:
        target = reward + gamma * q_target(after).max(1).values
        target = reward + gamma * (1 - done) * q_target(after).max(1).values

    References:
        Sutton, Barto 2018, Reinforcement Learning, section 6.1,
        http://incompleteideas.net/book/the-book-2nd.html
    """
    for one in window.seen(UnreadEnds, steps=steps):
        return Found.of(
            one,
            _words(one),
            severity="warning" if one.inverted or _grows(window, grown) else "info",
            title="ends of episodes are inverted" if one.inverted else "",
            step=0,
            last_step=window.last_step,
            evidence={"name": one.name, "inverted": one.inverted},
        )
    return None


def _grows(window: Window, times: float) -> bool:
    """Return whether the latest losses of a series are far above its first losses."""
    for series in window.scalars("loss"):
        loss_S = series.values_S[np.isfinite(series.values_S)]
        if len(loss_S) < 2 * MEDIAN_STEPS or series.total > len(series):
            continue
        first, latest = np.median(loss_S[:MEDIAN_STEPS]), np.median(loss_S[-MEDIAN_STEPS:])
        if first > 0 and latest >= times * first:
            return True
    return False


def _words(one: UnreadEnds) -> str:
    if one.inverted:
        return (
            f"the discounted value of the next state is multiplied by `{one.name}`, which is 1 "
            "only at the end of an episode: in all other states, the target is only the reward"
        )
    return (
        f"the function at {one.location} discounts the value of the next state, and gets the ends "
        f"of episodes as `{one.name}`, but never reads `{one.name}`"
    )
