"""Return the loss from `training_step`."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import NoCertainRepairError, Script, code, only

ANYWHERE = True


def repair(script: Script, finding: Finding) -> str:  # noqa: ARG001  # one form for all
    """Return the source with `return loss` at the end of `training_step`.

    Only if the file has one such method without a return value, and it assigns one variable named
    as a loss.
    """
    steps = [
        one
        for one in script.every(cst.FunctionDef)
        if one.name.value == "training_step" and not _returns(script, one)
    ]
    step = only(steps, "training_step without a return")
    losses = [
        code(target.target)
        for line in step.body.body
        if isinstance(line, cst.SimpleStatementLine)
        for one in line.body
        if isinstance(one, cst.Assign)
        for target in one.targets
        if isinstance(target.target, cst.Name) and "loss" in target.target.value.lower()
    ]
    loss = only(sorted(set(losses)), "variable of the loss")
    last = step.body.body[-1]
    if not isinstance(last, cst.SimpleStatementLine | cst.BaseCompoundStatement):
        raise NoCertainRepairError("training_step has only one line")
    return script.with_statements(after=[(last, f"return {loss}")])


def _returns(script: Script, function: cst.FunctionDef) -> bool:
    return any(function in script.parents(one) for one in script.every(cst.Return))
