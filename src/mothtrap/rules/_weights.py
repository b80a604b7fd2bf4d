"""Needs and values shared by the rules on weights, updates, and optimizers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.needs import Need
from mothtrap.core.schedule import Schedule
from mothtrap.core.tensors import TensorInfo
from mothtrap.core.window import Bools, Floats, Ints, Window
from mothtrap.rules._losses import loss_location

FIRST_STEPS = (0, 1, 2, 4, 8, 16, 32)
EVERY_STEPS = 64
"""Steps at which weights and their changes are sampled; chosen by hand: often at the start of
training, later so rarely that the cost is negligible."""
CONVERGED = 1e-4
"""A gradient below this share of its largest value is negligible. Chosen by hand: an
exact fit in float32 ends at about 1e-6, and a weight that is reset keeps its gradient."""

MOVED = 1e-5
"""Relative change of a norm that is no rounding error; chosen by hand."""

_LOOK = ("l2", "nan", "inf", "update_ratio")
WEIGHTS = (
    Need(kinds=("weight",), statistics=_LOOK, schedule=Schedule(steps=FIRST_STEPS)),
    Need(
        kinds=("weight",), statistics=_LOOK, schedule=Schedule(every=EVERY_STEPS, start=EVERY_STEPS)
    ),
)

GRADIENTS = Need(kinds=("gradient",), statistics=("l2",))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ratios:
    """Update ratios of the weights with at least two axes, at sampled and applied steps.

    `values_ST` is NaN where no change was captured, and where the weight was 0 before. No row
    is all NaN.
    """

    tensors: tuple[TensorInfo, ...]
    steps_S: Ints
    values_ST: Floats

    def middle(self) -> Floats:
        """Return the median ratio at each step; shape (S,)."""
        return np.array([np.median(row_T[~np.isnan(row_T)]) for row_T in self.values_ST])

    def largest(self) -> Floats:
        """Return the largest ratio at each step; shape (S,)."""
        return np.array([np.max(row_T[~np.isnan(row_T)]) for row_T in self.values_ST])

    def fastest(self, step: int, count: int = 3) -> tuple[str, ...]:
        """Return the names of the weights that moved most at or before a sampled step."""
        row = int(np.searchsorted(self.steps_S, step, side="right")) - 1
        row_T = self.values_ST[max(0, row)]
        order = np.argsort(-np.where(np.isnan(row_T), -1.0, row_T))[:count]
        return tuple(self.tensors[i].name for i in order if not np.isnan(row_T[i]))


def update_ratios(window: Window) -> Ratios | None:
    """Return the update ratios of weights; None if none was captured."""
    found = window.matrix("weight", "update_ratio")
    if found is None:
        return None
    wide = [i for i, tensor in enumerate(found.tensors) if len(tensor.shape) > 1]
    wide = wide or list(range(len(found.tensors)))
    applied = ~found.skipped_S
    values_ST = found.values_ST[applied][:, wide]
    values_ST = np.where(np.isfinite(values_ST), values_ST, np.nan)
    rows = ~np.isnan(values_ST).all(axis=1)
    if not rows.any():
        return None
    return Ratios(
        tensors=tuple(found.tensors[i] for i in wide),
        steps_S=found.steps_S[applied][rows],
        values_ST=values_ST[rows],
    )


def norms_at(window: Window, ratios: Ratios) -> Floats:
    """Return the norms of the weights at the samples of `ratios`; NaN = not captured."""
    norm_ST = np.full(ratios.values_ST.shape, np.nan)
    norms = window.matrix("weight", "l2")
    if norms is None:
        return norm_ST
    column_of = {tensor.name: column for column, tensor in enumerate(norms.tensors)}
    row_of = {step: row for row, step in enumerate(norms.steps_S.tolist())}
    for row, step in enumerate(ratios.steps_S.tolist()):
        for column, tensor in enumerate(ratios.tensors):
            if step in row_of and tensor.name in column_of:
                norm_ST[row, column] = norms.values_ST[row_of[step], column_of[tensor.name]]
    return norm_ST


def moved_before(norm_ST: Floats) -> Bools:
    """Return whether steps since the previous sample have changed each weight, shape (S, T).

    Sampled steps may then be exceptions, such as the first step of every warm-up.
    """
    moved_ST = np.zeros(norm_ST.shape, dtype=bool)
    before_ST, after_ST = norm_ST[:-1], norm_ST[1:]
    moved_ST[1:] = np.abs(after_ST - before_ST) > MOVED * np.abs(before_ST)  # False for NaN
    return moved_ST


def optimizer_facts(window: Window) -> dict[str, OptimizerFacts]:
    """Return the latest facts about every optimizer, by name."""
    return {facts.optimizer: facts for facts in window.seen(OptimizerFacts)}


def optimizer_location(window: Window, optimizer: str) -> str | None:
    """Return the line that created an optimizer, or else the line that steps it.

    An optimizer that was created before `mothtrap.watch` has no known line of its creation. The
    line of its loss is the last resort: under `watch` it is only the call to `Watch.step`.
    """
    known = optimizer_facts(window).get(optimizer)
    return known.location if known and known.location else step_location(window, optimizer)


def step_location(window: Window, optimizer: str) -> str | None:
    """Return the line that calls `step` of an optimizer, else the line of its loss."""
    known = optimizer_facts(window).get(optimizer)
    return known.stepped_at if known and known.stepped_at else loss_location(window, optimizer)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sizes:
    """Norms of the weights with at least two axes, at sampled steps; NaN = not captured."""

    tensors: tuple[TensorInfo, ...]
    steps_S: Ints
    values_ST: Floats

    def joint(self) -> Floats:
        """Return the norm of all weights together at each step; shape (S,)."""
        total_S: Floats = np.sqrt(np.nansum(np.square(self.values_ST), axis=1))
        return total_S


def weight_sizes(window: Window) -> Sizes | None:
    """Return the norms of weights at the steps that captured all; None if there are none.

    Weights that did not exist at the first step or started at 0 are left out, because there is
    nothing to compare them with. Single numbers are left out, too, because they may pass 0 between
    their random and their learned value.
    """
    found = window.matrix("weight", "l2")
    if found is None or not len(found):
        return None
    first_T = found.values_ST[0]
    kept = [i for i, norm in enumerate(first_T) if np.isfinite(norm) and norm > 0]
    kept = [i for i in kept if math.prod(found.tensors[i].shape) > 1]
    kept = [i for i in kept if len(found.tensors[i].shape) > 1] or kept
    values_ST = found.values_ST[:, kept]
    rows = ~np.isnan(values_ST).any(axis=1)
    if not kept or not rows.any():
        return None
    return Sizes(
        tensors=tuple(found.tensors[i] for i in kept),
        steps_S=found.steps_S[rows],
        values_ST=values_ST[rows],
    )


def loss_level(window: Window, steps: int = 50) -> float | None:
    """Return the current loss as a share of the initial loss.

    If there are several losses, the loss with the most steps is used. None if the share is
    meaningless: with fewer than `steps` finite losses, negative losses, or an initial loss of 0.
    """
    every = [series for series in window.scalars("loss") if len(series)]
    if not every:
        return None
    series = max(every, key=lambda s: s.total)
    values_S = series.values_S[np.isfinite(series.values_S)]
    if len(values_S) < steps or values_S.min() < 0:
        return None
    began = float(np.median(values_S[:10])) if series.total <= len(series) else series.first
    return float(np.median(values_S[-steps:])) / began if began > 0 else None


def training_at(window: Window, ratios: Ratios) -> Bools:
    """Return whether each weight should have changed at each sample; shape (S, T).

    True if the gradient was above `CONVERGED` times its largest value and the learning rate
    above a thousandth of its peak. If the learning rate is unknown, only the gradient counts.
    """
    trains_ST = np.zeros(ratios.values_ST.shape, np.bool_)
    gradients = window.matrix("gradient", "l2")
    if gradients is None:
        return trains_ST
    rates = [series for series in window.scalars("lr") if len(series)]
    peak = max((float(series.values_S.max()) for series in rates), default=0.0)
    on = {
        step for series in rates for step in series.steps_S[series.values_S > 1e-3 * peak].tolist()
    }
    finite_ST = np.where(np.isfinite(gradients.values_ST), gradients.values_ST, 0.0)
    least_T = CONVERGED * finite_ST.max(axis=0, initial=0.0)
    column_of = {tensor.name: column for column, tensor in enumerate(gradients.tensors)}
    row_of = {step: row for row, step in enumerate(gradients.steps_S.tolist())}
    for row, step in enumerate(ratios.steps_S.tolist()):
        if step not in row_of or (rates and step not in on):
            continue
        norm_T = gradients.values_ST[row_of[step]]
        for column, tensor in enumerate(ratios.tensors):
            own = column_of.get(tensor.name)
            trains_ST[row, column] = own is not None and norm_T[own] > least_T[own]
    return trains_ST
