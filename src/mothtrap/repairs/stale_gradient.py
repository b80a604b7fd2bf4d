"""Clear the gradients after a step."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import NoCertainRepairError, Script, code, loops_around, only, owner


def repair(script: Script, finding: Finding) -> str:  # noqa: ARG001  # one form for all
    """Return the source with `zero_grad()` after `step()`.

    Only where a loop calls `backward` and `step` in the same block, and nothing clears gradients.
    """
    for call in script.calls("zero_grad"):
        raise NoCertainRepairError(
            f"line {script.line(call)} calls zero_grad already; decide when it must run"
        )
    steps = [
        call for call in script.calls("step") if not call.args and _in_backward_block(script, call)
    ]
    chosen = only(steps, "optimizer step in the block of its backward")
    optimizer = owner(chosen)
    if optimizer is None:
        raise NoCertainRepairError("the step is not a method of an optimizer")
    statement = script.statement(chosen)
    return script.with_statements(after=[(statement, f"{code(optimizer)}.zero_grad()")])


def _in_backward_block(script: Script, call: cst.Call) -> bool:
    """Return whether the statements right before a step include a backward, inside a loop."""
    statement = script.statement(call)
    if not isinstance(statement, cst.SimpleStatementLine) or not loops_around(script, call):
        return False
    if "sched" in code(call).lower():
        return False
    before = [one for one in script.block(statement) if script.line(one) < script.line(statement)]
    backwards = [script.statement(one) for one in script.calls("backward")]
    return any(one in backwards for one in before)
