"""Divide attention scores by the square root of the head dimension instead of multiplying them."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import NoCertainRepairError, Script, code, last_name, only

ANYWHERE = True

_PRODUCTS = ("baddbmm", "bmm", "einsum", "matmul", "mm")


def repair(script: Script, finding: Finding) -> str:
    """Return the source with a division by the root.

    Only if the run showed that the scores were multiplied by the root, and one line of the file
    multiplies a product of matrices by a root.
    """
    if "are multiplied by" not in finding.message:
        raise NoCertainRepairError("decide how to bring the attention scores to a usual scale")
    products = [
        one
        for one in script.every(cst.BinaryOperation)
        if isinstance(one.operator, cst.Multiply) and _is_root(one.right) and _is_product(one.left)
    ]
    product = only(products, "product of matrices that is multiplied by a square root")
    return script.replaced(product.operator, cst.Divide())


def _is_product(node: cst.BaseExpression) -> bool:
    """Return whether an expression is `matmul(q, k)`, `q @ k`, or a variable of scores."""
    if isinstance(node, cst.Call):
        return last_name(node.func) in _PRODUCTS
    if isinstance(node, cst.BinaryOperation):
        return isinstance(node.operator, cst.MatrixMultiply)
    name = last_name(node).lower()
    return "score" in name or name.startswith("att")


def _is_root(node: cst.BaseExpression) -> bool:
    """Return whether an expression is `sqrt(...)` or `... ** 0.5`."""
    if isinstance(node, cst.Call):
        return last_name(node.func) == "sqrt"
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Power):
        return code(node.right) == "0.5"
    return False
