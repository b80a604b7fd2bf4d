"""Lower a learning rate at which the loss diverges."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding, Severity
from mothtrap.repairs._losses import training_sums
from mothtrap.repairs._optimizers import (
    usual_rate,
    with_rate,
    with_usual_momentum,
    written_rate,
)
from mothtrap.repairs.script import (
    NoCertainRepairError,
    Script,
    only,
)

ANYWHERE = True

LEAST_RATIO = 10.0
"""Minimum ratio to the usual rate for the rate itself to be the fault. Chosen by hand."""


def repair(script: Script, finding: Finding) -> str:
    """Return the source with the usual learning rate of the optimizer.

    Only if the loss diverged (an error), and the rate is `LEAST_RATIO` times as high as usual. If
    it is not, a training loss that is summed over the batch is averaged instead. A momentum of 1 or
    more is the fault regardless of the rate.
    """
    if finding.severity is not Severity.ERROR:
        raise NoCertainRepairError("the loss did not diverge; decide how far to lower the rate")
    if (text := with_usual_momentum(script)) is not None:
        return text
    usual = usual_rate(finding)
    number, rate = written_rate(script, finding, finding.evidence.get("learning_rate"))
    sums = training_sums(script)
    if rate >= LEAST_RATIO * usual:
        if sums:
            raise NoCertainRepairError("the rate is high, and the loss is a sum; decide on one")
        return with_rate(script, number, usual)
    if not sums:
        raise NoCertainRepairError("the learning rate is not far above the usual one")
    return script.replaced(only(sums, "loss summed over the batch"), cst.SimpleString('"mean"'))
