"""Models of a script, and the optimizers of their parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from mothtrap.repairs.script import Script, code, last_name, only

_CALLED = re.compile(r"opt(?:im(?:izer)?)?", re.IGNORECASE)


def optimizers(script: Script) -> list[tuple[cst.SimpleStatementLine, str]]:
    """Return the statements that create optimizers for the parameters of one variable."""
    found = []
    for call in script.calls("parameters"):
        statement = script.statement(call)
        of = call.func.value if isinstance(call.func, cst.Attribute) else None
        if isinstance(statement, cst.SimpleStatementLine) and isinstance(of, cst.Name):
            outer = [one for one in script.parents(call) if isinstance(one, cst.Call)]
            if len(outer) == 1 and last_name(outer[0].func)[:1].isupper():
                found.append((statement, of.value))
    return found


def with_other_model(script: Script, line: int) -> str:
    """Return the source in which the optimizer gets the parameters of the model defined at a line.

    If there are several optimizers, the optimizer that is named after this model, but has another
    model's parameters, is changed.

    Args:
        script: script that creates the models and their optimizers.
        line: line in the class of the model that no optimizer has.

    Raises:
        NoCertainRepairError: there is no single matching model, or no single matching optimizer.
    """
    classes = {one.name.value for one in script.at(line, cst.ClassDef)}
    models = {
        one.targets[0].target.value
        for one in script.every(cst.Assign)
        if isinstance(one.targets[0].target, cst.Name)
        and any(last_name(call.func) in classes for call in _calls_along(one.value))
    }
    made = optimizers(script)
    model = only(sorted(models - {of for _, of in made}), "untrained model")
    if len(made) > 1:
        made = [one for one in made if _is_named_for(one[0], model, one[1])]
    statement, of = only(made, f"optimizer that is named for `{model}`")
    calls = [one for one in script.calls("parameters") if script.statement(one) is statement]
    call = only(calls, "call to parameters()")
    return script.replaced(call, cst.parse_expression(code(call).replace(of, model, 1)))


def _calls_along(value: cst.BaseExpression) -> Iterator[cst.Call]:
    """Yield the calls of a chain: `Net()` and `Net().to(device)` for the latter."""
    while isinstance(value, cst.Call):
        yield value
        value = value.func.value if isinstance(value.func, cst.Attribute) else value.func


def _is_named_for(statement: cst.SimpleStatementLine, model: str, own: str) -> bool:
    """Return whether an optimizer is named after a model other than its own, e.g. `opt_d`."""
    small = statement.body[0]
    name = code(small.targets[0].target) if isinstance(small, cst.Assign) else ""
    part = _CALLED.sub("", name).strip("_").lower()
    named = [bool(part) and _is_part(part, one.lower()) for one in (model, own)]
    return named == [True, False]


def _is_part(part: str, name: str) -> bool:
    return name.startswith(part) or name.endswith(part)
