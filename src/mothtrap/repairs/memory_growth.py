"""Keep the value of a loss instead of the loss with its graph."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import NoCertainRepairError, Script, code, last_name, only, owner


def repair(script: Script, finding: Finding) -> str:
    """Return the source with `loss.item()` where the loss is summed or appended.

    Only if backward is not called on the sum or on elements of the list.
    """
    if "losses are all still in memory" not in finding.message:
        raise NoCertainRepairError("the finding does not say which tensors are kept")
    losses = {code(of) for one in script.calls("backward") if (of := owner(one)) is not None}
    added = [
        (one.target, one.value)
        for one in script.every(cst.AugAssign)
        if isinstance(one.operator, cst.AddAssign) and code(one.value) in losses
    ]
    appended = [
        (one.func.value, one.args[0].value)
        for one in script.every(cst.Call)
        if isinstance(one.func, cst.Attribute)
        and last_name(one.func) == "append"
        and len(one.args) == 1
        and code(one.args[0].value) in losses
    ]
    kept, loss = only([*added, *appended], "place that keeps the loss")
    if code(kept) in losses:
        raise NoCertainRepairError(f"{code(kept)} runs backward itself, so it needs its graph")
    return script.replaced(loss, cst.parse_expression(f"{code(loss)}.item()"))
