"""Make an optimizer after the model that it trains."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import NoCertainRepairError, Script, code, last_name


def repair(script: Script, finding: Finding) -> str:  # noqa: ARG001  # one form for all
    """Return the source with the optimizer made after the last assignment of its model.

    Only where model, optimizer, and the second model are made in one block, and the optimizer is
    not used in between.
    """
    found = [pair for one in _optimizers(script) if (pair := _stale(script, *one)) is not None]
    if len(found) != 1:
        raise NoCertainRepairError("no single optimizer is created before its model is replaced")
    made, last = found[0]
    return script.with_statements(after=[(last, code(made))], without=[made])


def _optimizers(script: Script) -> list[tuple[cst.SimpleStatementLine, str]]:
    """Return the statements that make optimizers of the parameters of one variable."""
    found = []
    for call in script.calls("parameters"):
        statement = script.statement(call)
        of = call.func.value if isinstance(call.func, cst.Attribute) else None
        if isinstance(statement, cst.SimpleStatementLine) and isinstance(of, cst.Name):
            outer = [one for one in script.parents(call) if isinstance(one, cst.Call)]
            if len(outer) == 1 and last_name(outer[0].func)[:1].isupper():
                found.append((statement, of.value))
    return found


def _stale(
    script: Script, made: cst.SimpleStatementLine, model: str
) -> tuple[cst.SimpleStatementLine, cst.SimpleStatementLine] | None:
    block = list(script.block(made))
    if made not in block or len(made.body) != 1 or not isinstance(made.body[0], cst.Assign):
        return None
    name = code(made.body[0].targets[0].target)
    at = block.index(made)
    again = [one for one in block[at + 1 :] if _assigns(one, model)]
    if not again or not any(_assigns(one, model) for one in block[:at]):
        return None
    last = again[-1]
    between = block[at + 1 : block.index(last) + 1]
    used = any(name in code(one).replace(".", " ").replace("(", " ").split() for one in between)
    if used or not isinstance(last, cst.SimpleStatementLine):
        return None
    return made, last


def _assigns(statement: cst.CSTNode, name: str) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and any(
        isinstance(one, cst.Assign) and any(code(t.target) == name for t in one.targets)
        for one in statement.body
    )
