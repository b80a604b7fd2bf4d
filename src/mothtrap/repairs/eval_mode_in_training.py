"""Set a model back to training mode after an evaluation."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import (
    NoCertainRepairError,
    Script,
    code,
    function_around,
    line_of,
    loops_around,
    only,
)


def repair(script: Script, finding: Finding) -> str:
    """Return the source with `model.train()` before the loop over the batches.

    Only where the model was trained in training mode before, and its only `eval()` in a loop comes
    after the training in the same loop, or is in another function than the training. All calls of
    `backward` must be in one loop.
    """
    if not finding.evidence.get("trained_before"):
        raise NoCertainRepairError(
            "the model never trained in training mode; decide whether that is meant, as it is for "
            "frozen batch norms"
        )
    evaluates, model = _evaluation(script, line_of(finding))
    training, loops = _training(script)
    evaluation = function_around(script, evaluates)
    if evaluation is not None and evaluation is not function_around(script, training):
        return _in_training_function(script, model, loops[0], evaluation)
    if script.line(evaluates) < script.line(training) and loops_around(script, evaluates):
        raise NoCertainRepairError(
            f"line {script.line(evaluates)} sets evaluation mode before the training; decide "
            "whether that is meant"
        )
    inner, shared = loops[0], [one for one in loops if one in loops_around(script, evaluates)]
    if inner in shared:
        first = next(iter(inner.body.body))
        return script.with_statements(before=[(first, f"{model}.train()")])
    if not shared:
        raise NoCertainRepairError("eval() is not called in a training loop")
    return script.with_statements(before=[(inner, f"{model}.train()")])


def _in_training_function(
    script: Script, model: str, loop: cst.For | cst.While, evaluation: cst.FunctionDef
) -> str:
    """Return the source with `train()` where a function trains, and another one evaluates.

    Raises:
        NoCertainRepairError: the model has another name in the training.
    """
    if not any(loop in script.parents(one) for one in script.every(cst.Call) if _calls(one, model)):
        raise NoCertainRepairError(f"the training does not call `{model}`; decide where train() is")
    if any(code(one.func) == f"{model}.train" for one in script.calls("train")):
        raise NoCertainRepairError(f"{model}.train() is called already; decide when it must run")
    inside = [one for one in script.calls(evaluation.name.value) if loop in script.parents(one)]
    place = next(iter(loop.body.body)) if inside else loop
    return script.with_statements(before=[(place, f"{model}.train()")])


def _calls(call: cst.Call, model: str) -> bool:
    return code(call.func) == model or code(call.func) == f"{model}.forward"


def _evaluation(script: Script, line: int) -> tuple[cst.Call, str]:
    """Return the only `eval()` of a model and the model's name; first those that are in a loop.

    Args:
        script: that calls it.
        line: of the call, or the line that creates the model.
    """
    calls = script.calls("eval")
    calls = [one for one in calls if loops_around(script, one)] or calls
    made = {code(name.target) for one in script.at(line, cst.Assign) for name in one.targets}
    here = [one for one in calls if script.line(one) == line or code(one.func)[:-5] in made]
    evaluates = only(here, f"eval() of the model in line {line}")
    assert isinstance(evaluates.func, cst.Attribute)
    model = code(evaluates.func.value)
    only([one for one in calls if code(one.func) == f"{model}.eval"], f"call of {model}.eval()")
    return evaluates, model


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
