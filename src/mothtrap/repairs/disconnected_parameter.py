"""Let the gradient flow: remove a `detach()`, `.data`, or `no_grad()` before the loss."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from mothtrap.core.findings import Finding, Severity
from mothtrap.repairs._weights import refuse_loaded_weights
from mothtrap.repairs.script import (
    NoCertainRepairError,
    Script,
    code,
    line_of,
    only,
    owner,
    without_with,
)

ANYWHERE = True


def repair(script: Script, finding: Finding) -> str:
    """Return the source without the call that cuts the graph.

    Only if the parameters still have their random initial values, or the file loads no weights: a
    pretrained part may be frozen on purpose.
    """
    cause = finding.evidence.get("cause")
    if cause == "upstream":
        return _without_cut(script, _in_forwards(script))
    if finding.severity is not Severity.ERROR:
        raise NoCertainRepairError("decide whether this part of the model is frozen on purpose")
    if cause == "detached":
        line = line_of(finding)
        here = [*script.at(line, cst.Call), *script.at(line, cst.Attribute)]
        cuts = [one for one in _cuts(script) if one in here]
        return _without_cut(script, cuts or _in_forwards(script))
    if cause == "without graph":
        return _without_no_grad(script, [name.partition(".")[0] for name in finding.layers])
    raise NoCertainRepairError("the finding does not name the line that leaves the graph")


def _cuts(script: Script) -> list[cst.Call | cst.Attribute]:
    """Return the expressions `x.detach()` and `x.data` of a file."""
    called = [one for one in script.calls("detach") if owner(one) is not None and not one.args]
    read = [
        one
        for one in script.every(cst.Attribute)
        if one.attr.value == "data"
        and not isinstance(next(script.parents(one)), cst.AssignTarget | cst.Attribute)
    ]
    return [*called, *read]


def _in_forwards(script: Script) -> list[cst.Call | cst.Attribute]:
    """Return the cuts in `forward` methods of a file that loads no weights."""
    refuse_loaded_weights(script)
    return [one for one in _cuts(script) if _is_in_forward(script, one)]


def _without_cut(script: Script, cuts: Sequence[cst.Call | cst.Attribute]) -> str:
    """Return the source without the only `detach()` or `data`."""
    cut = only(cuts, "`detach()` or `.data` before the loss")
    tensor = owner(cut) if isinstance(cut, cst.Call) else cut.value
    assert tensor is not None
    statement = script.statement(cut)
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        whole = statement.body[0]
        if (
            isinstance(whole, cst.Assign)
            and whole.value is cut
            and [code(t.target) for t in whole.targets] == [code(tensor)]
            and len(script.block(statement)) > 1
        ):
            return script.with_statements(without=[statement])
    return script.replaced(cut, tensor)


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
