"""Make an optimizer after the model that it trains, or with the parameters of this model."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import (
    Script,
    code,
    last_name,
    line_of,
    only,
)

_CALLED = re.compile(r"opt(?:im(?:izer)?)?", re.IGNORECASE)


def repair(script: Script, finding: Finding) -> str:
    """Return the source with the optimizer made after the last assignment of its model.

    Only where model, optimizer, and the second model are made in one block, and the optimizer is
    not used in between. If no model is replaced, the optimizer gets the parameters of the only
    model of the class that the finding names.
    """
    found = [pair for one in _optimizers(script) if (pair := _stale(script, *one)) is not None]
    if not found:
        return _of_other_model(script, line_of(finding))
    made, last = only(found, "optimizer created before its model is replaced")
    return script.with_statements(after=[(last, code(made))], without=[made])


def _of_other_model(script: Script, line: int) -> str:
    """Return the source with the parameters of the model whose class has a line.

    Of several optimizers, the one that is named for this model, and not for its own, is changed.
    """
    classes = {one.name.value for one in script.at(line, cst.ClassDef)}
    models = {
        one.targets[0].target.value
        for one in script.every(cst.Assign)
        if isinstance(one.targets[0].target, cst.Name)
        and any(last_name(call.func) in classes for call in _calls_along(one.value))
    }
    made = _optimizers(script)
    model = only(sorted(models - {of for _, of in made}), "untrained model")
    if len(made) > 1:
        made = [one for one in made if _is_named_for(one[0], model, one[1])]
    statement, of = only(made, f"optimizer that is named for `{model}`")
    calls = [one for one in script.calls("parameters") if script.statement(one) is statement]
    call = only(calls, "call of parameters()")
    return script.replaced(call, cst.parse_expression(code(call).replace(of, model, 1)))


def _calls_along(value: cst.BaseExpression) -> Iterator[cst.Call]:
    """Yield the calls of a chain: `Net()` and `Net().to(device)` of the latter."""
    while isinstance(value, cst.Call):
        yield value
        value = value.func.value if isinstance(value.func, cst.Attribute) else value.func


def _is_named_for(statement: cst.SimpleStatementLine, model: str, own: str) -> bool:
    """Return whether the variable of an optimizer has a part of one name, but not of the other."""
    small = statement.body[0]
    name = code(small.targets[0].target) if isinstance(small, cst.Assign) else ""
    part = _CALLED.sub("", name).strip("_").lower()
    named = [bool(part) and _is_part(part, one.lower()) for one in (model, own)]
    return named == [True, False]


def _is_part(part: str, name: str) -> bool:
    return name.startswith(part) or name.endswith(part)


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
