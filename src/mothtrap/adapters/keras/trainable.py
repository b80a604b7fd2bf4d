"""Changes of `trainable` after `compile`, which the compiled step ignores."""

from __future__ import annotations

import math
from typing import Any, Final

from mothtrap.adapters.keras import layers, optimizers
from mothtrap.core.facts.functions import TrainableIgnored

SHOWN: Final = 8


def ignored(model: Any, step: int, location: str | None) -> TrainableIgnored | None:
    """Describe the weights whose `trainable` changed after the step was compiled, if any.

    Keras reads the trainable weights while it traces the step, in the first `fit` after `compile`.

    Args:
        model: the model that is passed to `fit` again.
        step: step of the training.
        location: line of `fit`.
    """
    optimizer = optimizers.innermost(getattr(model, "optimizer", None))
    is_compiled = getattr(model, "train_function", None) is not None and not model.run_eagerly
    if not is_compiled or not getattr(optimizer, "built", False):
        return None
    held = {id(variable) for variable in optimizer._trainable_variables}
    now = {id(variable) for variable in model.trainable_variables}
    every = list(model.variables)
    unfrozen = [one for one in every if id(one) in now - held]
    frozen = [one for one in every if id(one) in held - now]
    if not unfrozen and not frozen:
        return None
    changed = {id(one) for one in (*unfrozen, *frozen)}
    owners = [
        layers.name_of(layer)
        for layer in model._flatten_layers(include_self=False, recursive=True)
        if any(id(one) in changed for one in getattr(layer, "_trainable_variables", ()))
    ]
    return TrainableIgnored(
        step=step,
        model=layers.name_of(model),
        elements=_size(every),
        unfrozen=_size(unfrozen),
        frozen=_size(frozen),
        layers=tuple(dict.fromkeys(owners))[:SHOWN],
        location=location,
    )


def _size(variables: list[Any]) -> int:
    return sum(math.prod(one.shape) for one in variables)
