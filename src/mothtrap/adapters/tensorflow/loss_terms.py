"""Find the terms of a loss in the operations that compute it, of a program or an eager step."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, Final

import tensorflow as tf

from mothtrap.adapters.tensorflow.probes.eager_operations import EagerOperations
from mothtrap.adapters.tensorflow.probes.probes import Look
from mothtrap.adapters.tensorflow.probes.slots import MAX_ROWS, Slot
from mothtrap.adapters.tensorflow.probes.tape_targets import Terms
from mothtrap.tracing.describe.loss_terms import LossTerms

_FIRST_ONLY: Final = {
    **dict.fromkeys(("Sum", "Mean"), "sum"),
    **dict.fromkeys(("Cast", "Identity", "Reshape", "Squeeze", "ExpandDims", "Transpose"), "view"),
    **dict.fromkeys(("GatherV2", "GatherNd", "StridedSlice", "ResourceGather"), "gather"),
    "Abs": "abs",
    "Square": "square",
    "Exp": "exp",
    "Log": "log",
    "Neg": "neg",
    "StopGradient": "stopped",
    "Softmax": "softmax",
    "LogSoftmax": "log_softmax",
    "OneHot": "one_hot",
    "SparseSoftmaxCrossEntropyWithLogits": "cross_entropy",
    "SoftmaxCrossEntropyWithLogits": "cross_entropy",
}
"""Operations of which only the first input is a value."""
_ALL: Final = {
    **dict.fromkeys(("Add", "AddV2", "AddN"), "add"),
    **dict.fromkeys(("RealDiv", "DivNoNan"), "div"),
    **dict.fromkeys(("Minimum", "Maximum"), "select"),
    "Sub": "sub",
    "Mul": "mul",
    "BiasAdd": "add",
    "MatMul": "layer",
}
_NOISE: Final = frozenset(
    {"RandomStandardNormal", "StatelessRandomNormal", "StatelessRandomNormalV2"}
)
_PACKED: Final = "IdentityN"
"""Returns each of its inputs."""


class GraphOperations:
    """The operations of a traced program, with the names that `LossTerms` uses."""

    def of(self, value: Any) -> tuple[str, Sequence[Any]]:
        """Return the name of an operation, and its inputs without axes and shapes."""
        return self.named(value.op.type, list(value.op.inputs), value.value_index)

    def named(self, kind: str, inputs: Sequence[Any], index: int) -> tuple[str, Sequence[Any]]:
        """Return the name of an operation of TensorFlow, and its inputs.

        Args:
            kind: type of the operation.
            inputs: its inputs.
            index: index of the value among its results.
        """
        if kind in _FIRST_ONLY:
            return _FIRST_ONLY[kind], inputs[:1]
        if kind in _NOISE:
            return "noise", ()
        if kind == _PACKED:
            return "view", [inputs[index]]
        if kind == "SquaredDifference" or (kind == "Pow" and self.number(inputs[1]) == 2.0):
            return "square", inputs[:1]
        if kind == "Mul" and self.key(inputs[0]) == self.key(inputs[1]):
            return "square", inputs[:1]
        return _ALL.get(kind, ""), inputs

    def key(self, value: Any) -> Hashable:
        """Return the name of a tensor, which is unique in its graph."""
        return value.op.name, value.value_index

    def shape(self, value: Any) -> tuple[int | None, ...] | None:
        """Return the shape, None for an unknown size; None if even the rank is unknown."""
        return None if value.shape.rank is None else tuple(value.shape)

    def number(self, value: Any) -> float | None:
        """Return the value of a constant with a single element; None for other tensors."""
        if value.shape.rank != 0 or not (value.dtype.is_floating or value.dtype.is_integer):
            return None
        known = tf.get_static_value(value)
        return float(known) if known is not None else None


class RecordedOperations(GraphOperations):
    """The recorded operations of an eager step.

    Args:
        recorded: the operations.

    Attributes:
        has_factor: a value is multiplied by a number. It may be a constant of the loss, or a
            reward, so the signs of terms are not known.
    """

    def __init__(self, recorded: EagerOperations) -> None:
        self._recorded = recorded
        self.has_factor = False

    def of(self, value: Any) -> tuple[str, Sequence[Any]]:
        """Return the name of an operation, and its inputs; an empty name for unknown ones."""
        made = self._recorded.of(value)
        if made is None:
            return "", ()
        if made.kind in ("Mul", "RealDiv", "DivNoNan"):
            numbers = [number for one in made.inputs if (number := self.number(one)) is not None]
            self.has_factor |= any(made.kind == "Mul" or number < 0 for number in numbers)
        return self.named(made.kind, made.inputs, made.index)

    def key(self, value: Any) -> Hashable:
        """Return the identity of a tensor."""
        return id(value)

    def number(self, value: Any) -> float | None:
        """Return the value of a number that no operation has computed."""
        if self._recorded.of(value) is not None or not tf.is_tensor(value):
            return None
        return super().number(value)


class EagerTerms:
    """The terms of eager losses, which are known after the first steps.

    Args:
        recorded: operations of the step in progress.
    """

    def __init__(self, recorded: EagerOperations) -> None:
        self._recorded = recorded
        self._known: dict[str | None, Terms | None] = {}

    def reset(self) -> None:
        """Start over, because an adapter begins to observe."""
        self._recorded.reset()
        self._known.clear()

    def of(self, look: Look, loss: Any, location: str | None, *, partly: bool) -> Terms | None:
        """Return the terms of a loss, or else those of the loss recorded at the same line."""
        if not self._recorded.are_known:
            return self._known.get(location)
        operations = RecordedOperations(self._recorded)
        found = _terms(operations, look, loss, location, partly=partly)
        if found is not None and operations.has_factor:
            unknown = frozenset[bool | None]()
            found = replace(found, signs=unknown, values=unknown, labels=unknown)
        without = replace(found, mean=None, log_variance=None) if found is not None else None
        if location in self._known and self._known[location] != without:
            without = found = None  # the line computes several losses
        self._known[location] = without
        return found


def terms_of(look: Look, loss: Any, location: str | None, *, partly: bool) -> Terms | None:
    """Return the terms of a program's loss; None if no term is known.

    Args:
        look: receives the values of a latent code.
        loss: the loss.
        location: line of the loss.
        partly: the loss depends on weights that it does not train.
    """
    return _terms(GraphOperations(), look, loss, location, partly=partly)


def _terms(
    operations: GraphOperations, look: Look, loss: Any, location: str | None, *, partly: bool
) -> Terms | None:
    terms = LossTerms(operations, loss)
    code, signs = terms.code(), frozenset(terms.policy_signs())
    values = frozenset(terms.value_signs(lambda _: partly))
    if code is None:
        labels = frozenset(terms.label_signs())
        if not (signs or values or labels):
            return None
        return Terms(signs=signs, values=values, labels=labels, location=location)
    mean, log_variance = (
        Slot(one, rows=MAX_ROWS, behind=look) for one in (code.mean, code.log_variance)
    )
    noise = terms.noise_of(code)
    return Terms(mean, log_variance, noise, signs, values, location=location)
