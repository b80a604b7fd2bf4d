"""Remove a factor that makes the loss, and therefore all gradients, almost 0."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs._optimizers import is_number
from mothtrap.repairs.script import NoCertainRepairError, Script, code, last_name, names_in, only

ANYWHERE = True

TINY = 1e-4
"""Largest factor that counts as the fault. Chosen by hand, below usual weights of loss terms."""
_WORDS = ("loss", "criterion", "cross_entropy", "nll", "mse", "bce")


def repair(script: Script, finding: Finding) -> str:
    """Return the source without the factor that makes the gradients small.

    Only if the gradients of all layers are small, and one number of at most `TINY` multiplies a
    loss, or a number of at least 1 / `TINY` divides it.
    """
    if "mean absolute gradient of" not in finding.message:
        raise NoCertainRepairError("the gradient vanishes in the model; decide how to change it")
    found = [
        (one, loss)
        for one in script.every(cst.BinaryOperation)
        if (loss := _scaled(one)) is not None and _is_loss(loss)
    ]
    whole, loss = only(found, "tiny factor in a loss")
    statement = script.statement(whole)
    if isinstance(statement, cst.SimpleStatementLine) and len(script.block(statement)) > 1:
        small = statement.body[0]
        if (
            len(statement.body) == 1
            and isinstance(small, cst.Assign)
            and small.value is whole
            and code(small.targets[0].target) == code(loss)
        ):
            return script.with_statements(without=[statement])
    return script.replaced(whole, loss)


def _scaled(one: cst.BinaryOperation) -> cst.BaseExpression | None:
    """Return the operand that a tiny number multiplies, or a huge number divides."""
    if isinstance(one.operator, cst.Multiply):
        for number, other in ((one.right, one.left), (one.left, one.right)):
            if is_number(number) and 0 < float(code(number)) <= TINY:
                return other
    divides = isinstance(one.operator, cst.Divide) and is_number(one.right)
    return one.left if divides and float(code(one.right)) >= 1 / TINY else None


def _is_loss(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Call):
        names = {last_name(node.func)}
    else:
        names = names_in(node) if isinstance(node, cst.Name | cst.Attribute) else set()
    return any(word in name.lower() for name in names for word in _WORDS)
