"""Tensors of a step that collections request: inputs, outputs, and labels of models.

A program stores them only if an active collection contains their kind when the program is traced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import keras
import msgspec
import numpy as np
import tensorflow as tf

from mothtrap.adapters.keras import layers
from mothtrap.adapters.tensorflow.probes.probes import Asked, Look
from mothtrap.adapters.tensorflow.probes.slots import MAX_ROWS, Slot
from mothtrap.core.adapters import Job
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo

OF_MODELS: Final = ("input", "output", "label")
NOT_WRITTEN: Final = "the compiled step does not expose them, or it was traced earlier"
MAX_TENSORS: Final = 1024
"""Maximum number of stored tensors of one program; chosen by hand."""


class AskedTensors:
    """Stores tensors of a step until they can be captured.

    Args:
        job: receives the arrays.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._ids: dict[tuple[str, str], int] = {}

    def asks(self, kind: str, mode: Mode = Mode.TRAIN) -> bool:
        """Return whether to store tensors of a kind; in an eager step, only those due now."""
        if tf.executing_eagerly():
            return bool(self._job.wants(kind, mode))
        return self._job.asks(kind, mode)

    def data(self, look: Look, model: Any, data: Any) -> None:
        """Store the labels passed to a `train_step`."""
        if self.asks("label"):
            _, labels, _ = keras.utils.unpack_x_y_sample_weight(data)
            hold(look, "label", layers.name_of(model), labels)

    def called(self, look: Look, model: Any, given: Any, result: Any) -> None:
        """Store the inputs and outputs of a whole model."""
        for kind, values in (("input", given), ("output", result)):
            if self.asks(kind):
                hold(look, kind, layers.name_of(model), values)

    def lost(self, look: Look, loss: Any, target: Any) -> None:
        """Store the labels of a loss in a custom training loop."""
        if self.asks("label") and not any(each.info.kind == "label" for each in look.asked):
            hold(look, "label", str(loss.name), target)

    def stepped(self, looks: Sequence[Look]) -> None:
        """Collect the tensors stored by a step's programs."""
        held = [each for look in looks for each in look.asked]
        if held:
            with self._job.forward():
                self.take(held, Mode.TRAIN)
        for kind in OF_MODELS:
            missing = not any(each.info.kind == kind for each in held)
            if missing and looks and self._job.wants(kind) and self._job.asks(kind):
                self._job.blind(f"{kind}s of models", NOT_WRITTEN)

    def take(self, held: Sequence[Asked], mode: Mode) -> None:
        """Capture the stored tensors that are due in a mode."""
        by_kind: dict[str, tuple[list[int], list[Any]]] = {}
        seen: Counter[tuple[str, str]] = Counter()
        for each in held:
            if not each.slot.written or not self._job.wants(each.info.kind, mode):
                continue
            call = seen[each.info.kind, each.info.name]
            seen[each.info.kind, each.info.name] += 1
            number = self._define(each.info, call)
            if self._job.wants(each.info.kind, mode, ids=[number]):
                ids, arrays = by_kind.setdefault(each.info.kind, ([], []))
                ids.append(number)
                arrays.append(each.slot.read())
        for kind, (ids, arrays) in by_kind.items():
            self._job.take(kind, ids, arrays, mode=mode)

    def _define(self, info: TensorInfo, call: int = 0) -> int:
        name = f"{info.name}#{call}" if call else info.name
        key = info.kind, name
        if key not in self._ids:
            self._ids[key] = self._job.define(msgspec.structs.replace(info, name=name))
        return self._ids[key]


def hold(look: Look, kind: str, name: str, values: Any, of: Any = None) -> None:
    """Store the tensors among some values; `of` is the layer, if it is not a whole model."""
    found = _tensors(values)
    for place, value in found.items():
        if len(look.asked) >= MAX_TENSORS:
            return
        tensor = tf.convert_to_tensor(value)
        own = f"{name}/{place}" if place and len(found) > 1 else name
        info = TensorInfo(
            kind=kind,
            name=own,
            module="" if kind == "label" else name,
            module_type=layers.type_of(of) if of is not None else "",
            role=layers.role_of(of) if of is not None and kind == "activation" else "",
            shape=tuple(int(size or 0) for size in tensor.shape),
            dtype=tensor.dtype.name,
            location=layers.LOCATIONS.get(of) if of is not None else None,
            of_root=of is None and kind != "label",
        )
        rows = None if of is None else MAX_ROWS
        look.asked.append(Asked(info, Slot(tensor, rows=rows, behind=look)))


def _tensors(values: Any, place: str = "") -> dict[str, Any]:
    """Return the dense numeric tensors among nested values, by position."""
    if isinstance(values, dict):
        parts: Iterable[tuple[Any, Any]] = values.items()
    elif isinstance(values, list | tuple):
        parts = enumerate(values)
    else:
        is_array = isinstance(values, tf.Tensor | np.ndarray)
        is_number = is_array and tf.as_dtype(values.dtype) != tf.string
        return {place: values} if is_number else {}
    found: dict[str, Any] = {}
    for key, value in parts:
        found |= _tensors(value, f"{place}/{key}" if place else str(key))
    return found
