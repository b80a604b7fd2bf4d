"""Give the prediction and the target of a loss the same shape."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import (
    NoCertainRepairError,
    Script,
    bracketed,
    code,
    line_of,
    names_in,
    only,
    replaced_all,
)

_SHAPED = ("squeeze(", "unsqueeze(", "reshape(", "view(", "view_as(", "flatten(")


def repair(script: Script, finding: Finding) -> str:
    """Return the source with the last axis of size 1 removed from the larger side.

    Only if the shapes are `(..., 1)` and `(...)`. Every call of the same loss function is changed,
    so that evaluations agree with the training.
    """
    prediction = tuple(finding.evidence.get("prediction_shape") or ())  # type: ignore[arg-type]
    target = tuple(finding.evidence.get("target_shape") or ())  # type: ignore[arg-type]
    if prediction[:-1] != target and target[:-1] != prediction:
        raise NoCertainRepairError("the shapes differ by more than a last axis of size 1")
    larger = 0 if len(prediction) > len(target) else 1
    line = line_of(finding)
    differences = [
        one
        for one in script.at(line, cst.BinaryOperation)
        if isinstance(one.operator, cst.Subtract) and (_is_place(one.left) or _is_place(one.right))
    ]
    if differences:
        return _reshaped(script, only(differences, f"difference in line {line}"))
    return _in_calls(script, line, larger)


def _reshaped(script: Script, difference: cst.BinaryOperation) -> str:
    """Return the source with one side of a difference reshaped to the other."""
    sides = (difference.left, difference.right)
    like, other = sides if _is_place(sides[0]) else sides[::-1]
    for one in script.every(cst.BinaryOperation):
        again = isinstance(one.operator, cst.Subtract) and one is not difference
        if again and {code(one.left), code(one.right)} & {code(side) for side in sides}:
            raise NoCertainRepairError(
                f"line {script.line(one)} subtracts the same tensor; change its shape only once"
            )
    shape = f"{bracketed(other)}.reshape({code(like)}.shape)"
    return script.replaced(other, cst.parse_expression(shape))


def _is_place(node: cst.BaseExpression) -> bool:
    """Return whether an expression is the name of a tensor, so that it can be repeated."""
    return isinstance(node, cst.Name | cst.Attribute | cst.Subscript) and "(" not in code(node)


def _in_calls(script: Script, line: int, larger: int) -> str:
    """Return the source with an argument of a loss function squeezed in every call."""
    calls = [one for one in script.at(line, cst.Call) if _is_loss(one)]
    chosen = code(only(calls, f"loss of two tensors in line {line}").func)
    every = [one for one in script.every(cst.Call) if _is_loss(one) and code(one.func) == chosen]
    tensors = [
        call.args[larger].value
        for call in every
        if not any(word in code(call.args[larger]) for word in _SHAPED)
    ]
    return replaced_all(
        script, [(one, cst.parse_expression(f"{bracketed(one)}.squeeze(-1)")) for one in tensors]
    )


def _is_loss(call: cst.Call) -> bool:
    """Return whether a call has two tensors first, and appears to be a loss."""
    positional = [one for one in call.args if one.keyword is None and not one.star]
    words = ("loss", "criterion", "mse", "l1", "huber", "objective")
    named = any(word in name.lower() for name in names_in(call.func) for word in words)
    return len(positional) == 2 and named
