"""Find the terms of a loss in the graph of the program that computes it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final

import tensorflow as tf

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
        operation = value.op
        kind, inputs = operation.type, list(operation.inputs)
        if kind in _FIRST_ONLY:
            return _FIRST_ONLY[kind], inputs[:1]
        if kind in _NOISE:
            return "noise", ()
        if kind == _PACKED:
            return "view", [inputs[value.value_index]]
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


def terms_of(look: Look, loss: Any, location: str | None, *, partly: bool) -> Terms | None:
    """Return the terms of a program's loss; None for an eager loss, or if no term is known.

    Args:
        look: receives the values of a latent code.
        loss: the loss.
        location: line of the loss.
        partly: the loss depends on weights that it does not train.
    """
    if tf.executing_eagerly():
        return None
    terms = LossTerms(GraphOperations(), loss)
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
