"""Losses and masks in the record of a traced program or eager step."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from mothtrap.adapters.tensorflow.probes.slots import Slot
from mothtrap.core.facts.losses import LossCall
from mothtrap.tracing.describe.losses import difference


@dataclass(slots=True, eq=False)
class LossRecord:
    """A computed loss; `chain` as in the fact `LossCall`.

    `target` and `prediction` are None if they are not visible; `classes` is the size of the last
    axis of the prediction. `taken_back` and `swapped` as in the fact. `of`: identity of the
    prediction while the step is traced.
    """

    loss: Any
    target: Slot | None
    prediction: Slot | None
    chain: tuple[str, ...]
    location: str | None
    classes: int | None = None
    taken_back: str = ""
    swapped: bool = False
    of: int = 0

    @property
    def is_written(self) -> bool:
        """Return whether a program writes both."""
        return all(slot is None or slot.written for slot in (self.target, self.prediction))


@dataclass(slots=True, eq=False)
class Broadcast:
    """A difference between every prediction and every target: its shape, and its line if known."""

    shape: Slot
    location: str | None = None

    def fact(self, step: int, series: str | None, place: str | None) -> LossCall:
        """Return the fact; `place` is the location of the loss."""
        rows, columns = self.shape.read().tolist()
        shapes = (rows, 1), (columns,), (rows, columns)
        return difference(*shapes, step=step, series=series, location=self.location or place)


@dataclass(slots=True, eq=False)
class AddedMask:
    """A floating-point tensor without weights that is added to scores before a softmax."""

    values: Slot
    location: str | None = None


@dataclass(slots=True, eq=False)
class Target:
    """A loss: the value that a tape differentiates with respect to variables.

    `scaled`: a loss scale was applied, and `value` is the unscaled loss. `tensor`: tensor of the
    program, while it is traced. `sources`: identities of the variables; `first` is one of them.
    `original`: the tensor passed to the tape.
    """

    value: Slot
    location: str | None
    scaled: bool
    broadcast: Broadcast | None = None
    tensor: Any = None
    sources: frozenset[int] = frozenset()
    first: weakref.ref[Any] | None = None
    original: Any = None
