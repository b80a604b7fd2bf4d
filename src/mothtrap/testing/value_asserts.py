"""Assertions about values: inputs, layer outputs, repeated calls, scores, and whole runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from mothtrap.checks import tables
from mothtrap.checks.arrays import ArraySet
from mothtrap.checks.subject import Array, DataSet, Subject
from mothtrap.core.findings import Severity
from mothtrap.reader.run import open_run
from mothtrap.session.adapters import load
from mothtrap.session.explicit_check import CHECKED, recorded_step

MEAN_LIMIT, DEVIATION_LIMITS = 0.2, (0.5, 2.0)
"""Mean and standard deviation of a normalized output; chosen by hand, because batch statistics
vary.
"""


def assert_inputs(
    data: Iterable[Any],
    *,
    dtype: str | None = None,
    shape: tuple[int, ...] | None = None,
    between: tuple[float, float] | None = None,
    finite: bool = True,
) -> None:
    """Assert type, shape, and range of the first input of up to 20,000 samples.

    Args:
        data: a PyTorch or Keras loader, a list of batches, or an array of inputs, shape (rows,
            ...).
        dtype: expected type, such as `float32`; None = not asserted.
        shape: expected shape of a sample; None = not asserted.
        between: smallest and largest value allowed; None = not asserted.
        finite: no value may be NaN or infinite.
    """
    rows = tables.read(set_of(data, "train"), Subject())
    if not rows.inputs or not len(rows.inputs[0]):
        raise AssertionError("no sample could be read")
    array = rows.inputs[0]
    if dtype is not None and str(array.dtype) != dtype:
        raise AssertionError(f"the inputs are {array.dtype}, expected {dtype}")
    if shape is not None and array.shape[1:] != shape:
        raise AssertionError(f"samples have the shape {array.shape[1:]}, expected {shape}")
    flat = array.reshape(len(array), -1)
    if finite and flat.dtype.kind == "f" and not np.isfinite(flat).all():
        raise AssertionError(f"inputs are not finite in {_named(rows.indices, ~np.isfinite(flat))}")
    if between is not None:
        low, high = between
        outside = (flat < low) | (flat > high)
        if outside.any():
            raise AssertionError(
                f"inputs go from {flat.min():.4g} to {flat.max():.4g}, expected {low:g} to "
                f"{high:g}, in {_named(rows.indices, outside)}"
            )


def assert_outputs_normalized(
    model: Any,
    loader: Iterable[Any],
    loss: Callable[..., Any] | None = None,
    *,
    layers: str = "*",
    step: Callable[[Any], Any] | None = None,
    optimizer: Any = None,
) -> None:
    """Assert that the outputs of layers have mean 0 and standard deviation 1 for the first batch.

    The model is in training mode. The mean may differ by 0.2, and the deviation by a factor of 2.

    Args:
        model: the model.
        loader: iterable of batches, e.g. a list with one batch.
        loss: called with the output of `model(*batch[:-1])` and `batch[-1]`.
        layers: pattern of paths, such as `*norm*`.
        step: as in `mothtrap.check`.
        optimizer: as in `mothtrap.check`.
    """
    forward = recorded_step(model, loader, loss, step, optimizer).forward
    if forward is None:
        raise AssertionError("the loss does not call exactly one model")
    found = [(name, out) for name, out in forward.parts(training=True) if fnmatchcase(name, layers)]
    if not found:
        raise AssertionError(f"no layer that was called has a path like {layers!r}")
    low, high = DEVIATION_LIMITS
    for name, output in found:
        mean, deviation = float(output.mean()), float(output.std())
        if abs(mean) > MEAN_LIMIT or not low <= deviation <= high:
            raise AssertionError(
                f"the output of {name} has mean {mean:.3g} and standard deviation {deviation:.3g}"
            )


def assert_repeatable(function: Callable[[], Any], runs: int = 2) -> None:
    """Assert that a function returns the same result each time, such as training with a seed.

    Args:
        function: returns a number, an array, a tensor, or nested lists and dictionaries of them.
        runs: number of compared calls.
    """
    first = dict(_values(function(), "result"))
    for number in range(1, runs):
        other = dict(_values(function(), "result"))
        if first.keys() != other.keys():
            raise AssertionError(f"call {number} returns different parts than call 0")
        for name, value in first.items():
            if not np.array_equal(value, other[name], equal_nan=value.dtype.kind == "f"):
                raise AssertionError(f"{name} differs between call 0 and call {number}")


def assert_beats(
    score: float, baselines: Mapping[str, float], *, higher_is_better: bool = True
) -> None:
    """Assert that a score is better than the scores of simple models.

    Args:
        score: score of the model.
        baselines: scores by name, as in `mothtrap.check(...).figures["PRE401"]`; numbers of rows
            are left out.
        higher_is_better: True for an accuracy, False for a loss.
    """
    scores = {name: one for name, one in baselines.items() if not name.startswith("rows of")}
    if not scores:
        raise AssertionError("there is no score to beat")
    for name, one in scores.items():
        if not (score > one if higher_is_better else score < one):
            raise AssertionError(f"the score {score:.4g} does not beat {one:.4g} of {name}")


def assert_trains_like(run: str | Path, *, allowed: Iterable[str] = ()) -> None:
    """Assert that a finished run trains like a healthy run: without an error or a warning.

    Args:
        run: folder of the run.
        allowed: codes of rules that may have findings.
    """
    left_out = set(allowed)
    bad = [
        found
        for found in open_run(run).findings
        if found.severity is not Severity.INFO and found.code not in left_out
    ]
    if bad:
        raise AssertionError("\n".join(f"{found.code}: {found.message}" for found in bad))


def set_of(data: Any, role: Literal["train", "evaluation"]) -> DataSet:
    """Return the dataset of a loader, a list of batches, or an array.

    Raises:
        TypeError: the value has none of these types.
    """
    if isinstance(data, np.ndarray):
        return ArraySet([data], None, role, name=f"the array of {role}", location=None)
    for framework in CHECKED:
        made = load(framework) if framework in sys.modules else None
        build = made.checks.data_set if made else None
        found = build(data, role) if build is not None else None
        if found is not None:
            return cast("DataSet", found)
    raise TypeError(f"expected a loader, a list of batches, or an array: {type(data).__name__}")


def _named(indices: tuple[int, ...], bad: Array) -> str:
    """Return the samples with a bad value, in words."""
    rows = [indices[place] for place in np.flatnonzero(bad.any(1))]
    return f"{len(rows)} samples ({tables.named(rows)})"


def _values(value: Any, name: str) -> Iterable[tuple[str, Array]]:
    """Yield the arrays in a nested value, with their positions."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _values(part, f"{name}[{key!r}]")
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            yield from _values(part, f"{name}[{place}]")
    else:
        plain = value.detach().cpu() if hasattr(value, "detach") else value
        yield name, np.asarray(plain)
