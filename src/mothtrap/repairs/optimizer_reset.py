"""Create an optimizer once, before the loop."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import (
    NoCertainRepairError,
    Script,
    assigned,
    code,
    line_of,
    loops_around,
    names_in,
    only,
)


def repair(script: Script, finding: Finding) -> str:
    """Return the source with the optimizer created before the loop around it.

    Only if the loop assigns no variable from which the optimizer is created.
    """
    line = line_of(finding)
    made = [
        one
        for one in script.at(line, cst.SimpleStatementLine)
        if len(one.body) == 1 and isinstance(one.body[0], cst.Assign)
    ]
    statement = only(made, f"assignment of an optimizer in line {line}")
    loops = loops_around(script, statement)
    if not loops:
        raise NoCertainRepairError("the optimizer is created in a function, not in a loop")
    assignment = statement.body[0]
    assert isinstance(assignment, cst.Assign)
    needed = names_in(assignment.value)
    for loop in loops:
        inside = {
            name
            for name in needed
            if any(loop in script.parents(one) for one in assigned(script, name))
        }
        if isinstance(loop, cst.For):
            inside |= needed & names_in(loop.target)
        if inside:
            raise NoCertainRepairError(f"the loop also assigns `{sorted(inside)[0]}`")
    return script.with_statements(before=[(loops[-1], code(statement))], without=[statement])
