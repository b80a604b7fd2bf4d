"""Hand-made inspections of layers, for the tests of the rules that evaluate them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mothtrap.core.facts.layers import (
    AttentionLook,
    DataTaken,
    ForwardScales,
    IdenticalUnits,
    InitialWeights,
    LayerScale,
    OutputSpread,
    RouterLoad,
    UnitInputs,
)


def data(
    step: int,
    rows: Sequence[Sequence[float]] | np.ndarray,
    *,
    layer: str = "0",
    layer_type: str = "Linear",
    gain: float = 0.577,
    normalized: bool = False,
    grid: bool = False,
) -> DataTaken:
    """Return the inputs of a layer in an inspection; `rows` has shape (rows, features)."""
    rows = np.asarray(rows, dtype=np.float64)
    rms = np.sqrt(np.square(rows).mean())
    zeros = float((rows == 0).mean())
    with np.errstate(all="ignore"):
        between = np.tril(np.nan_to_num(np.abs(np.corrcoef(rows.T))).reshape((rows.shape[1],) * 2))
    np.fill_diagonal(between, 0)
    return DataTaken(
        step=step,
        layer=layer,
        layer_type=layer_type,
        shape=rows.shape,
        gain=gain,
        rows=len(rows),
        features=rows.shape[1],
        mean=float(rows.mean()),
        std=float(rows.std()),
        smallest=float(rows.min()),
        largest=float(rows.max()),
        zeros=zeros,
        nonzero_rms=float(rms / np.sqrt(1 - zeros)) if zeros < 1 else 0.0,
        normalized=normalized,
        grid=grid,
        feature_means=tuple(rows.mean(axis=0).tolist()),
        feature_stds=tuple(rows.std(axis=0).tolist()),
        feature_ties=tuple((rows == np.median(rows, axis=0)).mean(axis=0).tolist()),
        partners=tuple(between.argmax(axis=1).tolist()),
        correlations=tuple(between.max(axis=1).tolist()),
        location="model.py:1",
    )


def batches(rows: np.ndarray, *, size: int = 64, **about) -> list[DataTaken]:
    """An inspection of each batch of some data."""
    return [
        data(step, rows[start : start + size], **about)
        for step, start in enumerate(range(0, len(rows) - size + 1, size))
    ]


def initial(layer: str, *, units: int = 32, fan_in: int = 32, rms: float = 0.1, **more):
    """The weights of a linear layer before the first step."""
    about = {"std": rms, "gradient_range": 0.1, "layer_type": "Linear", "step": 0, **more}
    return InitialWeights(
        name=f"{layer}.weight",
        layer=layer,
        units=units,
        fan_in=fan_in,
        rms=rms,
        location=f"model.py:{layer}",
        **about,
    )


def identical(step: int, layer: str, looks: int, **more) -> IdenticalUnits:
    """An inspection of a layer whose units are still equal."""
    about = {"zero": True, "gradient_zero": True, "moved": step > 0, **more}
    return IdenticalUnits(
        step=step,
        name=f"{layer}.weight",
        layer=layer,
        layer_type="Linear",
        units=32,
        looks=looks,
        location=f"model.py:{layer}",
        **about,
    )


_POSITIVE = (1.0, 2.0, 3.0, 4.6, 6.0, 8.0, 9.5, 12.0, 17.0, 20.0, 23.0)
EDGES = (*(-edge for edge in reversed(_POSITIVE)), 0.0, *_POSITIVE)


def units(
    step: int,
    inputs: np.ndarray,
    *,
    module: str = "1",
    function: str = "tanh",
    last: bool = False,
) -> UnitInputs:
    """Return the inputs of an activation's units; `inputs` has shape (examples, units)."""
    counts = np.array(
        [
            np.histogram(unit, bins=[-np.inf, *EDGES, np.inf])[0]
            for unit in np.asarray(inputs, dtype=np.float64).T
        ]
    )
    return UnitInputs(
        step=step,
        module=module,
        module_type=function.capitalize(),
        function=function,
        units=len(counts),
        edges=EDGES,
        counts=tuple(counts.reshape(-1).tolist()),
        last=last,
        location=f"model.py:{module}",
    )


def scale(layer: str, output_rms: float, **more) -> LayerScale:
    """The sizes of a linear layer; by default a hidden layer with standard weights."""
    about = {"layer_type": "Linear", "input_rms": 1.0, "gain": 1.0, "fan_in": 64, **more}
    return LayerScale(
        layer=layer,
        output_rms=output_rms,
        variance=output_rms**2,
        location=f"model.py:{layer}",
        **about,
    )


def scales(step: int, layers: Sequence[LayerScale], *, normalizes: bool = False) -> ForwardScales:
    """An inspection of the layers of a model."""
    return ForwardScales(step=step, root="Model", layers=tuple(layers), normalizes=normalizes)


def spread(step: int, between: float, **more) -> OutputSpread:
    """Return the spread of a model's output between rows."""
    about = {"rms": 1.0, "place": "", "shape": (32, 16), "inputs_differ": True, **more}
    return OutputSpread(
        step=step,
        root="Model",
        spread=between,
        largest=3 * between,
        location="train.py:9",
        **about,
    )


def attention(step: int, entropies: Sequence[float] = (0.9, 0.9), **more) -> AttentionLook:
    """An inspection of attention over 64 positions."""
    about = {"number": 0, "of": 1, "keys": 64, "location": "train.py:9", **more}
    return AttentionLook(step=step, heads=len(entropies), entropies=tuple(entropies), **about)


def routed(step: int, shares: Sequence[float], **more) -> RouterLoad:
    """Whom the rows of a batch have chosen."""
    about = {"router": "moe.gate", "experts": "moe.experts", "rows": 64, **more}
    return RouterLoad(step=step, shares=tuple(shares), location="model.py:1", **about)
