"""Modes of batch norms: statistics that training leaves unchanged, or that evaluation changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import jax
import numpy as np

from mothtrap.adapters.jax.functions import Layout, name_of
from mothtrap.adapters.jax.input_scales import host
from mothtrap.core.adapters import Job
from mothtrap.core.facts.evaluations import TrainingMode

OF_NORMS: Final = (TrainingMode,)
MOST_NAMES: Final = 8
MODEL: Final = "the model"
NEAR_MEAN, NEAR_VARIANCE = 0.1, 0.1
"""Maximum distance of running averages from their initial values, 0 and 1, at which they count as
initial: a first call with made-up data may have updated them. Chosen by hand: in a trained model,
the averages of some channel are further away."""
Places = tuple[int, int]
"""Positions of the running mean and variance of a batch norm among the arguments."""


def report_training(job: Job, layout: Layout, inputs: Any, read: Collection[int]) -> None:
    """Report the mode of the batch norms of a step.

    A batch norm trains in evaluation mode if the step reads its statistics, returns them
    unchanged, and they are still near their initial values.

    Args:
        job: receives the fact.
        layout: layout of the step.
        inputs: arguments of a later call.
        read: positions of the arguments that the loss depends on.
    """
    paths = jax.tree_util.tree_flatten_with_path(inputs)[0]
    leaves = [leaf for _, leaf in paths]
    norms = _statistics([name_of(path) for path, _ in paths], leaves, layout.weights)
    if not norms:
        return
    kept = {*layout.forwarded.values()} & {*read}
    sleeping = [
        name for name, places in norms.items() if {*places} <= kept and _are_initial(leaves, places)
    ]
    job.fact(
        TrainingMode(
            step=job.now.step,
            module=MODEL,
            module_type=MODEL,
            trains=len(sleeping) < len(norms),
            norms=tuple(norms)[:MOST_NAMES],
            sleeping=tuple(sleeping)[:MOST_NAMES],
            location=layout.location,
        )
    )


def changed_in_evaluation(
    layout: Layout, leaves: Sequence[Any], weights: Mapping[str, int]
) -> list[str]:
    """Return the batch norms whose statistics a function of an nnx model changes.

    Args:
        layout: layout of a function that makes no steps.
        leaves: its arguments.
        weights: identities of the weights, by name.
    """
    places = {id(leaf): place for place, leaf in enumerate(leaves)}
    found = {name: places[number] for name, number in weights.items() if number in places}
    kept = {*layout.forwarded.values()}
    if not found or not {*found.values()} <= kept:
        return []  # the function does not return the model
    norms = _unnamed(leaves, found)
    return [name for name, of in norms.items() if not {*of} & kept][:MOST_NAMES]


def _statistics(
    names: Sequence[str], leaves: Sequence[Any], weights: Mapping[str, int]
) -> dict[str, Places]:
    """Return the batch norms; flax.linen names their statistics `mean` and `var`."""
    parents = {_last(name.rpartition(".")[0]) for name in weights}
    by_name = {name: place for place, name in enumerate(names)}
    taken, found = {*weights.values()}, dict[str, Places]()
    for name, mean in by_name.items():
        parent, _, word = name.rpartition(".")
        variance = by_name.get(f"{parent}.var")
        if word != "mean" or variance is None or _last(parent) not in parents:
            continue
        if not taken & {mean, variance} and _alike(leaves, mean, variance):
            found[parent.partition("batch_stats.")[2] or _last(parent)] = mean, variance
    return found or _unnamed(leaves, weights)


def _unnamed(leaves: Sequence[Any], weights: Mapping[str, int]) -> dict[str, Places]:
    """Return the batch norms of an nnx model, whose order is bias, mean, scale, variance."""
    taken, found = {*weights.values()}, dict[str, Places]()
    for name, bias in weights.items():
        norm, _, word = name.rpartition(".")
        mean, scale, variance = bias + 1, bias + 2, bias + 3
        if word != "bias" or weights.get(f"{norm}.scale") != scale or variance >= len(leaves):
            continue
        if not taken & {mean, variance} and _alike(leaves, bias, mean, variance):
            found[norm] = mean, variance
    return found


def _alike(leaves: Sequence[Any], *places: int) -> bool:
    shapes = {np.shape(leaves[place]) for place in places}
    return len(shapes) == 1 and len(shapes.pop()) == 1


def _are_initial(leaves: Sequence[Any], places: Places) -> bool:
    """Return whether running averages have their initial values, or nearly."""
    mean, variance = (host(leaves[place]) for place in places)
    if mean is None or variance is None:
        return False
    near = (np.abs(mean) <= NEAR_MEAN).all() and (np.abs(variance - 1.0) <= NEAR_VARIANCE).all()
    return bool(near)


def _last(name: str) -> str:
    return name.rpartition(".")[2]
