"""Losses in the record of a traced program or eager step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mothtrap.adapters.tensorflow.probes.slots import Slot


@dataclass(slots=True, eq=False)
class LossRecord:
    """A computed loss; `chain` as in the fact `LossCall`.

    `target` and `prediction` are None if they are not visible; `classes` is the size of the last
    axis of the prediction. `taken_back` and `swapped` as in the fact. `of`: identity of the
    prediction while the step is traced. `counted`: whether the loss counts each target; None if it
    counts all. `computed`: the value of the loss, if it is a single number.
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
    counted: Slot | None = None
    computed: Slot | None = None

    @property
    def is_written(self) -> bool:
        """Return whether a program writes both."""
        slots = self.target, self.prediction, self.counted, self.computed
        return all(slot is None or slot.written for slot in slots)
