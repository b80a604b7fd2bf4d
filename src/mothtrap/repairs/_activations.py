"""Removal of an activation that the loss applies itself."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import (
    NoCertainRepairError,
    Script,
    assigned,
    code,
    is_alone,
    last_name,
    only,
    place_called,
)


def place(finding: Finding) -> tuple[str, int]:
    """Return the file and line of the activation that a finding names.

    Raises:
        NoCertainRepairError: the finding does not name the activation.
    """
    found = place_called(finding.message)
    if found is None:
        raise NoCertainRepairError("the finding does not name the line of the activation")
    return found


def is_anywhere(finding: Finding) -> bool:
    """Return whether a finding detected the activation, but names no single line that calls it."""
    return "goes into" in finding.message and place_called(finding.message) is None


def without(script: Script, line: int, function: str, layer: str) -> str:
    """Return the source without an activation.

    Args:
        script: script that calls it.
        line: line of the call; 0 for the call that computes the output of the only model.
        function: e.g. `softmax`, called on a tensor or with it as its first argument.
        layer: e.g. `Softmax`, the class of the layer that does the same.

    Raises:
        NoCertainRepairError: the call is not found, or other code relies on its result.
    """
    refuse_thresholds(script)
    if not line:
        return without_last_call(script, function, layer)
    calls = [call for call in script.at(line, cst.Call) if last_name(call.func) == function]
    if len(calls) > 1:
        raise NoCertainRepairError(f"line {line} calls {function} {len(calls)} times")
    if calls:
        return script.replaced(calls[0], _argument(calls[0]))
    layers = script.calls(layer)
    if len(layers) != 1:
        raise NoCertainRepairError(
            f"{len(layers)} layers `{layer}` are created in this file; decide which of them feeds "
            "the loss"
        )
    return _without_layer(script, layers[0])


def without_last_call(script: Script, function: str, layer: str) -> str:
    """Return the source without the activation of the model's output.

    Args:
        script: script that defines the model.
        function: e.g. `relu`, called on the output in `forward`, also as `self.relu`.
        layer: e.g. `ReLU`, the class of the layer that does the same.

    Raises:
        NoCertainRepairError: not exactly one place applies the activation last.
    """
    called = [one for one in _ends(script) if isinstance(one, cst.Call) and _is(one, function)]
    last = [
        one.args[-1].value
        for one in script.calls("Sequential")
        if one.args and not any(isinstance(up, cst.ClassDef) for up in script.parents(one))
    ]
    made = [one for one in last if isinstance(one, cst.Call) and last_name(one.func) == layer]
    end = only([*called, *made], f"{function} at the end of a model")
    if end in made:
        return _without_layer(script, end)
    inner = _argument(end)
    statement = script.statement(end)
    whole = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    if isinstance(whole, cst.Assign) and code(whole.targets[0].target) == code(inner):
        return script.with_statements(without=[statement])
    return script.replaced(end, inner)


def with_last_call(script: Script, function: str) -> str:
    """Return the source with a function applied to the output of the only model.

    Raises:
        NoCertainRepairError: the file defines several models, or a model with several outputs.
    """
    outputs = [
        one.value for function in _forwards(script) if (one := _return(script, function)).value
    ]
    output = only(outputs, "model with one output")
    if isinstance(output, cst.Tuple):
        raise NoCertainRepairError("the model has several outputs; decide which one to change")
    return script.replaced(output, cst.parse_expression(f"{function}({code(output)})"))


def _forwards(script: Script) -> list[cst.FunctionDef]:
    return [one for one in script.every(cst.FunctionDef) if one.name.value == "forward"]


def _return(script: Script, function: cst.FunctionDef) -> cst.Return:
    returns = [one for one in script.every(cst.Return) if function in script.parents(one)]
    return only(returns, "return of `forward`")


def _ends(script: Script) -> Iterator[cst.BaseExpression]:
    """Yield the expressions that compute the outputs of the models of a file.

    A softmax at the end is skipped, because its argument is the scores.
    """
    for function in _forwards(script):
        end = _return(script, function)
        value, line = end.value, script.line(end)
        while isinstance(value, cst.Name) or _is_softmax(value):
            if isinstance(value, cst.Name):
                value, line = _assigned_before(script, function, value.value, line)
            else:
                assert isinstance(value, cst.Call)
                value = _argument(value)
        if value is not None:
            yield value


def _assigned_before(
    script: Script, function: cst.FunctionDef, name: str, line: int
) -> tuple[cst.BaseExpression | None, int]:
    """Return the last value assigned to a variable of a function before a line, and its line."""
    made = [
        one
        for one in assigned(script, name)
        if script.statement(one) in function.body.body and script.line(one) < line
    ]
    return (made[-1].value, script.line(made[-1])) if made else (None, line)


def _is_softmax(value: cst.BaseExpression | None) -> bool:
    return isinstance(value, cst.Call) and last_name(value.func) in ("softmax", "log_softmax")


def _is(call: cst.Call, function: str) -> bool:
    """Return whether a call applies a function: `F.relu(x)`, `x.relu()`, or `self.relu(x)`."""
    return last_name(call.func).rstrip("_0123456789") == function


def renamed(script: Script, line: int, names: dict[str, str]) -> str:
    """Return the source with a different activation.

    Args:
        script: script that calls it.
        line: line of the call.
        names: names of the function and of its layer, and the names that replace them. A layer may
            be created on another line.

    Raises:
        NoCertainRepairError: there is no single place that calls or creates it as an attribute.
    """
    refuse_thresholds(script)
    function, layer = names
    here = [call for call in script.at(line, cst.Call) if last_name(call.func) == function]
    free = [one for one in here if isinstance(one.func, cst.Attribute) and not _is_own(one)]
    call = only(free or script.calls(layer), f"{function} in line {line}")
    if not isinstance(call.func, cst.Attribute):
        raise NoCertainRepairError(f"`{code(call.func)}` must be changed together with its import")
    return script.replaced(call.func.attr, cst.Name(names[call.func.attr.value]))


def _is_own(call: cst.Call) -> bool:
    return code(call.func).startswith("self.")


def _argument(call: cst.Call) -> cst.BaseExpression:
    """Return the argument of an activation."""
    positional = [one.value for one in call.args if one.keyword is None and not one.star]
    named = [one.value for one in call.args if one.keyword and one.keyword.value == "input"]
    if isinstance(call.func, cst.Attribute) and code(call.func.value) not in _MODULES:
        return call.func.value
    if not positional and not named:
        raise NoCertainRepairError(f"`{code(call)}` has no tensor as its first argument")
    return (positional or named)[0]


_MODULES = frozenset(
    {"self", "torch", "F", "nn.functional", "torch.nn.functional", "functional", "nn"}
)


def _without_layer(script: Script, made: cst.Call) -> str:
    """Return the source without a layer: removed from a Sequential, otherwise an identity."""
    around = next((one for one in script.parents(made) if isinstance(one, cst.Call)), None)
    if around is not None and last_name(around.func) == "Sequential":
        args = [one for one in around.args if one.value is not made]
        if is_alone(script, made) and args:
            return script.with_statements(without=[made])
        if len(args) == len(around.args) - 1 and args:
            args[-1] = args[-1].with_changes(comma=around.args[-1].comma)
            return script.replaced(around, around.with_changes(args=args))
    name = code(made.func).rpartition(".")[0]
    if not name:
        raise NoCertainRepairError(f"`{code(made)}` must be removed together with its import")
    return script.replaced(made, cst.parse_expression(f"{name}.Identity()"))


def refuse_thresholds(script: Script) -> None:
    """Reject a script with a threshold on probabilities, because logits need another threshold."""
    for compared in script.every(cst.Comparison):
        numbers = [one.comparator for one in compared.comparisons]
        if any(isinstance(one, cst.Float) and 0 < float(one.value) < 1 for one in numbers):
            raise NoCertainRepairError(
                f"line {script.line(compared)} compares with a number below 1, which may be a "
                "threshold of probabilities; decide whether it must change with the output"
            )
    for call in script.calls("round"):
        raise NoCertainRepairError(
            f"line {script.line(call)} rounds a value, maybe a probability; decide whether it must "
            "change with the output"
        )
