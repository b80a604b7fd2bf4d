"""Give an optimizer all parameters of a model of which it trains only a part."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding, Severity
from mothtrap.repairs._models import optimizers, with_other_model
from mothtrap.repairs._weights import refuse_loaded_weights
from mothtrap.repairs.script import (
    NoCertainRepairError,
    Script,
    assigned,
    code,
    last_name,
    line_of,
    names_in,
    only,
)

ANYWHERE = True


def repair(script: Script, finding: Finding) -> str:
    """Return the source with `model.parameters()` instead of `model.part.parameters()`.

    Only if one optimizer of the file gets the parameters of one part of a model, no weights are
    loaded, and nothing is frozen. If two optimizers have the same model, and another model has
    none, the optimizer that is named after the other model gets its parameters.
    """
    if finding.severity is Severity.INFO or finding.evidence.get("created_after_optimizer"):
        raise NoCertainRepairError("decide whether these parameters must be trained")
    refuse_loaded_weights(script)
    if "requires_grad" in script.module.code:
        raise NoCertainRepairError("the script uses `requires_grad`; decide what to train")
    trained = [model for _, model in optimizers(script)]
    if len(set(trained)) < len(trained):
        return with_other_model(script, line_of(finding))
    calls = [
        one
        for one in script.calls("parameters")
        if isinstance(one.func, cst.Attribute)
        and isinstance(one.func.value, cst.Attribute)
        and _is_for_optimizer(script, one)
    ]
    call = only(calls, "optimizer of one part of a model")
    assert isinstance(call.func, cst.Attribute)
    part = call.func.value
    model = part
    while isinstance(model, cst.Attribute):
        model = model.value
    if (
        not isinstance(model, cst.Name)
        or model.value == "self"
        or not assigned(script, code(model))
    ):
        raise NoCertainRepairError("the line does not name the model of the optimizer")
    if code(part).split(".")[1] in {name.partition(".")[0] for name in finding.layers}:
        raise NoCertainRepairError("the optimizer already has these parameters")
    return script.replaced(part, model)


def _is_for_optimizer(script: Script, call: cst.Call) -> bool:
    outer = [one for one in script.parents(call) if isinstance(one, cst.Call)]
    return len(outer) == 1 and last_name(outer[0].func)[:1].isupper() and bool(names_in(outer[0]))
