"""Tensors that collections ask for: of whole models, of losses, and of forwards that only evaluate.

A program writes them only where a collection in force holds their kind when it is traced.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import keras
import msgspec
import numpy as np
import tensorflow as tf

from mothtrap.adapters.keras import layers, names
from mothtrap.adapters.keras.weights import Weights
from mothtrap.adapters.tensorflow.hooks import LOOKS, SHARED
from mothtrap.adapters.tensorflow.looks import MAX_ROWS, Asked, Look, Slot
from mothtrap.core.adapters import Job
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo

OF_MODELS: Final = ("input", "output", "label")
OF_FORWARDS: Final = ("activation", "input", "output")
STATE: Final = ("weight", "bias")
EVALUATIONS: Final = (Mode.EVAL, Mode.PREDICT)
NOT_WRITTEN: Final = "the program of the step does not show them, or it was traced before"
MAX_TENSORS: Final = 1024
"""Tensors of one program that are kept; chosen by hand."""


class _Thread(threading.local):
    """`mode`: of forwards outside of any tape; `model`: the one of them that is captured now."""

    mode = Mode.EVAL
    model: Any = None


class AskedTensors:
    """Holds tensors of a step, or of an evaluation, until they can be handed on.

    Args:
        job: takes them.
        weights: of the models that are trained.
    """

    def __init__(self, job: Job, weights: Weights) -> None:
        self._job, self._weights = job, weights
        self._ids: dict[tuple[str, str], int] = {}
        self.here = _Thread()

    def asks(self, kind: str, mode: Mode = Mode.TRAIN) -> bool:
        """Return whether tensors of a kind are to be held: in an eager step, those due now."""
        if tf.executing_eagerly():
            return bool(self._job.wants(kind, mode))
        return self._job.asks(kind, mode)

    def data(self, look: Look, model: Any, data: Any) -> None:
        """Hold the labels that a `train_step` is given."""
        if self.asks("label"):
            _, labels, _ = keras.utils.unpack_x_y_sample_weight(data)
            _hold(look, "label", layers.name_of(model), labels)

    def called(self, look: Look, model: Any, given: Any, result: Any) -> None:
        """Hold what a whole model was given, and what it gave."""
        for kind, values in (("input", given), ("output", result)):
            if self.asks(kind):
                _hold(look, kind, layers.name_of(model), values)

    def lost(self, look: Look, loss: Any, target: Any) -> None:
        """Hold the labels of a loss in a loop of the script's own."""
        if self.asks("label") and not any(each.info.kind == "label" for each in look.asked):
            _hold(look, "label", str(loss.name), target)

    def stepped(self, looks: Sequence[Look]) -> None:
        """Take what the programs of a step hold."""
        held = [each for look in looks for each in look.asked]
        if held:
            with self._job.forward():
                self._take(held, Mode.TRAIN)
        for kind in OF_MODELS:
            missing = not any(each.info.kind == kind for each in held)
            if missing and looks and self._job.wants(kind) and self._job.asks(kind):
                self._job.blind(f"{kind}s of models", NOT_WRITTEN)

    # Evaluations and predictions

    def began(self) -> bool:
        """Find out what is due in the next forward; return whether that is anything."""
        found = False
        for mode in EVALUATIONS:
            if self._job.begins_evaluation(mode):
                found = found or any(self._job.wants(kind, mode) for kind in OF_FORWARDS)
        return found

    def model_begins(self, model: Any) -> bool:
        """Begin to hold the layers of a model that is called outside of any tape."""
        mode, is_eager = self.here.mode, tf.executing_eagerly()
        if is_eager and not self._job.begins_evaluation(mode):
            return False
        if not is_eager and not SHARED.is_running():
            return False  # it is traced to be exported
        if not is_eager and not any(self._job.asks(kind, mode) for kind in (*OF_FORWARDS, *STATE)):
            return False
        self.here.model = model
        return True

    def layer_called(self, layer: Any, given: Any, result: Any) -> None:
        """Hold what a layer of such a model was given, and what it gave."""
        look = self._look_of_evaluation()
        if look is None or not names.is_leaf(layer):
            return
        for kind, values in (("activation", result), ("input", given)):
            if self.asks(kind, self.here.mode):
                _hold(look, kind, layers.name_of(layer), values, of=layer)

    def model_called(self, given: Any, result: Any) -> None:
        """Hold what the model itself was given, and what it gave; of an eager one take all."""
        look, model, mode = self._look_of_evaluation(), self.here.model, self.here.mode
        self.here.model = None
        if look is None:
            return
        for kind, values in (("input", given), ("output", result)):
            if self.asks(kind, mode):
                _hold(look, kind, layers.name_of(model), values)
        look.evaluates = mode, model
        if tf.executing_eagerly():
            held, look.asked, look.evaluates = look.asked, [], None
            self._take_evaluation(held, mode, model)
        else:
            look.flush()

    def failed(self) -> None:
        """Forget a forward that did not return."""
        self.here.model = None

    def ran(self, looks: Iterable[Look]) -> None:
        """Take what programs hold that have evaluated a model."""
        for look in looks:
            if look.evaluates is not None:
                mode, model = look.evaluates
                if self._job.begins_evaluation(mode):
                    self._take_evaluation(look.asked, mode, model)

    def _take_evaluation(self, held: Sequence[Asked], mode: Mode, model: Any) -> None:
        if not any(self._weights.knows(variable) for variable in model.trainable_variables):
            return  # no optimizer trains it
        with self._job.forward(mode):
            self._weights.evaluated(mode)
            self._take(held, mode)

    def _look_of_evaluation(self) -> Look | None:
        look = LOOKS.current() if self.here.model is not None else None
        return None if look is None or look.why else look

    def _take(self, held: Sequence[Asked], mode: Mode) -> None:
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


def _hold(look: Look, kind: str, name: str, values: Any, of: Any = None) -> None:
    """Hold the tensors among some values; `of` is the layer where it is not a whole model."""
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
    """Return the dense numbers among nested values, by their place."""
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
