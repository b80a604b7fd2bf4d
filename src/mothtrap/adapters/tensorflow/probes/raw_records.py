"""Losses of `tf.nn`, and written by hand, in the record of a traced program or eager step."""

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


@dataclass(slots=True, eq=False)
class WrittenLoss:
    """A log-softmax that the script calls, as part of a loss that it writes itself.

    `of`: identity of its input; `shape`: the shape of the input; `chain` as in `LossCall`.
    """

    of: int
    shape: Slot
    axis: int
    chain: tuple[str, ...]
    location: str | None

    @property
    def is_written(self) -> bool:
        """Return whether a program writes the shape."""
        return self.shape.written
