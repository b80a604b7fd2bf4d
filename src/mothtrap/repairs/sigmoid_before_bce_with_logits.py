"""Remove the sigmoid before a binary cross entropy with logits, or use the loss without logits."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs import _activations
from mothtrap.repairs.script import NoCertainRepairError, Script, last_name, replaced_all

_OF_PROBABILITIES = {
    "BCEWithLogitsLoss": "BCELoss",
    "binary_cross_entropy_with_logits": "binary_cross_entropy",
}


def is_anywhere(finding: Finding) -> bool:
    """Return whether the output of the only model is repaired, because no line is named."""
    return _activations.is_anywhere(finding)


def place(finding: Finding) -> tuple[str, int]:
    """Return file and line of the sigmoid."""
    return _activations.place(finding)


def repair(script: Script, finding: Finding) -> str:
    """Return the source without the sigmoid.

    If the script compares the outputs with a threshold, the result has the loss that takes
    probabilities instead.
    """
    try:
        _activations.refuse_thresholds(script)
    except NoCertainRepairError as err:
        return _with_other_loss(script, err)
    line = 0 if is_anywhere(finding) else place(finding)[1]
    return _activations.without(script, line, "sigmoid", "Sigmoid")


def _with_other_loss(script: Script, refusal: NoCertainRepairError) -> str:
    """Return the source with the loss of probabilities everywhere in the file."""
    losses = [
        one.func.attr
        for one in script.every(cst.Call)
        if last_name(one.func) in _OF_PROBABILITIES
        and isinstance(one.func, cst.Attribute)
        and not any(arg.keyword and arg.keyword.value == "pos_weight" for arg in one.args)
    ]
    used = [one for one in script.every(cst.Name) if one.value in _OF_PROBABILITIES]
    if not losses or len(losses) != len(used):
        raise refusal
    return replaced_all(script, [(one, cst.Name(_OF_PROBABILITIES[one.value])) for one in losses])
