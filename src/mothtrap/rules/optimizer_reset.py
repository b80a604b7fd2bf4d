"""OPT610: training creates a new optimizer again and again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window

LOSSES = 5
"""Number of losses per median."""


@rule(
    "OPT610",
    title="optimizer recreated",
    needs=[Need(facts=(OptimizerFacts,)), Need(scalars=("loss",), optional=True)],
    explains=("gradient_spike", "loss_oscillating", "loss_spike", "update_ratio"),
)
def optimizer_reset(
    window: Window,
    *,
    set_back: float = threshold(0.8, unit="of the first losses", source="chosen by hand"),
    times: int = threshold(
        3, unit="replacements at one line", source="chosen by hand: two or three stages are usual"
    ),
) -> Found | None:
    """Training creates a new optimizer again and again.

    What it detects:
        A line that creates a new optimizer, with momentum or squared averages, for parameters that
        an earlier optimizer from the same line trained.

    Why it matters:
        Momentum and averages start at 0 each time. The first steps of Adam are as long as the
        learning rate allows in every direction, even if the gradient is small. The loss jumps with
        each new optimizer, and learning rate schedules start over.

    Fires:
        Warning when one line created at least `times` optimizers that took over the same
        parameters, and the loss was then below `set_back` of the first.

    Stays quiet:
        Optimizers without state (plain SGD). Optimizers of new models (folds, searches, ensembles)
        or of a model that was reset, so that its loss is back at its first value. Stages that train
        other parameters. Lines that do this fewer times.

    What to do:
        - PyTorch: Create the optimizer once, before the loop over epochs.
        - Keras: Call `compile` once, before the first `fit`: `fit` continues with the existing
          optimizer, and `compile` creates a new one. To change only the learning rate, assign
          `model.optimizer.learning_rate`.
        - JAX: Call `optimizer.init(params)` once, before the loop. Pass the state that each step
          returns to the next step.
        - If you want restarts (warm restarts), change the learning rate and keep the optimizer.

    Example:
        for epoch in range(10):
            optimizer = torch.optim.Adam(model.parameters())     # belongs above the loop
            train(model, optimizer)

    References:
        Kingma, Ba 2015, Adam, section 3, on the bias of the first steps,
        https://arxiv.org/abs/1412.6980
    """
    seen = list(window.seen(OptimizerFacts))
    if not seen:
        raise NotEnoughData("no optimizer was recorded")
    keeping = [one for one in seen if one.second_moments or one.momentum]
    if not keeping:
        raise NotApplicable("no optimizer keeps momentum or averages")
    by_line: dict[tuple[object, ...], list[OptimizerFacts]] = defaultdict(list)
    for one in _taking_over(window, keeping, set_back):
        by_line[one.location, one.kind, one.elements].append(one)
    for made in by_line.values():
        if len(made) >= times:
            lived = float(np.median(np.diff([0, *(one.step for one in made)])))
            return Found.of(
                made,
                f"{made[0].kind} was created {len(made)} times, every {lived:.3g} steps, and lost "
                "its averages of earlier gradients each time",
                count=len(made),
                evidence={
                    "times": len(made),
                    "limit": times,
                    "steps_between": lived,
                    "optimizer": made[-1].optimizer,
                },
            )
    return None


def _taking_over(
    window: Window, seen: Sequence[OptimizerFacts], set_back: float
) -> Iterator[OptimizerFacts]:
    """Yield the optimizers that continue with weights that were not reset."""
    taken = [one for one in seen if one.takes_over and one.location]
    series = [series for series in window.scalars("loss") if len(series)]
    if not taken or not series:
        yield from taken
        return
    steps_S = np.concatenate([one.steps_S for one in series])
    order = np.argsort(steps_S, kind="stable")
    steps_S, loss_S = steps_S[order], np.concatenate([one.values_S for one in series])[order]
    limit = set_back * float(np.median(loss_S[:LOSSES]))
    for one in taken:
        begin, end = np.searchsorted(steps_S, (one.step, one.step + LOSSES))
        if begin == end or np.median(loss_S[begin:end]) < limit:
            yield one
