"""Keep the default initialization of the weights."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import NoCertainRepairError, Script, code, last_name, only

ANYWHERE = True

_FILLS = ("zeros_", "ones_", "constant_", "fill_", "zero_")


def repair(script: Script, finding: Finding) -> str:  # noqa: ARG001  # one form for all
    """Return the source without the statement that fills weights with a constant.

    Only if one statement of the file does this. A loop without other statements is removed, too.
    """
    calls = [one for one in script.every(cst.Call) if last_name(one.func) in _FILLS]
    weights = [one for one in calls if "bias" not in code(one) and "grad" not in code(one)]
    statement: cst.CSTNode = script.statement(only(weights, "constant initialization of weights"))
    while len(script.block(statement)) == 1:
        above = _block_of(script, statement)
        if not isinstance(above, cst.For | cst.If | cst.With) or getattr(above, "orelse", None):
            raise NoCertainRepairError("decide what initializes the weights instead")
        statement = above
    return script.with_statements(without=[statement])


def _block_of(script: Script, statement: cst.CSTNode) -> cst.CSTNode | None:
    """Return the compound statement whose block a statement is in."""
    compound = cst.BaseCompoundStatement
    return next((one for one in script.parents(statement) if isinstance(one, compound)), None)
