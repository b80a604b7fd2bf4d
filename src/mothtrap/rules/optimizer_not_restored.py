"""OPT615: a resumed training has its weights, but not the state of its optimizer or schedule."""

from __future__ import annotations

import numpy as np

from mothtrap.core.facts.workers import OptimizersNotRestored, Resumed
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._restarts import first_values, lost_on_restart

RATES = 8
"""Number of learning rates that are compared; chosen by hand."""
EQUAL = 1e-4
"""Largest relative difference between equal rates; larger than rounding in float32."""
APART = 0.1
"""Smallest relative difference between the rates before and after a restart; chosen by hand."""


@rule(
    "OPT615",
    title="state of the optimizer was not restored",
    severity="info",
    needs=[
        Need(facts=(OptimizersNotRestored, Resumed)),
        Need(scalars=("lr",), optional=True),
    ],
    explains=("loss_jump_on_resume", "loss_spike", "gradient_spike", "update_ratio"),
)
def optimizer_not_restored(
    window: Window,
    *,
    steps: int = threshold(
        20, unit="steps", source=("chosen by hand: averages matter little before that")
    ),
) -> Found | None:
    """A resumed training run restores its weights, but not the state of its optimizer.

    What it detects:
        A restarted job that loaded the weights of an earlier attempt and steps with an optimizer
        that keeps momentum or averages of squares, but has none at the first step. Also a learning
        rate schedule that begins again.

    Why it matters:
        The first steps of Adam without averages are as long as the learning rate allows in every
        direction. The loss rises after each restart. A schedule that begins again warms up once
        more, or goes back to a learning rate that is too high for the trained weights.

    Fires:
        Info when an earlier attempt saved these weights after at least `steps` steps, and an
        optimizer with averages has no state before the first step. Also when the learning rates of
        the first eight steps after the restart are those of the first steps of the job, but the
        rate was different by then; a warning if they are a warm-up.

    Stays quiet:
        For optimizers without state (plain SGD). For jobs that start over, or that load weights
        from elsewhere. For a constant learning rate.

    What to do:
        - PyTorch: Save and load the state of the optimizer with the weights:
          `optimizer.load_state_dict(checkpoint["optimizer"])`. Also load the state of the learning
          rate schedule and of the gradient scaler.
        - Keras: Save the whole model with `model.save(path)`, which includes the optimizer.
        - JAX: Save and load the state of the optimizer with the weights.

    Example:
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])        # was forgotten

    References:
        PyTorch, Saving and loading a general checkpoint,
        https://docs.pytorch.org/tutorials/recipes/recipes/saving_and_loading_a_general_checkpoint.html
    """
    lost = lost_on_restart(window, OptimizersNotRestored, steps)
    if lost is None:
        return _schedule(window, steps)
    one, names = lost
    return Found.of(
        one,
        f"the job loaded the weights of step {one.step}, but not the averages that {names} had "
        "built up by then",
        evidence={"steps": one.step, "limit": steps},
    )


def _schedule(window: Window, steps: int) -> Found | None:
    """Return a learning rate schedule that begins again."""
    for resumed in window.seen(Resumed):
        for series in window.scalars("lr"):
            first = np.array(resumed.first_rates.get(series.of, ())[:RATES])
            last = resumed.last_rates.get(series.of)
            if resumed.step < steps or not resumed.loaded or last is None or len(first) < RATES:
                continue
            after = first_values(series, resumed.step, RATES)
            if len(after) < RATES or not _begins_again(first, last, after):
                continue
            warms_up = bool((np.diff(first) > 0).all())
            return Found(
                step=resumed.step,
                last_step=resumed.step + RATES - 1,
                count=RATES,
                severity="warning" if warms_up else "info",
                title="schedule was not restored",
                message=(
                    f"the job continues at step {resumed.step}, but the learning rate of "
                    f"{series.of} begins again at {first[0]:.3g}, as at step 0"
                    f"{', with a warm-up' if warms_up else ''}; it had reached {last:.3g}"
                ),
                evidence={"first": float(first[0]), "last": last, "steps": resumed.step},
                location=series.location,
                fixes=(
                    "Save and load the state of the schedule with the weights: "
                    '`scheduler.load_state_dict(checkpoint["scheduler"])`. Where the learning rate '
                    "is a function of the step, restore the number of the step.",
                ),
            )
    return None


def _begins_again(first: np.ndarray, last: float, after: np.ndarray) -> bool:
    """Return whether a schedule begins again; its first rate can be that of the optimizer."""
    same = bool(np.allclose(after[1:], first[1:], rtol=EQUAL, atol=0))
    low, high = float(first.min()) * (1 - APART), float(first.max()) * (1 + APART)
    return same and not low <= last <= high
