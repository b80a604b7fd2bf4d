"""Remove the sigmoid before a binary cross entropy with logits."""

from __future__ import annotations

from mothtrap.core.findings import Finding
from mothtrap.repairs import _activations
from mothtrap.repairs.script import Script


def place(finding: Finding) -> tuple[str, int]:
    """Return file and line of the sigmoid."""
    return _activations.place(finding)


def repair(script: Script, finding: Finding) -> str:
    """Return the source without the sigmoid."""
    return _activations.without(script, place(finding)[1], "sigmoid", "Sigmoid")
