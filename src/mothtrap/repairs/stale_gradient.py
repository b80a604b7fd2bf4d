"""Clear the gradients after a step."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import (
    NoCertainRepairError,
    Script,
    code,
    line_of,
    loops_around,
    only,
    owner,
    with_called,
)


def repair(script: Script, finding: Finding) -> str:
    """Return the source with `zero_grad()` after `step()`, or at the start of a closure.

    Only if `backward` and `step` are called in the same block, and nothing clears gradients except
    one call of the same optimizer outside of the loop around this block. This call is moved. A
    closure must be a function that is passed to one `step`, and must not clear gradients. A
    statement `optimizer.zero_grad` without parentheses gets them. If there are several optimizers,
    the optimizer on the finding's line is cleared before the backward passes of its step, because
    backward passes of the others may add to its gradients.
    """
    if "evaluations of its closure" in finding.message:
        return _in_closure(script)
    clears = script.calls("zero_grad")
    if not clears and (text := with_called(script, "zero_grad")) is not None:
        return text
    steps = [call for call in script.calls("step") if _in_backward_block(script, call)]
    if len({_optimizer(one) for one in steps}) > 1:
        return _before_backward(script, steps, line_of(finding))
    chosen = only(steps, "optimizer step in the block of its backward")
    optimizer = _optimizer(chosen)
    if not optimizer:
        raise NoCertainRepairError("the step is not a method of an optimizer")
    outside = [_outside(script, call, chosen, optimizer) for call in clears]
    statement = script.statement(chosen)
    return script.with_statements(after=[(statement, f"{optimizer}.zero_grad()")], without=outside)


def _before_backward(script: Script, steps: list[cst.Call], line: int) -> str:
    """Return the source with the gradients of one of several optimizers cleared.

    Args:
        script: script with the optimizers.
        steps: all steps that follow a backward in their block.
        line: line of the step whose optimizer must be cleared.

    Raises:
        NoCertainRepairError: no single optimizer steps on the line, or the gradients of another
            optimizer are not cleared, or other code clears gradients.
    """
    chosen = only([one for one in steps if script.line(one) == line], f"step in line {line}")
    optimizer, others = _optimizer(chosen), {_optimizer(one) for one in steps}
    if len([one for one in steps if _optimizer(one) == optimizer]) > 1:
        raise NoCertainRepairError(f"{optimizer} steps in several places")
    others.discard(optimizer)
    cleared = set()
    for call in script.calls("zero_grad"):
        cleared.add(code(of) if (of := owner(call)) is not None else "")
        if not cleared <= others:
            raise NoCertainRepairError(
                f"line {script.line(call)} calls zero_grad already; decide when it must run"
            )
    if cleared != others:
        raise NoCertainRepairError("several optimizers are never cleared; decide where to do so")
    backwards = {id(script.statement(one)) for one in script.calls("backward")}
    stepping = {id(script.statement(one)) for one in steps}
    block = list(script.block(script.statement(chosen)))
    first: cst.CSTNode | None = None
    for one in reversed(block[: block.index(script.statement(chosen))]):
        if id(one) in backwards:
            first = one
        elif id(one) in stepping and first is not None:
            break
    assert first is not None  # each step has a backward before it
    return script.with_statements(before=[(first, f"{optimizer}.zero_grad()")])


def _in_closure(script: Script) -> str:
    """Return the source with gradients cleared first in the closure of the only optimizer."""
    functions = {one.name.value: one for one in script.every(cst.FunctionDef)}
    calls = [
        (of, functions[name])
        for call in script.calls("step")
        if len(call.args) == 1 and (of := owner(call)) is not None
        if (name := code(call.args[0].value)) in functions
    ]
    of, closure = only(calls, "step that gets a function of the script as its closure")
    if any(closure in script.parents(one) for one in script.calls("zero_grad")):
        raise NoCertainRepairError("the closure already calls zero_grad; decide when it must run")
    first = next(
        (
            one
            for one in closure.body.body
            if isinstance(one, cst.BaseCompoundStatement) or not _is_declaration(one)
        ),
        None,
    )
    if first is None:
        raise NoCertainRepairError("the closure is empty")
    return script.with_statements(before=[(first, f"{code(of)}.zero_grad()")])


def _is_declaration(statement: cst.CSTNode) -> bool:
    """Return whether a statement is a docstring, `nonlocal`, or `global`."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return True
    first = statement.body[0]
    text = isinstance(first, cst.Expr) and isinstance(first.value, cst.SimpleString)
    return text or isinstance(first, cst.Nonlocal | cst.Global)


def _optimizer(steps: cst.Call) -> str:
    """Return the optimizer of `opt.step()` or `scaler.step(opt)`; "" for other calls."""
    of = owner(steps)
    if len(steps.args) == 1 and of is not None and "scaler" in code(of).lower():
        return code(steps.args[0].value)
    return code(of) if of is not None and not steps.args else ""


def _outside(
    script: Script, clears: cst.Call, steps: cst.Call, optimizer: str
) -> cst.SimpleStatementLine:
    """Return the statement of a `zero_grad` that runs less often than the step.

    Raises:
        NoCertainRepairError: it is in the loop of the step, or of another optimizer.
    """
    statement = script.statement(clears)
    loops = loops_around(script, steps)
    if (
        isinstance(statement, cst.SimpleStatementLine)
        and len(script.block(statement)) > 1
        and len(script.calls("zero_grad")) == 1
        and (of := owner(clears)) is not None
        and code(of) == optimizer
        and loops
        and statement in script.block(loops[0])
    ):
        return statement
    raise NoCertainRepairError(
        f"line {script.line(clears)} already calls zero_grad; decide when it must run"
    )


def _in_backward_block(script: Script, call: cst.Call) -> bool:
    """Return whether the statements right before a step include a backward."""
    statement = script.statement(call)
    if not isinstance(statement, cst.SimpleStatementLine) or not _optimizer(call):
        return False
    if "sched" in code(call).lower():
        return False
    before = [one for one in script.block(statement) if script.line(one) < script.line(statement)]
    backwards = [script.statement(one) for one in script.calls("backward")]
    return any(one in backwards for one in before)
