"""Step a schedule that ended too early once per epoch instead of once per batch."""

from __future__ import annotations

from mothtrap.core.findings import Finding
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

    Only where the rate fell or came back during training, and where no argument of the schedule
    is computed from the number of batches.
    """
    if " is 0 for " in finding.message:
        raise NoCertainRepairError("the learning rate is 0 from the start; decide its value")
    schedule = Schedule(script)
    name = last_name(schedule.made.func)
    if name not in _PER_EPOCH:
        raise NoCertainRepairError(f"{name} may count batches; decide how often it must be stepped")
    if "len(" in code(schedule.made):
        raise NoCertainRepairError("the schedule is planned from a number of batches")
    return schedule.after_each_pass()
