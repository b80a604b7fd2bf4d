"""Initialize weights with a usual standard deviation."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs._optimizers import is_number
from mothtrap.repairs.script import NoCertainRepairError, Script, code, keyword, last_name, only

ANYWHERE = True

USUAL = "0.02"
"""Standard deviation of the weights of GPT-2, BERT, and DCGAN."""
LARGE = 0.5
SMALL = 1e-4
"""Standard deviations from which the number itself is the fault. Chosen by hand: 25 and 1/200 times
the usual standard deviation.
"""


def repair(script: Script, finding: Finding) -> str:
    """Return the source with the usual standard deviation, or without a factor of the weights.

    Only if the weights are far too large or too small, and one line of the file draws weights with
    a standard deviation of at least `LARGE` or at most `SMALL`, or multiplies them.
    """
    if "root mean square" not in finding.message and "so small" not in finding.message:
        raise NoCertainRepairError("decide how to initialize the weights")
    is_large = "root mean square" in finding.message
    deviations = [
        deviation
        for call in script.every(cst.Call)
        if last_name(call.func) in ("normal_", "trunc_normal_")
        and "bias" not in code(call)
        and (deviation := _deviation(call)) is not None
        and (float(code(deviation)) >= LARGE if is_large else float(code(deviation)) <= SMALL)
    ]
    factors = [one for one in script.every(cst.SimpleStatementLine) if _multiplies_weights(one)]
    found = only([*deviations, *factors], "line that sets the scale of the weights")
    if isinstance(found, cst.SimpleStatementLine):
        if len(script.block(found)) < 2:
            raise NoCertainRepairError("the line is the only one in its block")
        return script.with_statements(without=[found])
    return script.replaced(found, cst.Float(USUAL))


def _deviation(call: cst.Call) -> cst.BaseExpression | None:
    """Return the standard deviation that is passed to a call as a number."""
    given = keyword(call, "std")
    numbers = [one.value for one in call.args if one.keyword is None and is_number(one.value)]
    value = given.value if given is not None else next(iter(numbers[1:2]), None)
    return value if value is not None and is_number(value) else None


def _multiplies_weights(statement: cst.SimpleStatementLine) -> bool:
    """Return whether a statement is `layer.weight.data *= 10` or `layer.weight.data.mul_(10)`."""
    small = statement.body[0]
    if len(statement.body) != 1:
        return False
    if isinstance(small, cst.AugAssign) and isinstance(small.operator, cst.MultiplyAssign):
        return _is_weight(small.target) and is_number(small.value)
    call = small.value if isinstance(small, cst.Expr) else None
    return (
        isinstance(call, cst.Call)
        and isinstance(call.func, cst.Attribute)
        and call.func.attr.value == "mul_"
        and _is_weight(call.func.value)
        and all(is_number(one.value) for one in call.args)
    )


def _is_weight(node: cst.BaseExpression) -> bool:
    return code(node).removesuffix(".data").endswith("weight")
