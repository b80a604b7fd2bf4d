"""Average a summed loss, or lower a momentum of 1 or more, if the gradient explodes."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding, Severity
from mothtrap.repairs._losses import training_sums
from mothtrap.repairs._optimizers import named_rates, with_usual_momentum
from mothtrap.repairs.script import NoCertainRepairError, Script, code, only

ANYWHERE = True

HIGH = 0.1
"""Learning rate of SGD from which the rate itself can be the fault: 10 times the usual rate."""


def repair(script: Script, finding: Finding) -> str:
    """Return the source with `reduction="mean"` in the training loss, or a momentum below 1.

    Only if the run failed (an error), the file trains with SGD, whose steps grow with the loss, no
    learning rate is high, and one training loss is summed.
    """
    if finding.severity is not Severity.ERROR or not script.calls("SGD"):
        raise NoCertainRepairError("decide how to keep the gradient small")
    if (text := with_usual_momentum(script)) is not None:
        return text
    if any(float(code(rate)) >= HIGH for rate in named_rates(script)):
        raise NoCertainRepairError("the rate is high, and the loss may be a sum; decide on one")
    found = only(training_sums(script), "loss summed over the batch")
    return script.replaced(found, cst.SimpleString('"mean"'))
