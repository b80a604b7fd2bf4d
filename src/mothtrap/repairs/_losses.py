"""Losses that a script trains on."""

from __future__ import annotations

import libcst as cst

from mothtrap.repairs.script import Script, code, keyword, last_name, owner


def training_sums(script: Script) -> list[cst.BaseExpression]:
    """Return the `"sum"` of each loss that runs backward itself, or is created as a layer."""
    trained = {code(of) for one in script.calls("backward") if (of := owner(one)) is not None}
    sums = []
    for call in script.every(cst.Call):
        given = keyword(call, "reduction")
        if given is None or code(given.value)[1:-1] != "sum":
            continue
        above = next(script.parents(call))
        assigned = isinstance(above, cst.Assign) and code(above.targets[0].target) in trained
        if assigned or last_name(call.func)[:1].isupper():
            sums.append(given.value)
    return sums
