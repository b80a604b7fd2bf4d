"""Use the default rate for a dropout layer that drops nearly all values."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs._optimizers import is_number
from mothtrap.repairs.script import NoCertainRepairError, Script, code, only

ANYWHERE = True

DEFAULT = "0.5"
"""Default of `torch.nn.Dropout`."""


def repair(script: Script, finding: Finding) -> str:
    """Return the source with the default rate instead of the rate that the run had.

    Only if one number of the file has this value and, by its name, belongs to a dropout.
    """
    rate = finding.evidence.get("value")
    if not isinstance(rate, int | float):
        raise NoCertainRepairError("the finding does not give the rate of the dropout")
    numbers = [
        one
        for one in (*script.every(cst.Float), *script.every(cst.Integer))
        if is_number(one) and abs(float(code(one)) - rate) < 1e-9 and _is_of_dropout(script, one)
    ]
    return script.replaced(only(numbers, "dropout of this rate"), cst.Float(DEFAULT))


def _is_of_dropout(script: Script, number: cst.CSTNode) -> bool:
    """Return whether a call, a keyword, a parameter, or a variable gives a number to a dropout."""
    for one in script.parents(number):
        if isinstance(one, cst.Arg) and one.keyword is not None:
            if "drop" in one.keyword.value.lower():
                return True
        elif isinstance(one, cst.Param):
            return "drop" in one.name.value.lower()
        elif isinstance(one, cst.Call):
            return "drop" in code(one.func).lower() or _is_option(one)
        elif isinstance(one, cst.Assign):
            return any("drop" in code(target.target).lower() for target in one.targets)
        elif isinstance(one, cst.BinaryOperation | cst.Comparison | cst.BaseStatement):
            return False
    return False


def _is_option(call: cst.Call) -> bool:
    """Return whether a call defines a command-line option of a dropout."""
    named = call.args and "drop" in code(call.args[0].value).lower()
    return bool(named) and code(call.func).endswith("add_argument")
