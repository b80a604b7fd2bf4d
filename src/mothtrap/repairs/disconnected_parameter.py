"""Let the gradient pass: remove a `detach()` or `no_grad()` before the loss."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding, Severity
from mothtrap.repairs._weights import refuse_loaded_weights
from mothtrap.repairs.script import (
    NoCertainRepairError,
    Script,
    code,
    last_name,
    line_of,
    only,
    without_with,
)

ANYWHERE = True


def repair(script: Script, finding: Finding) -> str:
    """Return the source without the call that cuts the graph.

    Only where the parameters still have their random initial values, or the file loads no weights:
    a pretrained part may be frozen on purpose.
    """
    cause = finding.evidence.get("cause")
    if cause == "upstream":
        return _without_detach(script, _in_forwards(script))
    if finding.severity is not Severity.ERROR:
        raise NoCertainRepairError("decide whether this part of the model is frozen on purpose")
    if cause == "detached":
        line = line_of(finding)
        calls = script.at(line, cst.Call)
        return _without_detach(script, [one for one in calls if last_name(one.func) == "detach"])
    if cause == "without graph":
        return _without_no_grad(script, [name.partition(".")[0] for name in finding.layers])
    raise NoCertainRepairError("the finding does not name the line that leaves the graph")


def _in_forwards(script: Script) -> list[cst.Call]:
    """Return the calls of `detach` in methods `forward` of a file that loads no weights."""
    refuse_loaded_weights(script)
    return [one for one in script.calls("detach") if _is_in_forward(script, one)]


def _without_detach(script: Script, calls: list[cst.Call]) -> str:
    """Return the source without the only call of `detach`."""
    call = only(calls, "call of detach() before the loss")
    assert isinstance(call.func, cst.Attribute)
    tensor = call.func.value
    statement = script.statement(call)
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        whole = statement.body[0]
        alone = isinstance(whole, cst.Assign) and whole.value is call
        if (
            alone
            and isinstance(whole, cst.Assign)
            and [code(t.target) for t in whole.targets] == [code(tensor)]
            and len(script.block(statement)) > 1
        ):
            return script.with_statements(without=[statement])
    return script.replaced(call, tensor)


def _without_no_grad(script: Script, parts: list[str]) -> str:
    """Return the source without the `no_grad` block of a `forward` that calls these parts."""
    blocks = [
        one
        for one in script.every(cst.With)
        if len(one.items) == 1
        and "no_grad" in code(one.items[0].item)
        and any(f"self.{part}(" in script.module.code_for_node(one) for part in parts)
        and _is_in_forward(script, one)
    ]
    return without_with(script, only(blocks, "`with torch.no_grad()` around the part"))


def _is_in_forward(script: Script, node: cst.CSTNode) -> bool:
    functions = [one for one in script.parents(node) if isinstance(one, cst.FunctionDef)]
    return bool(functions) and functions[0].name.value == "forward"
