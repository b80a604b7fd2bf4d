"""Set a model back to training mode after an evaluation."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs._weights import refuse_loaded_weights
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

    Only if the model was trained in training mode before, and its only `eval()` in a loop either
    follows the training in the same loop or is in another function. All calls to `backward` must be
    in one loop.
    """
    if not finding.evidence.get("trained_before"):
        return _from_the_start(script)
    evaluates, model = _evaluation(script, line_of(finding))
    training = script.calls("backward")
    trains, evaluation = _function_of(script, training), function_around(script, evaluates)
    if trains is not None and evaluation is not None and trains is not evaluation:
        return _in_training_function(script, model, trains, evaluation)
    loops = _loops(script, training)
    if script.line(evaluates) < script.line(training[0]) and loops_around(script, evaluates):
        raise NoCertainRepairError(
            f"line {script.line(evaluates)} sets evaluation mode before the training; decide "
            "whether that is intended"
        )
    inner, shared = loops[0], [one for one in loops if one in loops_around(script, evaluates)]
    if inner in shared:
        first = next(iter(inner.body.body))
        return script.with_statements(before=[(first, f"{model}.train()")])
    if not shared:
        raise NoCertainRepairError("eval() is not called in a training loop")
    return script.with_statements(before=[(inner, f"{model}.train()")])


def _from_the_start(script: Script) -> str:
    """Return the source with `train()` instead of the first of two `eval()` in a loop.

    Raises:
        NoCertainRepairError: evaluation mode may be intended, as for frozen batch norms.
    """
    refuse_loaded_weights(script)
    loops, line = _loops(script, training := script.calls("backward")), script.line(training[0])
    calls = [
        one
        for one in script.calls("eval")
        if (around := loops_around(script, one)) and set(around) <= set(loops)
    ]
    models = {code(one.func)[: -len(".eval")] for one in calls}
    trained = {code(one.func)[: -len(".train")] for one in script.calls("train")}
    before = [one for one in calls if script.line(one) < line]
    if len(models) != 1 or models & trained or len(before) != 1 or len(calls) != 2:
        raise NoCertainRepairError(
            "the model never trained in training mode; decide whether that is intended, as it is "
            "for frozen batch norms"
        )
    assert isinstance(before[0].func, cst.Attribute)
    return script.replaced(before[0].func.attr, cst.Name("train"))


def _function_of(script: Script, calls: list[cst.Call]) -> cst.FunctionDef | None:
    """Return the function that has all calls; None for several, or none."""
    functions = {function_around(script, one) for one in calls}
    return functions.pop() if len(functions) == 1 else None


def _in_training_function(
    script: Script, model: str, trains: cst.FunctionDef, evaluation: cst.FunctionDef
) -> str:
    """Return the source with `train()` if one function trains, and another function evaluates.

    The call is inserted before the innermost loop, or inside it if the loop calls the evaluation.
    Without a loop, it is inserted before the statement that calls the model.

    Raises:
        NoCertainRepairError: the model has a different name in the training code.
    """
    if any(code(one.func) == f"{model}.train" for one in script.calls("train")):
        raise NoCertainRepairError(f"{model}.train() is already called; decide when it must run")
    calls = [one for one in script.every(cst.Call) if code(one.func) == model]
    loops = loops_around(script, script.calls("backward")[0])[:1]
    places = [
        one for one in loops or trains.body.body if any(_is_in(script, call, one) for call in calls)
    ]
    if not places:
        raise NoCertainRepairError(f"the training does not call `{model}`; decide where train() is")
    place: cst.CSTNode = places[0]
    if loops and any(_is_in(script, one, loops[0]) for one in script.calls(evaluation.name.value)):
        place = next(iter(loops[0].body.body))
    return script.with_statements(before=[(place, f"{model}.train()")])


def _is_in(script: Script, node: cst.CSTNode, outer: cst.CSTNode) -> bool:
    return outer in script.parents(node)


def _evaluation(script: Script, line: int) -> tuple[cst.Call, str]:
    """Return the only `eval()` of a model, preferably in a loop, and the model's name.

    Args:
        script: script with the call.
        line: line of the call, or the line that creates the model.
    """
    calls = script.calls("eval")
    calls = [one for one in calls if loops_around(script, one)] or calls
    made = {code(name.target) for one in script.at(line, cst.Assign) for name in one.targets}
    here = [one for one in calls if script.line(one) == line or code(one.func)[:-5] in made]
    evaluates = only(here, f"eval() of the model in line {line}")
    assert isinstance(evaluates.func, cst.Attribute)
    model = code(evaluates.func.value)
    only([one for one in calls if code(one.func) == f"{model}.eval"], f"call to {model}.eval()")
    return evaluates, model


def _loops(script: Script, calls: list[cst.Call]) -> list[cst.For | cst.While]:
    """Return the loops around calls to `backward`, innermost first.

    Raises:
        NoCertainRepairError: there are no such calls, or they are not all in the same loop.
    """
    loops = [loops_around(script, one) for one in calls]
    if not all(loops):
        raise NoCertainRepairError("the training step is not in a loop")
    only(list(dict.fromkeys(around[0] for around in loops)), "loop that calls backward()")
    return loops[0]
