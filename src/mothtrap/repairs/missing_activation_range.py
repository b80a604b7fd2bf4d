"""Pass a loss its expected input: logits, or predictions without a last ReLU."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs._activations import (
    refuse_thresholds,
    with_last_call,
    without_last_call,
)
from mothtrap.repairs.script import NoCertainRepairError, Script, last_name, replaced_all

ANYWHERE = True

_OF_SCORES = {
    "NLLLoss": "CrossEntropyLoss",
    "nll_loss": "cross_entropy",
    "BCELoss": "BCEWithLogitsLoss",
    "binary_cross_entropy": "binary_cross_entropy_with_logits",
}
"""Losses of probabilities, and the losses that take raw scores."""


def repair(script: Script, finding: Finding) -> str:
    """Return the source with the loss that takes raw scores, or without the ReLU before the loss.

    Only if a loss of probabilities gets raw scores, or if a ReLU computes values that should also
    be negative. All calls of the loss in the file are changed. If the script compares the outputs
    with a threshold, the model applies the sigmoid instead.
    """
    evidence = finding.evidence
    if "nll" in finding.message or "negative log-likelihood" in finding.message:
        return _with_other_loss(script, ("NLLLoss", "nll_loss"))
    if "a sigmoid is missing" in finding.message:
        try:
            refuse_thresholds(script)
        except NoCertainRepairError:
            return with_last_call(script, "torch.sigmoid")
        return _with_other_loss(script, ("BCELoss", "binary_cross_entropy"))
    scores = evidence.get("before") == "relu" and evidence.get("operation") in _TAKES_SCORES
    if scores or evidence.get("operation") == "relu":
        return without_last_call(script, "relu", "ReLU")
    raise NoCertainRepairError(
        "decide whether to remove the activation or to scale the targets into its range"
    )


_TAKES_SCORES = ("cross_entropy", "binary_cross_entropy_with_logits")


def _with_other_loss(script: Script, names: tuple[str, ...]) -> str:
    calls = [one for one in script.every(cst.Call) if last_name(one.func) in names]
    if not calls:
        raise NoCertainRepairError("this file calls no loss of probabilities")
    return replaced_all(script, [_renamed(call) for call in calls])


def _renamed(call: cst.Call) -> tuple[cst.CSTNode, cst.CSTNode]:
    """Return the name of a loss of probabilities, and of the loss that takes raw scores."""
    if not isinstance(call.func, cst.Attribute):
        raise NoCertainRepairError("the loss is imported by its name; change it with its import")
    return call.func.attr, cst.Name(_OF_SCORES[last_name(call.func)])
