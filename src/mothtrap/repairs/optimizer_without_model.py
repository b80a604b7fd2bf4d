"""Create an optimizer after the model that it trains, or with the parameters of this model."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs._models import optimizers, with_other_model
from mothtrap.repairs.script import (
    Script,
    code,
    line_of,
    only,
)


def repair(script: Script, finding: Finding) -> str:
    """Return the source with the optimizer created after the last assignment of its model.

    Only if model, optimizer, and the second model are created in one block, and the optimizer is
    not used in between. If no model is replaced, the optimizer gets the parameters of the only
    model of the class that the finding names.
    """
    found = [pair for one in optimizers(script) if (pair := _stale(script, *one)) is not None]
    if not found:
        return with_other_model(script, line_of(finding))
    made, last = only(found, "optimizer created before its model is replaced")
    return script.with_statements(after=[(last, code(made))], without=[made])


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
