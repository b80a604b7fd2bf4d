"""Train parameters that were frozen with their random initial values."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs._weights import refuse_loaded_weights
from mothtrap.repairs.script import NoCertainRepairError, Script, code, last_name, only

ANYWHERE = True


def repair(script: Script, finding: Finding) -> str:
    """Return the source without the statement that freezes parameters.

    Only if the file loads no weights, so the frozen parameters are certainly random.
    """
    if "frozen" not in finding.message:
        raise NoCertainRepairError(
            "no optimizer has the parameters; decide which one should have them"
        )
    refuse_loaded_weights(script)
    freezing = [
        one
        for one in script.every(cst.SimpleStatementLine)
        if len(one.body) == 1 and _freezes(one.body[0])
    ]
    statement: cst.CSTNode = only(freezing, "statement that freezes parameters")
    while len(script.block(statement)) == 1:
        compound = cst.BaseCompoundStatement
        above = next((one for one in script.parents(statement) if isinstance(one, compound)), None)
        if not isinstance(above, cst.For | cst.If) or getattr(above, "orelse", None):
            raise NoCertainRepairError("a function freezes the parameters; decide what calls it")
        statement = above
    return script.with_statements(without=[statement])


def _freezes(small: cst.BaseSmallStatement) -> bool:
    """Return whether a statement sets `requires_grad` to False."""
    if isinstance(small, cst.Assign):
        targets = [code(one.target) for one in small.targets]
        return (
            all(one.endswith(".requires_grad") for one in targets) and code(small.value) == "False"
        )
    call = small.value if isinstance(small, cst.Expr) else None
    return (
        isinstance(call, cst.Call)
        and last_name(call.func) == "requires_grad_"
        and [code(one.value) for one in call.args] == ["False"]
    )
