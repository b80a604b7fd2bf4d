"""Lower a learning rate at which the loss diverges."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding, Severity
from mothtrap.repairs._optimizers import optimizer_of, with_rate
from mothtrap.repairs.script import NoCertainRepairError, Script, code, keyword, last_name

DEFAULTS = {
    **dict.fromkeys(("Adam", "AdamW", "NAdam", "Adamax", "RAdam"), 1e-3),
    **dict.fromkeys(("SGD",), 1e-2),
}
"""Rate that is usual for an optimizer: PyTorch's default for Adam, and for SGD the rate of the
PyTorch tutorials with momentum."""
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
    usual = DEFAULTS.get(last_name(optimizer_of(script, finding).func))
    rate = finding.evidence.get("learning_rate")
    if usual is None or not isinstance(rate, int | float) or rate < LEAST_RATIO * usual:
        raise NoCertainRepairError("the learning rate is not far above the usual one")
    return with_rate(script, finding, usual)


_SUMS = ('"sum"', "'sum'")
