"""Step the optimizer after `backward`."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import NoCertainRepairError, Script, code, only, owner, with_called

ANYWHERE = True


def repair(script: Script, finding: Finding) -> str:
    """Return the source with `step()` after `backward()`, or after the clipping that follows it.

    A statement `optimizer.step` without parentheses gets them. Otherwise, only if the file calls
    `backward` once and `step` never, and clears the gradients of one optimizer.
    """
    if finding.evidence.get("why") != "not stepped":
        raise NoCertainRepairError("decide where the result of the step must go")
    if [one for one in script.calls("step") if "sched" not in code(one.func).lower()]:
        raise NoCertainRepairError("the script already calls step(); decide when it must run")
    if (text := with_called(script, "step")) is not None:
        return text
    called = {code(one.func) for one in script.every(cst.Call)}
    owners = {code(of) for one in script.calls("zero_grad") if (of := owner(one)) is not None}
    optimizer = only(sorted(owners - called), "optimizer whose gradients are cleared")
    last = script.statement(only(script.calls("backward"), "call to backward()"))
    for one in script.block(last):
        if script.line(one) > script.line(last) and "clip_grad" in code(one):
            last = script.statement(one)
    return script.with_statements(after=[(last, f"{optimizer}.step()")])
