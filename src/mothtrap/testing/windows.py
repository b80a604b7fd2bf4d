"""Windows with given data, for tests of rules.

Shape suffixes: S = steps, T = tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mothtrap.core.fact import Fact
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.core.window import Floats, Matrix, Series, Window

Numbers = Sequence[float] | Floats


def series(
    name: str,
    values: Numbers,
    *,
    of: str = "",
    steps: Sequence[int] | None = None,
    mode: Mode = Mode.TRAIN,
    location: str | None = None,
    optimizers: tuple[str, ...] = (),
) -> Series:
    """Return a scalar over steps.

    Args:
        name: name of the scalar, e.g. `lr`.
        values: shape (S,); NaN and infinities are allowed.
        of: owner of the scalar, e.g. the optimizer.
        steps: steps of the values, shape (S,); by default 0, 1, 2 ...
        mode: mode of the steps.
        location: `file:line` that computes a loss.
        optimizers: optimizers that step on a loss.
    """
    values_S = np.asarray(values, dtype=np.float64)
    steps_S = np.arange(len(values_S)) if steps is None else np.asarray(steps, dtype=np.int64)
    return Series(
        name=name,
        of=of,
        mode=mode,
        steps_S=steps_S,
        values_S=values_S,
        location=location,
        optimizers=optimizers,
        total=len(values_S),
        first=float(values_S[0]) if len(values_S) else float("nan"),
    )


def loss(values: Numbers, *, of: str = "train.py:10", steps: Sequence[int] | None = None) -> Series:
    """Return a training loss over steps.

    Args:
        values: shape (S,); NaN and infinities are allowed.
        of: `file:line` that computes the loss.
        steps: steps of the values, shape (S,); by default 0, 1, 2 ...
    """
    return series("loss", values, of=of, steps=steps, location=of, optimizers=("Adam",))


def statistic(
    kind: str,
    name: str,
    by_tensor: Mapping[str, Numbers],
    *,
    steps: Sequence[int] | None = None,
    mode: Mode = Mode.TRAIN,
    skipped: Sequence[int] = (),
) -> Matrix:
    """Return one statistic of tensors of a kind over steps.

    Args:
        kind: kind of the tensors, e.g. `gradient`.
        name: id of the statistic, e.g. `l2`.
        by_tensor: values by name of the tensor, shape (S,); None if nothing was captured.
        steps: steps of the values, shape (S,); by default 0, 1, 2 ...
        mode: mode of the steps.
        skipped: steps that no optimizer applied.
    """
    columns = [
        np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        for values in by_tensor.values()
    ]
    present = [np.array([value is not None for value in v]) for v in by_tensor.values()]
    values_ST, present_ST = np.array(columns).T, np.array(present).T
    steps_S = np.arange(len(values_ST)) if steps is None else np.asarray(steps, dtype=np.int64)
    return Matrix(
        kind=kind,
        statistic=name,
        tensors=tuple(
            TensorInfo(kind=kind, name=tensor, module=tensor.rpartition(".")[0])
            for tensor in by_tensor
        ),
        steps_S=steps_S,
        values_ST=values_ST,
        present_ST=present_ST,
        skipped_S=np.isin(steps_S, skipped),
        mode=mode,
    )


def window(
    *parts: Series | Matrix | Fact,
    steps: int | None = None,
    skipped: Sequence[int] = (),
    now_s: float = 0.0,
    worker: int = 0,
    peers: tuple[Window, ...] = (),
    reference: Window | None = None,
) -> Window:
    """Return a window with the given data.

    Args:
        parts: scalars and statistics from the functions above, and observations.
        steps: number of train steps; by default up to the last step in `parts`.
        skipped: steps that no optimizer applied.
        now_s: Unix time in seconds.
        worker: rank of the worker.
        peers: windows of the other workers.
        reference: window of the run to compare with.
    """
    scalars = tuple(part for part in parts if isinstance(part, Series))
    matrices = tuple(part for part in parts if isinstance(part, Matrix))
    observations = tuple(part for part in parts if not isinstance(part, Series | Matrix))
    last = [int(part.steps_S[-1]) for part in scalars if len(part)]
    last += [int(part.steps_S[-1]) for part in matrices if len(part)]
    last += [observation.step for observation in observations]
    count = steps if steps is not None else max(last, default=-1) + 1
    return Window(
        now_s=now_s,
        total_steps=count,
        steps_S=np.arange(count),
        skipped_S=np.isin(np.arange(count), skipped),
        series=scalars,
        matrices=matrices,
        observations=observations,
        worker=worker,
        peers=peers,
        reference=reference,
    )
