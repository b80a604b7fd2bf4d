"""Find the terms of a loss in the operations of a shadow, while JAX traces it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
import numpy as np

from mothtrap.adapters.jax.made import Made
from mothtrap.tracing.describe.loss_terms import LossTerms

_FIRST_ONLY: Final = {
    "reduce_sum": "sum",
    **dict.fromkeys(
        ("reshape", "transpose", "squeeze", "broadcast_in_dim", "convert_element_type", "copy"),
        "view",
    ),
    **dict.fromkeys(("gather", "slice", "dynamic_slice"), "gather"),
    "abs": "abs",
    "exp": "exp",
    "log": "log",
    "neg": "neg",
    "square": "square",
    "stop_gradient": "view",
    "erf_inv": "noise",
}
"""Operations of which only the first input is a value."""
_ALL: Final = {
    "add": "add",
    "add_any": "add",
    "sub": "sub",
    "mul": "mul",
    "div": "div",
    "max": "select",
    "min": "select",
    "dot_general": "layer",
    "conv_general_dilated": "layer",
}


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms of a loss.

    Attributes:
        noise: wrong factor of the noise of an autoencoder's latent code; None if right or unknown.
        signs: signs of the weighted log probabilities, as in `LossTerms.policy_signs`.
        values: signs of the outputs of networks that the loss does not train.
        scores: kind and shape of the predictions whose negative mean at the labels is the loss.
    """

    noise: str | None = None
    signs: frozenset[bool | None] = frozenset()
    values: frozenset[bool | None] = frozenset()
    scores: tuple[str, tuple[int, ...]] | None = None


class TracedOperations:
    """The operations of a traced loss, with the names that `LossTerms` uses.

    Args:
        made: the operations.
    """

    def __init__(self, made: Made) -> None:
        self._made = made

    def of(self, value: Any) -> tuple[str, Sequence[Any]]:
        """Return the name of an operation, and its inputs without axes and shapes."""
        eqn, inputs = self._made.of(value)
        name = eqn.primitive.name if eqn is not None else ""
        if name in _FIRST_ONLY:
            return _FIRST_ONLY[name], inputs[:1]
        if name == "integer_pow":
            return ("square" if eqn.params["y"] == 2 else ""), inputs[:1]
        if name == "select_n" and len(inputs) == 3:  # NaN for an index out of range
            arrays = [one for one in inputs[1:] if self._made.operation(one)]
            return ("gather" if len(arrays) == 1 else ""), arrays[:1]
        if name == "div" and self._is_softmax(*inputs):
            return "softmax", inputs[:1]
        if name == "mul" and inputs[0] is inputs[1]:
            return "square", inputs[:1]
        return _ALL.get(name, ""), inputs

    def key(self, value: Any) -> Hashable:
        """Return the identity of a value, which `Made` keeps alive."""
        return id(value)

    def shape(self, value: Any) -> tuple[int | None, ...]:
        """Return the shape of a value."""
        return tuple(np.shape(value))

    def number(self, value: Any) -> float | None:
        """Return the value of a constant with a single element; None for other values."""
        value = self._made.source(value)
        if isinstance(value, jax.core.Tracer) or np.ndim(value):
            return None
        known = np.asarray(value)
        return float(known) if known.dtype.kind in "fiu" else None

    def _is_softmax(self, numerator: Any, denominator: Any) -> bool:
        parts = map(self._made.source, (numerator, denominator))
        return [self._made.operation(part) for part in parts] == ["exp", "reduce_sum"]


def terms_of(terms: LossTerms, has_gradient: Callable[[Any], bool]) -> Terms:
    """Return the terms of a loss.

    Args:
        terms: finds them.
        has_gradient: returns whether a value depends on trained weights.
    """
    code, scores = terms.code(), terms.scores()

    def is_foreign(weights: Any) -> bool:
        return not has_gradient(weights) and np.ndim(weights) > 1

    return Terms(
        noise=terms.noise_of(code) if code is not None else None,
        signs=frozenset(terms.policy_signs()),
        values=frozenset(terms.value_signs(is_foreign)),
        scores=(scores.kind, tuple(scores.values.shape)) if scores is not None else None,
    )
