"""Flip the sign of a loss that is maximized."""

from __future__ import annotations

import re

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs._updates import descending
from mothtrap.repairs.script import (
    NoCertainRepairError,
    Script,
    code,
    keyword,
    last_name,
    names_in,
    only,
)

ANYWHERE = True

_LOSSES = ("loss", "criterion", "cross_entropy", "mse", "l1", "nll", "bce", "huber")


_KL = re.compile(r"(?:self\.)?(?:\w*_)?kl", re.IGNORECASE)
_ERROR = re.compile(r"bce|mse|loss|error|nll|recon", re.IGNORECASE)
_GAIN = re.compile(r"likelihood|elbo|log_p", re.IGNORECASE)
_GAUSSIAN = re.compile(r"(?:sum|mean)\(\s*1 \+")


def repair(script: Script, finding: Finding) -> str:
    """Return the source with the sign of the loss corrected.

    Only if exactly one place in the file inverts it: a minus before a loss function, or before the
    tensor on which `backward` is called, a factor of -1, `maximize=True`, or the mean of the
    log-probabilities of the targets without a minus. Hand-written updates are changed to move
    against the gradient.
    """
    if "along the gradient" in finding.message:
        return descending(script)
    if "no lower bound" in finding.message:
        return _without_minus(script)
    if "operation" not in finding.evidence:
        raise NoCertainRepairError("the finding does not say which operation has the wrong sign")
    turns: list[tuple[cst.BaseExpression, cst.BaseExpression]] = [
        (one, one.expression)
        for one in script.every(cst.UnaryOperation)
        if isinstance(one.operator, cst.Minus) and _is_loss(script, one, one.expression)
    ]
    turns += [
        (one, other)
        for one in script.every(cst.BinaryOperation)
        if isinstance(one.operator, cst.Multiply)
        for factor, other in ((one.left, one.right), (one.right, one.left))
        if code(factor) in ("-1", "-1.0") and _is_loss(script, one, other)
    ]
    maximized = [
        (arg.value, cst.Name("False"))
        for call in script.every(cst.Call)
        if (arg := keyword(call, "maximize")) is not None and code(arg.value) == "True"
    ]
    likelihoods = [(one, cst.UnaryOperation(cst.Minus(), one)) for one in _likelihoods(script)]
    old, new = only([*turns, *maximized, *likelihoods], "place that changes the sign")
    return script.replaced(old, new)


def _without_minus(script: Script) -> str:
    """Return the source without the only minus before a call to a loss or a divergence.

    A divergence `0.5 * sum(1 + ...)` of a variational autoencoder gets its minus.
    """
    if divergences := _divergences(script):
        old, new = only(divergences, "divergence with the wrong sign")
        return script.replaced(old, new)
    turns = [
        one
        for one in script.every(cst.UnaryOperation)
        if isinstance(one.operator, cst.Minus)
        and isinstance(one.expression, cst.Call)
        and _is_loss(script, one, one.expression)
    ]
    turn = only(turns, "minus before a call to a loss")
    return script.replaced(turn, turn.expression)


def _divergences(script: Script) -> list[tuple[cst.CSTNode, cst.CSTNode]]:
    """Return the operators and factors with the wrong sign of a divergence, with replacements.

    A divergence from a normal distribution is `-0.5 * sum(1 + log_variance - mean**2 - variance)`.
    """
    found: list[tuple[cst.CSTNode, cst.CSTNode]] = []
    for one in script.every(cst.BinaryOperation):
        subtracts = isinstance(one.operator, cst.Subtract) and _KL.match(code(one.right))
        if subtracts and _ERROR.search(code(one.left)) and not _GAIN.search(code(one.left)):
            found.append((one.operator, cst.Add()))
        if isinstance(one.operator, cst.Multiply) and code(one.left) == "0.5":
            above = next(script.parents(one))
            named = isinstance(above, cst.Assign) and _KL.match(code(above.targets[0].target))
            if named and _GAUSSIAN.search(code(one.right)):
                found.append((one.left, cst.parse_expression("-0.5")))
    return found


def _is_loss(script: Script, turn: cst.BaseExpression, inner: cst.BaseExpression) -> bool:
    """Return whether a negated value is a call to a loss, or the root of a backward pass."""
    if isinstance(inner, cst.Call):
        names = [name.lower() for name in names_in(inner.func)]
        return any(word in name for name in names for word in _LOSSES)
    above = next(script.parents(turn))
    runs = isinstance(above, cst.Attribute) and above.attr.value == "backward"
    return isinstance(inner, cst.Name) and (runs or "loss" in inner.value.lower())


def _likelihoods(script: Script) -> list[cst.Call]:
    """Return means of gathered log-probabilities that a function returns without a minus."""
    gathered = {
        code(target.target)
        for one in script.every(cst.Assign)
        for target in one.targets
        if "log_softmax" in code(one.value) and "gather" in code(one.value)
    }
    return [
        call
        for call in script.calls("mean")
        if isinstance(call.func, cst.Attribute)
        and (code(call.func.value) in gathered or _gathers(call.func.value))
        and isinstance(next(script.parents(call)), cst.Return | cst.Assign)
    ]


def _gathers(node: cst.BaseExpression) -> bool:
    return (
        isinstance(node, cst.Call)
        and last_name(node.func) == "gather"
        and "log_softmax" in code(node)
    )
