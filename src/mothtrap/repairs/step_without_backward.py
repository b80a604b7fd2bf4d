"""Call `backward` before a step, without clearing the gradients in between."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import (
    NoCertainRepairError,
    Script,
    code,
    names_in,
    only,
    owner,
    with_called,
)

ANYWHERE = True


def repair(script: Script, finding: Finding) -> str:
    """Return the source with `zero_grad()` moved from before `step()` to after it.

    If the file never calls `backward`, the result calls it before the only step. A `step()` between
    `zero_grad()` and `backward()` is moved to after `backward()`.
    """
    if not script.calls("backward"):
        if (text := with_called(script, "backward")) is not None:
            return text
        return _with_backward(script, finding)
    found = []
    for call in script.calls("zero_grad"):
        statement = script.statement(call)
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
            continue
        block = list(script.block(statement))
        at = block.index(statement)
        following = [one for one in block[at + 1 :] if _calls(script, one, "step", owner(call))]
        if any(_calls(script, one, "backward") for one in block[:at]) and following:
            found.append((statement, following[0]))
    if not found and (early := _early_steps(script)):
        steps, runs = only(early, "step between zero_grad and backward")
        return script.with_statements(after=[(runs, code(steps))], without=[steps])
    if len(found) != 1:
        raise NoCertainRepairError("no single zero_grad was found between a backward and its step")
    clears, steps = found[0]
    between = [
        one
        for one in script.block(clears)
        if script.line(clears) < script.line(one) < script.line(steps)
    ]
    if any(_calls(script, one, "backward") for one in between):
        raise NoCertainRepairError("a backward runs between zero_grad and step, as it should")
    return script.with_statements(after=[(steps, code(clears))], without=[clears])


def _early_steps(script: Script) -> list[tuple[cst.CSTNode, cst.CSTNode]]:
    """Return the steps that run after `zero_grad` and before the only `backward` of their block."""
    found: list[tuple[cst.CSTNode, cst.CSTNode]] = []
    for call in script.calls("step"):
        statement = script.statement(call)
        if call.args or not isinstance(statement, cst.SimpleStatementLine):
            continue
        block = list(script.block(statement))
        at = block.index(statement) if statement in block else 0
        clears = [one for one in block if _calls(script, one, "zero_grad")]
        runs = [one for one in block if _calls(script, one, "backward")]
        if (
            len(statement.body) == 1
            and len(runs) == 1
            and block.index(runs[0]) > at
            and clears
            and all(block.index(one) < at for one in clears)
        ):
            found.append((statement, runs[0]))
    return found


def _with_backward(script: Script, finding: Finding) -> str:
    """Return the source with `loss.backward()` before the step in the block of a loss."""
    if not finding.evidence.get("absent"):
        raise NoCertainRepairError("the gradients come from elsewhere; decide what computes them")
    steps = [
        call
        for call in script.calls("step")
        if not call.args and "sched" not in code(call.func).lower()
    ]
    statement = script.statement(only(steps, "optimizer step"))
    made = {
        code(one.targets[0].target): names_in(one.value)
        for line in script.block(statement)
        if isinstance(line, cst.SimpleStatementLine) and script.line(line) < script.line(statement)
        for one in line.body
        if isinstance(one, cst.Assign)
        and isinstance(one.targets[0].target, cst.Name)
        and "loss" in code(one.targets[0].target).lower()
    }
    parts = {name for loss, names in made.items() for name in names if name != loss}
    loss = only(sorted(set(made) - parts), "loss in the block of the step")
    return script.with_statements(before=[(statement, f"{loss}.backward()")])


def _calls(
    script: Script, statement: cst.CSTNode, name: str, on: cst.BaseExpression | None = None
) -> bool:
    """Return whether a statement, not a block inside it, calls a method."""
    return any(
        script.statement(call) is statement
        and (on is None or (of := owner(call)) is None or code(of) == code(on))
        for call in script.calls(name)
    )
