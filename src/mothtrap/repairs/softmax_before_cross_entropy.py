"""Remove the softmax before a cross entropy, or use a log-softmax before `nll_loss`."""

from __future__ import annotations

from mothtrap.core.findings import Finding
from mothtrap.repairs import _activations
from mothtrap.repairs.script import Script


def is_anywhere(finding: Finding) -> bool:
    """Return whether the output of the only model is repaired, because no line is named."""
    return finding.evidence.get("operation") != "nll" and _activations.is_anywhere(finding)


def place(finding: Finding) -> tuple[str, int]:
    """Return file and line of the softmax."""
    return _activations.place(finding)


def repair(script: Script, finding: Finding) -> str:
    """Return the source without the softmax, or with a log-softmax before `nll_loss`."""
    line = 0 if is_anywhere(finding) else place(finding)[1]
    if finding.evidence.get("operation") == "nll":
        names = {"softmax": "log_softmax", "Softmax": "LogSoftmax"}
        return _activations.renamed(script, line, names)
    return _activations.without(script, line, "softmax", "Softmax")
