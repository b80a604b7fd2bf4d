"""Weights and optimizers made by hand, for the tests of rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tests.rules.windows import OPTIMIZER

from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.tensors import TensorInfo
from mothtrap.core.window import Matrix

MADE = "train.py:5"
SAMPLED = (0, 1, 2, 4, 8, 16, 32, *range(64, 4096, 64))
"""The steps at which weights are inspected by default."""


def sampled(steps: int) -> list[int]:
    """The steps below `steps` at which weights are inspected by default."""
    return [step for step in SAMPLED if step < steps]


def tensors(
    statistic: str,
    by_name: Mapping[str, Sequence[float] | np.ndarray],
    *,
    kind: str = "weight",
    steps: Sequence[int] | None = None,
    shape: tuple[int, ...] = (8, 8),
    skipped: Sequence[int] = (),
) -> Matrix:
    """One statistic of tensors, by default at the first of the sampled steps; NaN = no row."""
    values_ST = np.array([list(values) for values in by_name.values()], dtype=np.float64).T
    steps_S = np.asarray(SAMPLED[: len(values_ST)] if steps is None else steps)
    return Matrix(
        kind=kind,
        statistic=statistic,
        tensors=tuple(
            TensorInfo(
                kind=kind,
                name=name,
                module=name.rpartition(".")[0],
                shape=shape,
                location=f"model.py:{place}",
            )
            for place, name in enumerate(by_name, start=1)
        ),
        steps_S=steps_S,
        values_ST=values_ST,
        present_ST=~np.isnan(values_ST),
        skipped_S=np.isin(steps_S, skipped),
    )


def facts(
    *,
    kind: str = "Adam",
    rate: float = 1e-3,
    decay: float = 0.0,
    decoupled: bool = False,
    momentum: float = 0.0,
    epsilon: float | None = 1e-8,
    state: str = "float32",
    weights: tuple[str, ...] = ("float32",),
    fused: bool = False,
    compensated: bool = False,
    step: int = 0,
) -> OptimizerFacts:
    """Return the facts of the windows' optimizer; SGD has no second moments."""
    adaptive = kind not in ("SGD", "LBFGS")
    return OptimizerFacts(
        step=step,
        optimizer=OPTIMIZER,
        kind=kind,
        learning_rate=rate,
        weight_decay=decay,
        decoupled=decoupled,
        momentum=momentum,
        epsilon=epsilon if adaptive else None,
        second_moments=adaptive,
        state_dtype=state if adaptive else "",
        weight_dtypes=weights,
        fused=fused,
        compensated=compensated,
        elements=1000,
        location=MADE,
    )
