"""Replace a learning rate that was set to 0, or step a schedule once per epoch."""

from __future__ import annotations

from mothtrap.core.findings import Finding
from mothtrap.repairs._optimizers import usual_rate, with_rate, written_rate
from mothtrap.repairs._schedules import Schedule
from mothtrap.repairs.script import NoCertainRepairError, Script, code, last_name

_PER_EPOCH = (
    "CosineAnnealingLR",
    "ExponentialLR",
    "LinearLR",
    "MultiStepLR",
    "PolynomialLR",
    "StepLR",
)
"""Schedules whose arguments usually count epochs."""


def repair(script: Script, finding: Finding) -> str:
    """Return the source with `scheduler.step()` after the loop over the batches.

    Only if the rate fell or recovered during training, and no argument of the schedule is computed
    from the number of batches. If the script creates the optimizer with a rate of 0, the result has
    the usual rate instead.
    """
    if " was 0 for " in finding.message:
        number, _ = written_rate(script, finding, 0.0)
        return with_rate(script, number, usual_rate(finding))
    schedule = Schedule(script)
    name = last_name(schedule.made.func)
    if name not in _PER_EPOCH:
        raise NoCertainRepairError(f"{name} may count batches; decide how often it must be stepped")
    if "len(" in code(schedule.made):
        raise NoCertainRepairError("the schedule is planned from a number of batches")
    return schedule.after_each_pass()
