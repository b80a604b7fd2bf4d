"""Windows made by hand, for the tests of rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mothtrap.core.fact import Fact
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import Role, TensorInfo
from mothtrap.core.window import Matrix, Series, Window

OPTIMIZER = "Adam"
LOSS = "train.py:10"


def series(
    name: str,
    values: Sequence[float] | np.ndarray,
    *,
    of: str = OPTIMIZER,
    steps: Sequence[int] | np.ndarray | None = None,
    mode: Mode = Mode.TRAIN,
    location: str | None = None,
    optimizers: tuple[str, ...] = (),
    total: int | None = None,
    early: Sequence[float] = (),
) -> Series:
    """A scalar; by default one value for each step from 0."""
    values_S = np.asarray(values, dtype=np.float64)
    return Series(
        name=name,
        of=of,
        mode=mode,
        steps_S=np.arange(len(values_S)) if steps is None else np.asarray(steps),
        values_S=values_S,
        location=location,
        optimizers=optimizers,
        total=len(values_S) if total is None else total,
        early_S=np.asarray(early, dtype=np.float64),
    )


def loss(
    values: Sequence[float] | np.ndarray,
    *,
    of: str = LOSS,
    optimizers: tuple[str, ...] = (OPTIMIZER,),
    steps: Sequence[int] | np.ndarray | None = None,
    mode: Mode = Mode.TRAIN,
    total: int | None = None,
    early: Sequence[float] = (),
) -> Series:
    """A loss series, located where its label says."""
    return series(
        "loss",
        values,
        of=of,
        steps=steps,
        mode=mode,
        location=of,
        optimizers=optimizers,
        total=total,
        early=early,
    )


def loss_call_of(rows: int) -> LossCall:
    """A call of `cross_entropy` on a batch of so many rows."""
    return LossCall(
        step=0,
        operation="cross_entropy",
        series=LOSS,
        chain=(),
        location=LOSS,
        prediction_shape=(rows, 3),
    )


def gradients(
    statistic: str,
    by_name: Mapping[str, Sequence[float]],
    *,
    skipped: Sequence[int] = (),
    absent: Sequence[tuple[int, str]] = (),
) -> Matrix:
    """One statistic of gradients at steps from 0; `absent` are (step, name) without a row."""
    names = list(by_name)
    values_ST = np.array([by_name[name] for name in names], dtype=np.float64).T
    present_ST = np.ones(values_ST.shape, dtype=bool)
    for step, name in absent:
        present_ST[step, names.index(name)] = False
    values_ST = np.where(present_ST, values_ST, np.nan)
    return Matrix(
        kind="gradient",
        statistic=statistic,
        tensors=tuple(
            TensorInfo(
                kind="gradient",
                name=name,
                module=name.rpartition(".")[0],
                location=f"model.py:{place}",
            )
            for place, name in enumerate(names, start=1)
        ),
        steps_S=np.arange(len(values_ST)),
        values_ST=values_ST,
        present_ST=present_ST,
        skipped_S=np.isin(np.arange(len(values_ST)), skipped),
    )


def inactive(
    by_module: Mapping[str, Sequence[float]],
    *,
    steps: Sequence[int],
    shape: tuple[int, ...] = (32, 64),
    role: Role = "rectifier",
) -> Matrix:
    """Shares of inactive units of rectifiers at sampled steps; NaN = no row."""
    values_ST = np.array(list(by_module.values()), dtype=np.float64).T
    return Matrix(
        kind="activation",
        statistic="inactive",
        tensors=tuple(
            TensorInfo(
                kind="activation",
                name=module,
                module=module,
                module_type="ReLU",
                role=role,
                shape=shape,
                location=f"model.py:{place}",
            )
            for place, module in enumerate(by_module, start=1)
        ),
        steps_S=np.asarray(steps),
        values_ST=values_ST,
        present_ST=~np.isnan(values_ST),
        skipped_S=np.zeros(len(steps), dtype=bool),
    )


def window(
    *parts: Series | Matrix | Fact,
    skipped: Sequence[int] = (),
    steps: int | None = None,
    worker: int = 0,
) -> Window:
    """A window of these parts; by default as many steps as the longest part shows."""
    scalars = tuple(part for part in parts if isinstance(part, Series))
    matrices = tuple(part for part in parts if isinstance(part, Matrix))
    observations = tuple(part for part in parts if not isinstance(part, Series | Matrix))
    last = [int(part.steps_S[-1]) for part in (*scalars, *matrices) if len(part)]
    last += [observation.step for observation in observations]
    count = steps if steps is not None else max(last, default=-1) + 1
    return Window(
        now_s=0.0,
        total_steps=count,
        steps_S=np.arange(count),
        skipped_S=np.isin(np.arange(count), skipped),
        series=scalars,
        matrices=matrices,
        observations=observations,
        worker=worker,
    )


def noise(count: int, *, scale: float = 1.0, seed: int = 0) -> np.ndarray:
    """Normal noise that is the same in every run."""
    return np.random.default_rng(seed).normal(0.0, scale, count)
