"""Set a model to evaluation mode before it is evaluated."""

from __future__ import annotations

from typing import TypeGuard

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import (
    NoCertainRepairError,
    Script,
    code,
    function_around,
    line_of,
    loops_around,
)

_Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement
_NO_GRADIENT = ("no_grad", "inference_mode")


def repair(script: Script, finding: Finding) -> str:
    """Return the source with `model.eval()` before the evaluation, and `model.train()` after it.

    Only if a `with torch.no_grad()` block encloses the call to the model, or its function is
    decorated with it or does not train, and nothing sets the model to evaluation mode. No
    `model.train()` is added after it if the training sets this mode itself, in its loop or at the
    start of its function, or if no training follows.
    """
    line = line_of(finding)
    for call in script.calls("eval"):
        raise NoCertainRepairError(
            f"line {script.line(call)} already calls eval(); decide which evaluation it is for"
        )
    model = _model(script, line)
    place, returns = _evaluation(script, line)
    trains = [one for one in script.calls("train") if code(one.func) == f"{model}.train"]
    again = any(loops_around(script, one) or _begins_training(script, one) for one in trains)
    if again or _is_last(script, place):
        return script.with_statements(before=[(place, f"{model}.eval()")])
    if not loops_around(script, place) or returns:
        raise NoCertainRepairError(f"decide where {model}.train() must follow the evaluation")
    return script.with_statements(
        before=[(place, f"{model}.eval()")], after=[(place, f"{model}.train()")]
    )


def _evaluation(script: Script, line: int) -> tuple[_Statement, bool]:
    """Return the statement before which to insert `eval()`, and whether the function returns there.

    Raises:
        NoCertainRepairError: gradients are not switched off around the line, and it is not in a
            function that does not train.
    """
    blocks = [one for one in script.at(line, cst.With) if _stops_gradients(one)]
    if blocks:
        return blocks[0], _returns(blocks[0])
    functions = script.at(line, cst.FunctionDef)
    for function in functions:
        names = [code(one.decorator).partition("(")[0] for one in function.decorators]
        first = next(iter(function.body.body))
        if any(one.rpartition(".")[2] in _NO_GRADIENT for one in names) and _is_statement(first):
            return first, True
    for function in functions[-1:]:
        trains = any(function in script.parents(one) for one in script.calls("backward"))
        inside = [
            one
            for one in function.body.body
            if _is_statement(one) and script.line(one) <= line <= script.lines(one).end.line
        ]
        if not trains and function.name.value != "forward" and inside:
            return inside[0], True
    raise NoCertainRepairError("the evaluation is not in a `with torch.no_grad()` block")


def _is_statement(node: cst.CSTNode) -> TypeGuard[_Statement]:
    return isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement)


def _is_last(script: Script, block: _Statement) -> bool:
    """Return whether an evaluation at the top level of the script follows all of the training."""
    if function_around(script, block) or loops_around(script, block):
        return False
    backwards = script.calls("backward")
    return bool(backwards) and all(
        function_around(script, one) is None and script.line(one) < script.line(block)
        for one in backwards
    )


def _begins_training(script: Script, call: cst.Call) -> bool:
    """Return whether a function sets training mode and then runs backward, as `train(...)` does."""
    function = function_around(script, call)
    return function is not None and any(
        function_around(script, step) is function and script.line(step) > script.line(call)
        for step in script.calls("backward")
    )


def _model(script: Script, line: int) -> str:
    """Return the variable of the model that a line calls."""
    assigned = {
        code(target.target)
        for one in script.every(cst.Assign)
        for target in one.targets
        if isinstance(target.target, cst.Name)
    }
    assigned |= {one.name.value for one in script.every(cst.Param)}
    functions = {one.name.value for one in script.every(cst.FunctionDef)}
    called = [call for call in script.at(line, cst.Call) if isinstance(call.func, cst.Name)]
    owners = {
        code(one.func.value)
        for one in script.every(cst.Call)
        if isinstance(one.func, cst.Attribute) and one.func.attr.value == "parameters"
    }
    names = {code(call.func) for call in called} & assigned - functions
    names = {one for one in names if one in owners} or names
    if len(names) != 1:
        raise NoCertainRepairError(f"line {line} does not call one model by its name")
    return names.pop()


def _stops_gradients(block: cst.With) -> bool:
    return any(
        isinstance(item.item, cst.Call) and code(item.item.func).rpartition(".")[2] in _NO_GRADIENT
        for item in block.items
    )


def _returns(block: cst.With) -> bool:
    return " return " in f" {cst.Module([]).code_for_node(block)} ".replace("\n", " ")
