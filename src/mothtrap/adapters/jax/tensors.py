"""Weights, gradients, and activations by name, passed to the job."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from mothtrap.adapters.jax.shadow import Activation
from mothtrap.core.adapters import Job
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics.products import dot
from mothtrap.tracing.describe.layer_numbers import inactive_units

BIASES = ("bias", "b")
RATIO = "update_ratio"
SAFE = (1e-25, 1e35)
"""Range of sums of squares in which float32 neither loses small parts nor overflows."""


class Tensors:
    """Passes arrays to the job, and defines them on first use.

    Args:
        job: receives the arrays.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._ids: dict[tuple[str, str], int] = {}

    def take(self, kind: str, names: Sequence[str], arrays: Sequence[Any]) -> None:
        """Capture arrays of a kind; biases are distinguished from weights by name."""
        groups: dict[str, tuple[list[int], list[Any]]] = {}
        for name, array in zip(names, arrays, strict=True):
            if not _can_be_read(array):
                continue
            own = "bias" if kind == "weight" and _last(name) in BIASES else kind
            ids, values = groups.setdefault(own, ([], []))
            ids.append(self._id(own, name, array))
            values.append(array)
        for own, (ids, values) in groups.items():
            if self._job.wants(own):
                self._job.take(own, ids, values)

    def take_changes(
        self, names: Sequence[str], before: Sequence[Any], after: Sequence[Any]
    ) -> None:
        """Capture the size of the change of weights, relative to the previous weights."""
        for name, old, new in zip(names, before, after, strict=True):
            if not (_can_be_read(old) and _can_be_read(new)) or old.shape != new.shape:
                continue
            own = "bias" if _last(name) in BIASES else "weight"
            tensor_id = self._id(own, name, new)
            if RATIO not in self._job.wants(own, ids=[tensor_id]):
                continue
            old_N, new_N = (_wide(np.asarray(one)).reshape(-1) for one in (old, new))
            size = _norm(old_N)
            if size:
                self._job.add_row(tensor_id, {RATIO: _norm(new_N - old_N) / size})

    def take_activations(self, infos: Sequence[Activation], arrays: Sequence[Any]) -> None:
        """Capture the activations of one training forward pass."""
        if not infos or not self._job.wants("activation"):
            return
        ids = []
        for info, array in zip(infos, arrays, strict=True):
            ids.append(self._id("activation", info.name, array, info))
        with self._job.forward():
            self._job.take("activation", ids, arrays)
        for tensor_id, array, info in zip(ids, arrays, infos, strict=True):
            wanted = self._job.wants("activation", ids=[tensor_id])
            if info.role == "rectifier" and "inactive" in wanted:
                asleep_F = inactive_units(np.asarray(array))
                if asleep_F is not None:
                    self._job.add_row(tensor_id, {"inactive": float(asleep_F.mean())})

    def _id(self, kind: str, name: str, array: Any, info: Activation | None = None) -> int:
        known = self._ids.get((kind, name))
        if known is None:
            known = self._ids[kind, name] = self._job.define(
                TensorInfo(
                    kind=kind,
                    name=name,
                    module=name[: -len(_last(name)) - 1] if info is None else name,
                    module_type=info.operation if info is not None else "",
                    role=info.role if info is not None else "",
                    shape=tuple(array.shape),
                    dtype=str(array.dtype),
                    location=info.location if info is not None else None,
                )
            )
        return known


def _wide(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values that NumPy can subtract without loss; half precision becomes float32."""
    return values if values.dtype.itemsize >= 4 else values.astype(np.float32)


def _norm(values_N: npt.NDArray[Any]) -> float:
    """Return the norm, computed in the type of the values if its range is sufficient.

    Products in float32 are some ten times faster than a copy in float64.
    """
    squares = dot(values_N, values_N)
    if not SAFE[0] < squares < SAFE[1]:
        squares = float(np.square(values_N, dtype=np.float64).sum())
    return math.sqrt(squares) if squares >= 0 else math.nan


def _last(name: str) -> str:
    """Return the last part of a name of JAX (`Dense_0.bias`) or Keras (`dense/bias`)."""
    return re.split(r"[./]", name)[-1]


def _can_be_read(array: Any) -> bool:
    """Return whether an array has real numbers, belongs to this process, and was not donated."""
    if not isinstance(array, jax.Array) or array.is_deleted():
        return False
    return bool(array.is_fully_addressable) and jax.numpy.issubdtype(array.dtype, np.floating)
