"""Lower a learning rate at which the loss diverges."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding, Severity
from mothtrap.repairs._optimizers import usual_rate, with_rate, written_rate
from mothtrap.repairs.script import (
    NoCertainRepairError,
    Script,
    code,
    keyword,
    last_name,
    only,
    owner,
)

ANYWHERE = True

LEAST_RATIO = 10.0
"""Smallest ratio to the usual rate at which the rate itself is the fault. Chosen by hand."""


def repair(script: Script, finding: Finding) -> str:
    """Return the source with the usual learning rate of the optimizer.

    Only where the loss diverged (an error), and where the rate is `LEAST_RATIO` times as high as
    usual. If it is not, a training loss that is summed over the batch is averaged instead.
    """
    if finding.severity is not Severity.ERROR:
        raise NoCertainRepairError("the loss did not diverge; decide how far to lower the rate")
    usual = usual_rate(finding)
    number, rate = written_rate(script, finding, finding.evidence.get("learning_rate"))
    sums = _training_sums(script)
    if rate >= LEAST_RATIO * usual:
        if sums:
            raise NoCertainRepairError("the rate is high, and the loss is a sum; decide on one")
        return with_rate(script, number, usual)
    if not sums:
        raise NoCertainRepairError("the learning rate is not far above the usual one")
    return script.replaced(only(sums, "loss summed over the batch"), cst.SimpleString('"mean"'))


def _training_sums(script: Script) -> list[cst.BaseExpression]:
    """Return the `"sum"` of each loss that runs backward by itself, or that is made as a layer."""
    trained = {code(of) for one in script.calls("backward") if (of := owner(one)) is not None}
    sums = []
    for call in script.every(cst.Call):
        given = keyword(call, "reduction")
        if given is None or code(given.value)[1:-1] != "sum":
            continue
        above = next(script.parents(call))
        assigned = isinstance(above, cst.Assign) and code(above.targets[0].target) in trained
        if assigned or last_name(call.func)[:1].isupper():
            sums.append(given.value)
    return sums
