"""Swap the prediction and the target of a loss."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import Script, line_of, only


def repair(script: Script, finding: Finding) -> str:
    """Return the source with the two arguments of the loss swapped."""
    line = line_of(finding)
    calls = [
        one
        for one in script.at(line, cst.Call)
        if len(one.args) == 2
        and all(arg.keyword is None and not arg.star for arg in one.args)
        and any(word in script.module.code_for_node(one.func).lower() for word in _WORDS)
    ]
    call = only(calls, f"loss of two arguments in line {line}")
    first, second = call.args
    args = [first.with_changes(value=second.value), second.with_changes(value=first.value)]
    return script.replaced(call, call.with_changes(args=args))


_WORDS = ("loss", "criterion", "entropy", "bce", "objective")
