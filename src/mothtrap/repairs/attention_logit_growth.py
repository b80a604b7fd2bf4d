"""Divide attention scores by the square root of the head dimension instead of multiplying them."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import (
    NoCertainRepairError,
    Script,
    code,
    function_around,
    last_name,
    line_of,
    only,
)


def repair(script: Script, finding: Finding) -> str:
    """Return the source with a division by the root.

    Only where the run saw that the scores were multiplied by the root, and the function of the
    attention multiplies by one root.
    """
    if "are multiplied by" not in finding.message:
        raise NoCertainRepairError("decide how to bring the attention scores to a usual scale")
    line = line_of(finding)
    functions = {function_around(script, node) for node in script.at(line, cst.Call)}
    products = [
        one
        for one in script.every(cst.BinaryOperation)
        if isinstance(one.operator, cst.Multiply)
        and _is_root(one.right)
        and function_around(script, one) in functions
    ]
    product = only(products, "product with a square root in the attention")
    return script.replaced(product.operator, cst.Divide())


def _is_root(node: cst.BaseExpression) -> bool:
    """Return whether an expression is `sqrt(...)` or `... ** 0.5`."""
    if isinstance(node, cst.Call):
        return last_name(node.func) == "sqrt"
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Power):
        return code(node.right) == "0.5"
    return False
