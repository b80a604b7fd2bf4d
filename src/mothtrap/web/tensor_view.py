"""Answers about one tensor: facts, statistics and histogram at a step, values as a matrix."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from mothtrap.core.errors import ConfigError, StepUnavailableError
from mothtrap.core.steps import Mode
from mothtrap.reader.tensors.captured_tensors import Tensor
from mothtrap.web import confusion
from mothtrap.web.distributions import bars, counted, moments
from mothtrap.web.opened import OpenRun
from mothtrap.web.pictures import picture, pictures_of
from mothtrap.web.png import pooled

MOST_SIDE = 256
MOST_CHANNELS = 256
FITS = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
Array = npt.NDArray[Any]


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """Share of the values in a band of `distributions.Band`."""

    label: str
    sort: str
    share: float


class TypeFit(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of the values that a type cannot represent well, see `exponent_counts.Fit`."""

    dtype: str
    vanishing: float
    subnormal: float
    overflowing: float


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a tensor, and its numbers at the nearest captured step.

    `views` are the possible views of the values at `raw_step`, the likeliest first; values are
    stored for `raw_steps` steps. `problem` is the reason if there is no histogram.
    """

    name: str
    kind: str
    identity: str
    module: str
    module_type: str
    shape: tuple[int, ...]
    dtype: str
    location: str
    scope: str
    workers: tuple[int, ...]
    step: int | None = None
    statistics: dict[str, float] = {}
    histogram_step: int | None = None
    histogram: list[Bar] = []
    fits: list[TypeFit] = []
    raw_step: int | None = None
    raw_shape: tuple[int, ...] = ()
    raw_steps: int = 0
    views: list[str] = []
    problem: str = ""


class Values(msgspec.Struct, frozen=True, kw_only=True):
    """Values at a step as a matrix; each cell represents `block` rows and columns.

    None = NaN; infinities are strings. `shape` is the shape of the tensor, `index` selects along
    its leading axes. `mean` and `high` are mean and largest magnitudes of the channels.
    """

    step: int
    shape: tuple[int, ...]
    index: tuple[int, ...]
    rows: int
    columns: int
    block: tuple[int, int]
    cells: list[list[float | str | None]]
    low: float
    high: float
    channels: list[tuple[float, float]]
    channel_axis: int


def facts(opened: OpenRun, tensor: Tensor, at: int, mode: Mode | None, worker: int | None) -> Facts:
    """Return the facts of a tensor, and its statistics at or before a step."""
    info = tensor.info
    found: dict[str, Any] = {}
    step = _nearest(tensor.steps(mode, worker).tolist(), at)
    if step is not None:
        found = {"step": step, "statistics": tensor.statistics(step, mode, worker)}
    found |= _histogram(opened, tensor, at, mode, worker)
    raw_steps = sorted({key.step for key in tensor.raw_keys(mode, worker)})
    raw_step = _nearest(raw_steps, at)
    if raw_step is not None:
        values = tensor.at(raw_step, mode, worker, copy=-1)
        views: list[str] = list(pictures_of(info.kind, values))
        if confusion.partner(opened, tensor, raw_step, mode, worker) is not None:
            views.append("confusion")
        views += ["matrix", "channels"]
        found |= {"raw_step": raw_step, "raw_shape": values.shape, "views": views}
    return Facts(
        name=info.name,
        kind=info.kind,
        identity=info.identity,
        module=info.module,
        module_type=info.module_type,
        shape=info.shape,
        dtype=info.dtype,
        location=info.location or "",
        scope=info.scope,
        workers=tensor.workers,
        raw_steps=len(raw_steps),
        **found,
    )


def values_of(
    tensor: Tensor,
    at: int,
    mode: Mode | None,
    worker: int | None,
    *,
    index: tuple[int, ...] = (),
    pool: str = "max",
) -> Values:
    """Return captured values of a step as a matrix.

    Args:
        tensor: the tensor.
        at: a step with stored values, or a later step.
        mode: mode of the step.
        worker: rank.
        index: index along the leading axes; 0 by default.
        pool: `max` or `mean`.

    Raises:
        StepUnavailableError: no values were stored.
        ConfigError: the pooling is unknown.
    """
    if pool not in ("max", "mean"):
        raise ConfigError(f"values are pooled by max or mean, not {pool[:40]!r}")
    step, values = kept(tensor, at, mode, worker)
    number = values if values.dtype.kind != "c" else np.abs(values)
    number = number.astype(np.float64)
    flat = number.reshape((1,) * (2 - number.ndim) + number.shape)
    chosen = tuple(
        min(max(index[axis] if axis < len(index) else 0, 0), flat.shape[axis] - 1)
        for axis in range(flat.ndim - 2)
    )
    matrix = flat[chosen]
    cells = pooled(matrix, MOST_SIDE, pool)
    finite = matrix[np.isfinite(matrix)]
    axis = 1 if tensor.kind in ("activation", "input", "output") and number.ndim > 1 else 0
    return Values(
        step=step,
        shape=values.shape,
        index=chosen,
        rows=matrix.shape[0],
        columns=matrix.shape[1],
        block=(-(-matrix.shape[0] // MOST_SIDE) or 1, -(-matrix.shape[1] // MOST_SIDE) or 1),
        cells=[[_text(value) for value in row] for row in cells.tolist()],
        low=float(finite.min()) if len(finite) else 0.0,
        high=float(finite.max()) if len(finite) else 0.0,
        channels=_channels(number, axis),
        channel_axis=axis,
    )


def picture_of(
    name: str, tensor: Tensor, at: int, mode: Mode | None, worker: int | None, sample: int
) -> bytes:
    """Return captured values as a PNG file, see `pictures.picture`."""
    return picture(name, kept(tensor, at, mode, worker)[1], sample)


def kept(tensor: Tensor, at: int, mode: Mode | None, worker: int | None) -> tuple[int, Array]:
    """Return the latest values captured at or before a step, or else the first values.

    Raises:
        StepUnavailableError: no values were stored.
    """
    step = _nearest(sorted({key.step for key in tensor.raw_keys(mode, worker)}), at)
    if step is None:
        raise StepUnavailableError(f"no values of {tensor.identity} were captured")
    return step, tensor.at(step, mode, worker, copy=-1)


def _histogram(
    opened: OpenRun, tensor: Tensor, at: int, mode: Mode | None, worker: int | None
) -> dict[str, Any]:
    try:
        _, keys = moments(opened, tensor, mode, worker)
        step = _nearest([key.step for key in keys], at) or 0
        counts = counted(opened, tensor, mode, worker, step, step + 1)
        exponents = tensor.exponents(step, mode, worker)
        fits = [
            TypeFit(
                dtype=dtype,
                vanishing=fit.vanishing,
                subnormal=fit.subnormal,
                overflowing=fit.overflowing,
            )
            for dtype in FITS
            for fit in [exponents.fit(dtype)]
        ]
    except StepUnavailableError as err:
        return {"problem": str(err)}
    found = [Bar(label=label, sort=sort, share=share) for label, sort, share in bars(counts)]
    return {"histogram_step": step, "histogram": found, "fits": fits}


def _nearest(steps: list[int], at: int) -> int | None:
    """The latest step up to a given step, else the first step."""
    return max((step for step in steps if step <= at), default=steps[0] if steps else None)


def _channels(number: Array, axis: int) -> list[tuple[float, float]]:
    if number.ndim < 1 or not number.size or number.shape[axis] > MOST_CHANNELS:
        return []
    size = np.abs(np.moveaxis(number, axis, 0).reshape(number.shape[axis], -1))
    with np.errstate(invalid="ignore", over="ignore"):
        return list(zip(size.mean(axis=1).tolist(), size.max(axis=1).tolist(), strict=True))


def _text(value: float) -> float | str | None:
    if np.isnan(value):
        return None
    return value if np.isfinite(value) else ("Inf" if value > 0 else "-Inf")
