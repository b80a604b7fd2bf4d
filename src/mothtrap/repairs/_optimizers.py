"""Arguments of the optimizer that a finding names."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs._schedules import is_schedule
from mothtrap.repairs.script import (
    NoCertainRepairError,
    Script,
    assigned,
    code,
    keyword,
    last_name,
    line_of,
    only,
    without_argument,
)

USUAL_RATES = {
    **dict.fromkeys(("Adam", "AdamW", "NAdam", "Adamax", "RAdam", "RMSprop"), 1e-3),
    **dict.fromkeys(("SGD", "Adagrad"), 1e-2),
    "Adadelta": 1.0,
}
"""Usual rate of an optimizer: PyTorch's default, for SGD the rate of the PyTorch tutorials with
momentum, and for RMSprop the default of Keras."""


def optimizer_of(script: Script, finding: Finding) -> cst.Call:
    """Return the call that creates the optimizer of a finding.

    Raises:
        NoCertainRepairError: the line creates no optimizer, or several.
    """
    line = line_of(finding)
    name = str(finding.evidence.get("optimizer") or "").partition(" ")[0]
    made = [
        one
        for one in script.at(line, cst.Call)
        if (last_name(one.func) == name if name else "param" in code(one))
    ]
    return only(made, f"optimizer in line {line}")


def without_keyword(script: Script, finding: Finding, name: str, default: str) -> str:
    """Return the source with an argument of the optimizer left at its default.

    A number in the line of the optimizer is removed. A command-line option gets the default.

    Args:
        script: script that creates the optimizer.
        finding: finding with the line of the optimizer.
        name: name of the argument.
        default: default that the optimizer has for it.

    Raises:
        NoCertainRepairError: the argument is not a number.
    """
    optimizer = optimizer_of(script, finding)
    given = keyword(optimizer, name)
    value = given.value if given is not None else None
    if isinstance(value, cst.Attribute):
        number = _default(script, value.attr.value)
        if is_number(number):
            return script.replaced(number, cst.parse_expression(default))
    if given is None or not is_number(given.value):
        raise NoCertainRepairError(f"`{name}` is not a number in the line of the optimizer")
    return script.replaced(optimizer, without_argument(optimizer, given))


def usual_rate(finding: Finding) -> float:
    """Return the usual learning rate of the optimizer of a finding.

    Raises:
        NoCertainRepairError: the finding names no optimizer with a usual rate.
    """
    name = str(finding.evidence.get("optimizer") or "").partition(" ")[0]
    if name not in USUAL_RATES:
        raise NoCertainRepairError(f"{name} has no usual learning rate")
    return USUAL_RATES[name]


def written_rate(script: Script, finding: Finding, now: object) -> tuple[cst.BaseExpression, float]:
    """Return the number used as an optimizer's learning rate in the script, and its value.

    Args:
        script: script that creates the optimizer, or sets a learning rate for it.
        finding: finding with the line of the optimizer; without a line, only settings are used.
        now: learning rate at the step of the finding. A schedule may have lowered it.

    Raises:
        NoCertainRepairError: the rate is not a number that only this optimizer uses.
    """
    if not line_of(finding):
        setting = only(_settings(script, now), "setting of this learning rate")
        return setting, float(code(setting))
    optimizer = optimizer_of(script, finding)
    given = keyword(optimizer, "lr")
    value = given.value if given is not None else _second(optimizer)
    if isinstance(value, cst.Name | cst.Attribute) and len(_settings(script, now)) == 1:
        value = _settings(script, now)[0]
    elif isinstance(value, cst.Name):
        value = _assigned_once(script, value.value)
    elif isinstance(value, cst.Attribute):
        value = _default(script, value.attr.value)
    if not is_number(value) or not isinstance(now, int | float):
        raise NoCertainRepairError("the learning rate is not a number in the line of the optimizer")
    written = float(code(value))
    lowered = 0 < now < written and any(is_schedule(one) for one in script.every(cst.Call))
    if abs(written - now) > 1e-6 * abs(now) and not lowered:
        raise NoCertainRepairError(f"the learning rate was {now:g} at the step of the finding")
    return value, written


def with_rate(script: Script, number: cst.BaseExpression, rate: float) -> str:
    """Return the source with a different learning rate."""
    return script.replaced(number, cst.parse_expression(f"{rate:g}"))


def with_usual_momentum(script: Script) -> str | None:
    """Return the source with the usual momentum if the only SGD has 1 or more, else None.

    With such a momentum, the influence of gradients never decays, so every training run diverges.
    """
    found = [
        given.value
        for call in script.calls("SGD")
        if (given := keyword(call, "momentum")) is not None
        and is_number(given.value)
        and float(code(given.value)) >= 1
    ]
    return script.replaced(found[0], cst.Float("0.9")) if len(found) == 1 else None


def named_rates(script: Script) -> list[cst.BaseExpression]:
    """Return the numbers that the script assigns to a learning rate, by name."""
    numbers = (*script.every(cst.Float), *script.every(cst.Integer))
    return [one for one in numbers if _is_named_rate(next(script.parents(one)))]


def _settings(script: Script, rate: object) -> list[cst.BaseExpression]:
    """Return the numbers with this value that the script assigns to a learning rate by name."""
    if not isinstance(rate, int | float):
        return []
    return [one for one in named_rates(script) if abs(float(code(one)) - rate) <= 1e-6 * abs(rate)]


def _is_named_rate(parent: cst.CSTNode) -> bool:
    """Return whether an assignment, an argument, or an entry of a table names a learning rate."""
    if isinstance(parent, cst.Assign):
        name = last_name(parent.targets[-1].target)
    elif isinstance(parent, cst.AnnAssign):
        name = last_name(parent.target)
    elif isinstance(parent, cst.Param):
        name = parent.name.value
    elif isinstance(parent, cst.Arg) and parent.keyword is not None:
        name = parent.keyword.value
    elif isinstance(parent, cst.DictElement):
        name = code(parent.key).strip("\"'")
    else:
        return False
    return name.lower().endswith(("lr", "learning_rate", "learningrate"))


def _assigned_once(script: Script, name: str) -> cst.BaseExpression:
    """Return the value of a variable that is assigned once, and used only here."""
    made = only(assigned(script, name), f"assignment of {name}")
    if len([one for one in script.every(cst.Name) if one.value == name]) != 2:
        raise NoCertainRepairError(f"`{name}` is used in several places")
    return made.value


def _default(script: Script, name: str) -> cst.BaseExpression:
    """Return the default of a command-line argument: of `--lr` for `args.lr`."""
    options = [
        one
        for one in script.calls("add_argument")
        if any(code(arg.value).strip("\"'") == f"--{name.replace('_', '-')}" for arg in one.args)
    ]
    given = keyword(only(options, f"argument --{name}"), "default")
    if given is None:
        raise NoCertainRepairError(f"--{name} has no default")
    return given.value


def _second(call: cst.Call) -> cst.BaseExpression:
    positional = [one.value for one in call.args if one.keyword is None and not one.star]
    if len(positional) < 2:
        raise NoCertainRepairError("the optimizer is created without a learning rate")
    return positional[1]


def is_number(node: cst.BaseExpression) -> bool:
    """Return whether an expression is an unsigned number."""
    return isinstance(node, cst.Float | cst.Integer)
