"""Losses of `tf.nn` in the record of a traced program or eager step."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.adapters.tensorflow.probes.slots import Slot


@dataclass(slots=True, eq=False)
class RawLoss:
    """A loss of `tf.nn` that the script calls; `chain` as in the fact `LossCall`."""

    name: str
    target: Slot
    prediction: Slot
    chain: tuple[str, ...]
    location: str | None

    @property
    def is_written(self) -> bool:
        """Return whether a program writes both tensors."""
        return self.target.written and self.prediction.written
