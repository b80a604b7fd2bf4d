"""Losses that reach the weights only through operations whose derivative is 0."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import jax

from mothtrap.adapters.jax import internals
from mothtrap.adapters.jax.internals import Caller

ROUNDING: Final = frozenset({"sign", "round", "floor", "ceil"})
CHOOSING: Final = frozenset({"argmax", "argmin"})
COMPARING: Final = frozenset({"gt", "ge", "lt", "le", "eq", "ne"})
CONVERTING: Final = "convert_element_type"
COMPARISON: Final = "a comparison"
CONVERSION: Final = "a conversion to integers"
Flat = tuple[str, str | None]
"""An operation without a slope, in words, and its line."""


class Slopes:
    """Follows the weights through the operations of a loss."""

    def __init__(self) -> None:
        self._flat: dict[int, Flat] = {}

    def operation(
        self, eqn: Any, caller: Caller, values: Sequence[Any], result: Any, of: Collection[int]
    ) -> None:
        """Process an operation.

        Args:
            eqn: the operation.
            caller: call to which it belongs.
            values: its inputs.
            result: its result.
            of: identities of the values that depend on weights.
        """
        flat = next((self._flat[id(one)] for one in values if id(one) in self._flat), None)
        if any(id(one) in of and id(one) not in self._flat for one in values):
            words = _words(eqn, result)
            flat = (words, internals.line_of_equation(eqn, caller)) if words else None
        if flat is not None and eqn.primitive.name != "stop_gradient":
            self._flat[id(result)] = flat

    def before(self, loss: Any) -> Flat | None:
        """Return an operation through which a loss gets all that it knows of the weights."""
        return self._flat.get(id(loss))


def _words(eqn: Any, result: Any) -> str:
    """Return the name of an operation without a slope; '' for others."""
    name = str(eqn.primitive.name)
    if name in ROUNDING | CHOOSING:
        return f"`{name}`"
    if name in COMPARING:
        return COMPARISON
    is_real = jax.numpy.issubdtype(result.dtype, jax.numpy.inexact)
    return CONVERSION if name == CONVERTING and not is_real else ""
