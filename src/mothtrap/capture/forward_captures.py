"""Captures of a forward, held back until it has returned and its purpose is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mothtrap.capture.raw import StepCopies
from mothtrap.capture.step_exponents import StepExponents
from mothtrap.capture.step_rows import Part, StepRows
from mothtrap.core.records import RawBlock
from mothtrap.core.steps import StepKey

Purpose = Callable[[], StepKey | None]
"""Function that returns the purpose of a forward after its step: None for training, else its key.
"""
_Parked = tuple[Purpose, list[Part], Sequence[RawBlock], Mapping[int, Any]]


class ForwardCaptures:
    """The rows, copies and counts of one forward pass.

    Attributes:
        is_any: whether anything of the forward may have been captured.
        parked: forward passes that wait for the end of the step.

    Args:
        rows: rows of the step, and separate rows of the forward.
        copies: copies of the step and of the forward.
        exponents: counts of the step and of the forward.
    """

    def __init__(
        self, rows: StepRows[Any], copies: StepCopies[Any], exponents: StepExponents
    ) -> None:
        self._rows, self._copies, self._exponents = rows, copies, exponents
        self.is_any = False
        self.parked: list[_Parked] = []

    def forget(self) -> None:
        """Discard a forward pass that never returned, or that is not needed."""
        self._rows.take_forward()
        self._copies.begin_forward()
        self._exponents.begin_forward()
        self.is_any = False

    def keep(self) -> None:
        """Make the forward pass part of the step."""
        self._rows.keep(self._rows.take_forward())
        self._copies.keep(self._copies.take_forward())
        self._exponents.keep(self._exponents.take_forward())
        self.is_any = False

    def park(self, purpose: Purpose) -> None:
        """Set the forward pass aside until the step shows whether it was training."""
        rows, raw = self._rows.take_forward(), self._copies.take_forward()
        self.parked.append((purpose, rows, raw, self._exponents.take_forward()))
        self.is_any = False

    def settle(self) -> Iterator[tuple[StepKey, Sequence[Part], Sequence[RawBlock]]]:
        """Add the training forward passes to the step; yield the others with their keys."""
        parked, self.parked = self.parked, []
        for purpose, rows, raw, counts in parked:
            key = purpose()
            if key is not None:
                yield key, rows, [*raw, *self._exponents.blocks(counts)]
            else:
                self._rows.keep(rows)
                self._copies.keep(raw)
                self._exponents.keep(counts)

    def take(self) -> tuple[Sequence[Part], Sequence[RawBlock]]:
        """Return and remove the rows and values, which form their own record."""
        rows, raw = self._rows.take_forward(), self._copies.take_forward()
        blocks = self._exponents.blocks(self._exponents.take_forward())
        self.forget()
        return rows, [*raw, *blocks]
