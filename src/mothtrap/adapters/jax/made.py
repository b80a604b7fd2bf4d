"""The operations that computed the values of a traced loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

ARRANGING: Final = frozenset(
    {"reshape", "transpose", "squeeze", "broadcast_in_dim", "convert_element_type", "stop_gradient"}
)
"""Operations that do not change the values."""


class Made:
    """The operations that computed values, by the identity of the value."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Any, Sequence[Any]]] = {}
        self._kept: list[Any] = []

    def add(self, eqn: Any, values: Sequence[Any], result: Any) -> None:
        """Record an operation; its result is kept alive, so that its id is not reused."""
        if any(result is value for value in values):  # otherwise it would be its own source
            return
        self._made[id(result)] = (eqn, values)
        self._kept.append(result)

    def of(self, value: Any) -> tuple[Any, Sequence[Any]]:
        """Return the operation that computed a value, and its inputs; (None, ()) if unknown."""
        return self._made.get(id(value), (None, ()))

    def operation(self, value: Any) -> str:
        """Return the name of the operation that computed a value."""
        eqn, _ = self.of(value)
        return eqn.primitive.name if eqn is not None else ""

    def source(self, value: Any) -> Any:
        """Return the value before it was only rearranged."""
        while self.operation(value) in ARRANGING:
            value = self.of(value)[1][0]
        return value

    def arranged(self, value: Any) -> Iterator[tuple[Any, Any, Any]]:
        """Yield the rearranging operations behind a value, last first: equation, input, result."""
        while self.operation(value) in ARRANGING:
            eqn, inputs = self.of(value)
            yield eqn, inputs[0], value
            value = inputs[0]
