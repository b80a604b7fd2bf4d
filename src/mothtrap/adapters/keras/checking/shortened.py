"""Shorten a script under check: end its network at a layer, or replace its loss by a dummy."""

from __future__ import annotations

from typing import Any

import keras

from mothtrap.adapters.keras import internals
from mothtrap.core.check_plan import CheckPlan
from mothtrap.core.errors import nearest

MAX_NAMED = 8
"""Maximum number of layers that a message names."""


class Shortened:
    """A script shortened according to a plan; unchanged by default.

    Args:
        plan: settings: the layer at which the network ends, and whether the loss is replaced.

    Attributes:
        why_not: why the network was not cut as planned; empty if it was.
    """

    def __init__(self, plan: CheckPlan) -> None:
        self._cut, self._dummy = plan.cut, plan.dummy_loss
        self.why_not = ""

    def install(self) -> None:
        """Replace losses and metrics until the process ends, if the plan requests it."""
        if self._dummy:
            kind: Any = internals.trainer_type()
            setattr(kind, "compute_loss", _mean_square)  # noqa: B010  # for the type checker
            setattr(kind, "compute_metrics", _only_loss)  # noqa: B010

    def shorten(self, model: Any) -> None:
        """End a model at the layer named in the plan."""
        if not self._cut:
            return
        known = [layer.name for layer in model.layers]
        if self._cut not in known:
            named = ", ".join(known[:MAX_NAMED]) + (", ..." if known[MAX_NAMED:] else "")
            hint = nearest(self._cut, known)
            self.why_not = f"the model has no layer {self._cut!r}{hint}; the layers are {named}"
            return
        try:
            ended = keras.Model(model.inputs, model.get_layer(self._cut).output)
        except (AttributeError, ValueError, TypeError):
            self.why_not = "only Sequential and functional models can end at a layer"
            return

        def call(inputs: Any, training: Any = None, mask: Any = None) -> Any:
            return ended.call(inputs, training=training, mask=mask)

        vars(model)["call"] = call


def _mean_square(
    _model: Any,
    x: Any = None,  # noqa: ARG001  # as in Keras
    y: Any = None,  # noqa: ARG001
    y_pred: Any = None,
    sample_weight: Any = None,  # noqa: ARG001
    training: bool = True,  # noqa: ARG001
) -> Any:
    parts = [keras.ops.cast(one, "float32") for one in keras.tree.flatten(y_pred)]
    means = [keras.ops.mean(keras.ops.square(one)) for one in parts]
    return keras.ops.sum(keras.ops.stack(means))


def _only_loss(model: Any, *_: Any, **__: Any) -> dict[str, Any]:
    return {"loss": model._loss_tracker.result()}
