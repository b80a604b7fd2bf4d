"""LOS439: a few rows with extreme targets make up nearly all of a squared loss."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import BootstrappedTargets
from mothtrap.core.facts.losses import LossCall, TargetSample
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.proof import Proof
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import NOT_FINITE, UNLEARNED
from mothtrap.rules._loss_calls import by_place, targets_move, train_calls
from mothtrap.rules._losses import has_players

AGREEMENT = 2.0
"""Largest ratio between a loss and the squared error of its extreme row; chosen by hand."""


@dataclass(frozen=True, slots=True)
class _Extreme:
    """The extreme target of a batch, and the mean and spread of the other targets."""

    call: LossCall
    value: float
    mean: float
    spread: float

    @property
    def distance(self) -> float:
        return abs(self.value - self.mean) / self.spread


@rule(
    "LOS439",
    title="a few rows dominate the loss",
    needs=[
        Need(facts=(LossCall,), scalars=("loss",)),
        Need(facts=(BootstrappedTargets,), optional=True),
    ],
    explains=(
        *NOT_FINITE,
        *UNLEARNED,
        *("exploding_gradient", "gradient_spike", "learning_rate_too_high", "loss_diverging"),
        *("loss_oscillating", "loss_spike", "overfit", "overtraining", "too_little_data"),
        *("unscaled_targets", "update_ratio", "clipping_every_step", "weight_growth"),
        *("constant_output", "wrong_initial_loss"),
    ),
    proof=Proof(title="Loss", scalars=("loss",)),
)
def outlying_targets(
    window: Window,
    *,
    far: float = threshold(
        30.0, unit="standard deviations of the other targets", source="chosen by hand"
    ),
    rows: int = threshold(8, unit="rows of a batch", source="chosen by hand"),
    looks: int = threshold(2, unit="sampled batches", source="chosen by hand"),
) -> Found | None:
    """A few rows with extreme targets make up nearly all of a squared loss.

    What it detects:
        Batches in which the error of a single row is nearly all of the loss, because its target is
        far from all other targets: a typing error, another unit, a number that stands for "missing"
        such as -999, or a distribution with a long tail.

    Why it matters:
        The gradient points to the extreme rows and ignores the others. Loss and gradient jump when
        a batch contains such a row, and neither shows how well the other rows are predicted.
        A lower learning rate does not help.

    Fires:
        Warning when at least `looks` sampled batches of at least `rows` rows contain a target at
        least `far` standard deviations of the other targets from their mean, and the squared error
        of this row alone is the loss of the batch, to within a factor of 2.

    Stays quiet:
        For absolute and Huber losses, whose gradient is limited. For rows that the model predicts.
        For losses with several numbers per row, models that learn from their own output, and
        competing losses (GAN). Batches with several such rows are not recognized.

    What to do:
        - Look at these rows, and remove them or mark them as missing if the value is wrong.
        - If the values are right, train on a logarithm of the target, or use a loss with a limited
          gradient, such as the Huber loss.

    Example:
        prices = table["price"]                      # some are in cents: 45,000,000
        prices = table["price"].where(table["price"] < 5_000_000).dropna()

    References:
        Huber 1964, Robust estimation of a location parameter,
        https://doi.org/10.1214/aoms/1177703732
    """
    calls = [call for call in train_calls(window) if call.operation == "elementwise"]
    if not calls:
        raise NotApplicable("no regression loss was recorded")
    if has_players(window) or targets_move(window):
        raise NotApplicable("the targets are outputs of the model")
    seen = [call for call in calls if call.targets is not None and _has_one_number(call)]
    if len(seen) < looks:
        raise NotEnoughData(f"fewer than {looks} batches with one number per row were sampled")
    losses = _losses(window)
    for same in by_place(seen):
        found = [
            one
            for call in same
            if (one := _extreme(call, rows)) is not None
            and one.distance >= far
            and _is_the_loss(one, losses.get((call.series, call.step)))
        ]
        if len(found) < looks:
            continue
        farthest = max(found, key=lambda one: abs(one.value - one.mean))
        return Found.of(
            [one.call for one in found],
            f"in {len(found)} of {len(same)} sampled batches, the error of a single row is nearly "
            f"all of the loss: its target, such as {farthest.value:.4g}, is at least {far:g} "
            "standard deviations from the others, which are "
            f"{farthest.mean:.3g} ± {farthest.spread:.3g} (first at step {found[0].call.step})",
            step=same[0].step,
            last_step=found[-1].call.step,
            count=len(found),
            evidence={
                "value": farthest.value,
                "distance": farthest.distance,
                "limit": far,
                "batches": len(found),
                "sampled": len(same),
            },
            location=found[0].call.location,
            fixes=_fixes([one.value for one in found]),
        )
    return None


def _fixes(values: list[float]) -> tuple[str | int, ...] | None:
    """Return the fix for a number that occurs again and again; None for different numbers."""
    if len(set(values)) > 1:
        return None
    return (
        f"If {values[0]:g} stands for a missing value, leave these rows out: "
        f"`keep = targets != {values[0]:g}`.",
        1,
    )


def _has_one_number(call: LossCall) -> bool:
    shape = call.target_shape or call.prediction_shape or ()
    return bool(shape) and math.prod(shape) == shape[0]


def _losses(window: Window) -> dict[tuple[str | None, int], float]:
    """Return the loss of each series at each step."""
    return {
        (series.of, int(step)): float(value)
        for series in window.scalars("loss")
        for step, value in zip(series.steps_S, series.values_S, strict=True)
    }


def _extreme(call: LossCall, rows: int) -> _Extreme | None:
    """Return the target that is farthest from the mean of a batch; None if the others are equal."""
    sample: TargetSample | None = call.targets
    if sample is None or sample.count < rows:
        return None
    least, greatest, mean, std = sample.least, sample.greatest, sample.mean, sample.std
    if least is None or greatest is None or mean is None or std is None:
        return None
    count = sample.count
    value = greatest if greatest - mean > mean - least else least
    squares = count * std**2 - count / (count - 1) * (value - mean) ** 2
    if squares <= 1e-9 * count * std**2:
        return None
    others = count - 1
    return _Extreme(call, value, (count * mean - value) / others, float(np.sqrt(squares / others)))


def _is_the_loss(one: _Extreme, loss: float | None) -> bool:
    """Return whether a loss is the squared error of the extreme row alone."""
    if loss is None or one.call.targets is None or one.call.reduction not in ("mean", "sum"):
        return False
    rows = one.call.targets.count if one.call.reduction == "mean" else 1
    alone = (one.value - one.mean) ** 2 / rows
    return alone / AGREEMENT <= loss <= alone * AGREEMENT
