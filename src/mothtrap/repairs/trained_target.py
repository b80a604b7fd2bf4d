"""Detach the target of a loss."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding, Severity
from mothtrap.repairs.script import (
    NoCertainRepairError,
    Script,
    bracketed,
    line_of,
    names_in,
    only,
)

_WORDS = ("loss", "criterion", "mse", "huber", "objective")
_TARGETS = ("target", "expected", "label", "tgt")


def repair(script: Script, finding: Finding) -> str:
    """Return the source with `detach()` on the target.

    Only if the optimizer changes the target, and the line calls one loss of two tensors, one of
    which is named as a target.
    """
    if finding.severity is Severity.INFO or "target of the loss" not in finding.message:
        raise NoCertainRepairError("decide whether this tensor must have a gradient")
    line = line_of(finding)
    calls = [
        one
        for one in script.at(line, cst.Call)
        if len([arg for arg in one.args if arg.keyword is None and not arg.star]) == 2
        and any(word in name.lower() for name in names_in(one.func) for word in _WORDS)
    ]
    call = only(calls, f"loss of two tensors in line {line}")
    named = [arg.value for arg in call.args[:2] if _is_target(arg.value)]
    target = only(named, "argument of the loss that is named as a target")
    return script.replaced(target, cst.parse_expression(f"{bracketed(target)}.detach()"))


def _is_target(node: cst.BaseExpression) -> bool:
    return any(word in name.lower() for name in names_in(node) for word in _TARGETS)
