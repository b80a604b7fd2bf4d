"""Lower a learning rate at which the loss diverges."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding, Severity
from mothtrap.repairs._optimizers import usual_rate, with_rate, written_rate
from mothtrap.repairs.script import NoCertainRepairError, Script, code, keyword

LEAST_RATIO = 10.0
"""Smallest ratio to the usual rate at which the rate itself is the fault. Chosen by hand."""


def repair(script: Script, finding: Finding) -> str:
    """Return the source with the usual learning rate of the optimizer.

    Only where the loss diverged (an error), and where the rate is `LEAST_RATIO` times as high as
    usual. A loss that is summed over the batch is averaged instead.
    """
    if finding.severity is not Severity.ERROR:
        raise NoCertainRepairError("the loss did not diverge; decide how far to lower the rate")
    sums = [
        arg.value
        for call in script.every(cst.Call)
        if (arg := keyword(call, "reduction")) is not None and code(arg.value) in _SUMS
    ]
    if sums:
        if len(sums) > 1:
            raise NoCertainRepairError("several losses are summed over the batch")
        return script.replaced(sums[0], cst.SimpleString('"mean"'))
    usual = usual_rate(script, finding)
    number, rate = written_rate(script, finding, finding.evidence.get("learning_rate"))
    if rate < LEAST_RATIO * usual:
        raise NoCertainRepairError("the learning rate is not far above the usual one")
    return with_rate(script, number, usual)


_SUMS = ('"sum"', "'sum'")
