"""Set a model back to training mode after an evaluation."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import NoCertainRepairError, Script, code, line_of, loops_around, only


def repair(script: Script, finding: Finding) -> str:
    """Return the source with `model.train()` before the loop over the batches.

    Only where the model was trained in training mode before, and its only `eval()` comes after the
    training in the same loop. All calls of `backward` must be in one loop.
    """
    if not finding.evidence.get("trained_before"):
        raise NoCertainRepairError(
            "the model never trained in training mode; decide whether that is meant, as it is for "
            "frozen batch norms"
        )
    line = line_of(finding)
    calls = script.calls("eval")
    evaluates = only([one for one in calls if script.line(one) == line], f"eval() in line {line}")
    assert isinstance(evaluates.func, cst.Attribute)
    model = code(evaluates.func.value)
    only([one for one in calls if code(one.func) == f"{model}.eval"], f"call of {model}.eval()")
    training, loops = _training(script)
    if script.line(evaluates) < script.line(training) and loops_around(script, evaluates):
        raise NoCertainRepairError(
            f"line {line} sets evaluation mode before the training; decide whether that is meant"
        )
    inner, shared = loops[0], [one for one in loops if one in loops_around(script, evaluates)]
    if inner in shared:
        first = next(iter(inner.body.body))
        return script.with_statements(before=[(first, f"{model}.train()")])
    if not shared:
        raise NoCertainRepairError("eval() is not called in a training loop")
    return script.with_statements(before=[(inner, f"{model}.train()")])


def _training(script: Script) -> tuple[cst.Call, list[cst.For | cst.While]]:
    """Return the first `backward()` of the file, and the loops around it, innermost first.

    Raises:
        NoCertainRepairError: there is none, or not all are in the same loop.
    """
    calls = script.calls("backward")
    loops = [loops_around(script, one) for one in calls]
    if not all(loops):
        raise NoCertainRepairError("the training step is not in a loop")
    only(list(dict.fromkeys(around[0] for around in loops)), "loop that calls backward()")
    return calls[0], loops[0]
