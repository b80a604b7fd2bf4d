"""Step a schedule as often as it plans."""

from __future__ import annotations

from mothtrap.core.findings import Finding
from mothtrap.repairs._schedules import Schedule
from mothtrap.repairs.script import NoCertainRepairError, Script


def repair(script: Script, finding: Finding) -> str:
    """Return the source with `scheduler.step()` moved into, or out of, the loop over batches."""
    numbers = {name: finding.evidence.get(name) for name in ("planned", "calls")}
    planned, calls = numbers["planned"], numbers["calls"]
    if not isinstance(planned, int) or not isinstance(calls, int):
        raise NoCertainRepairError("the finding does not say how many calls the schedule plans")
    schedule = Schedule(script)
    return schedule.after_each_pass() if calls > planned else schedule.after_each_step()
