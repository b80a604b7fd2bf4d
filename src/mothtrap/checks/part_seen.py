"""Run of one part of a training script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mothtrap.core.check_plan import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSeen:
    """Result of running one part of the script while recorded values replace the others.

    Attributes:
        part: name of the part.
        turns: Number of iterations of the training loop.
        seconds: Time of the part in each iteration; empty if unknown.
        epochs: Number of completed loops over the training data.
        evaluations: Number of batches from evaluation loaders.
        files: names of the files that the script wrote.
        forms: distinct types and shapes of batches, without the batch size.
        error: exception that ended the script, in one line; empty without an exception.
        location: `file:line` of that exception.
        ended: why the part ended before the script did; empty if it did not.
    """

    part: Part
    turns: int = 0
    seconds: Sequence[float] = ()
    epochs: int = 0
    evaluations: int = 0
    files: Sequence[str] = ()
    forms: Sequence[str] = ()
    error: str = ""
    location: str | None = None
    ended: str = ""
