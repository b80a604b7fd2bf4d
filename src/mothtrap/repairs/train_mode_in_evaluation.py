"""Set a model to evaluation mode before it is evaluated."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import NoCertainRepairError, Script, code, line_of, loops_around

_NO_GRADIENT = ("no_grad", "inference_mode")


def repair(script: Script, finding: Finding) -> str:
    """Return the source with `model.eval()` before the evaluation, and `model.train()` after it.

    Only where a `with torch.no_grad()` block in the same function encloses the call of the model,
    and nothing sets the model to evaluation mode. There is no `model.train()` after it where the
    training sets this mode itself, in its loop or at the start of its function.
    """
    line = line_of(finding)
    for call in script.calls("eval"):
        raise NoCertainRepairError(
            f"line {script.line(call)} calls eval() already; decide which evaluation it is for"
        )
    blocks = [one for one in script.at(line, cst.With) if _stops_gradients(one)]
    if not blocks:
        raise NoCertainRepairError("the evaluation is not in a `with torch.no_grad()` block")
    model = _model(script, line)
    block = blocks[0]
    loops = loops_around(script, block)
    trains = [one for one in script.calls("train") if code(one.func) == f"{model}.train"]
    again = any(loops_around(script, one) or _begins_training(script, one) for one in trains)
    if not again and (not loops or _returns(block)):
        raise NoCertainRepairError(f"decide where {model}.train() must follow the evaluation")
    after = [] if again else [(block, f"{model}.train()")]
    return script.with_statements(before=[(block, f"{model}.eval()")], after=after)


def _begins_training(script: Script, call: cst.Call) -> bool:
    """Return whether a function sets training mode and then runs backward, as `train(...)` does."""
    function = _function(script, call)
    return function is not None and any(
        _function(script, step) is function and script.line(step) > script.line(call)
        for step in script.calls("backward")
    )


def _function(script: Script, node: cst.CSTNode) -> cst.FunctionDef | None:
    return next((one for one in script.parents(node) if isinstance(one, cst.FunctionDef)), None)


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
