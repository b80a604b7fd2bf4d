"""Names of the phases of a training step."""

from __future__ import annotations

from typing import Final

DATA: Final = "data"
FORWARD: Final = "forward"
LOSS: Final = "loss"
BACKWARD: Final = "backward"
OPTIMIZER: Final = "optimizer"
EVALUATION: Final = "evaluation"
SAVE: Final = "save"
OTHER: Final = "other"
OWN: Final = "mothtrap"

PHASES: Final = (DATA, FORWARD, LOSS, BACKWARD, OPTIMIZER, EVALUATION, SAVE, OTHER, OWN)
"""Phases in their order within a step. `data` is the wait for a loader, `loss` is the time between
forward and backward, and `other` is all time that no hook measures.
"""
