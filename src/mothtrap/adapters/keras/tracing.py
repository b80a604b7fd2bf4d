"""Losses and optimizers, while a step is traced or runs eagerly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from mothtrap.adapters.keras import internals, layers, optimizers
from mothtrap.adapters.keras.elsewhere import source_elsewhere
from mothtrap.adapters.keras.evaluations import Outside
from mothtrap.adapters.keras.kept_steps import Keeper, is_sound, losses_in, wanted
from mothtrap.adapters.keras.layer_calls import LayerCalls
from mothtrap.adapters.keras.loss_probes import LossProbes
from mothtrap.adapters.keras.metric_probes import MetricProbes
from mothtrap.adapters.keras.refused import is_in_half_precision
from mothtrap.adapters.keras.steps import Steps
from mothtrap.adapters.tensorflow import hooks
from mothtrap.adapters.tensorflow.hooks import LOOKS
from mothtrap.adapters.tensorflow.probes.probes import Applied, Look
from mothtrap.adapters.tensorflow.probes.slots import Slot
from mothtrap.core.adapters import Job
from mothtrap.tracing.replacements import Replacements


class Tracing:
    """Receives calls from Keras classes, and adds them to the record of the program or step.

    Args:
        job: job of the training.
        steps: receives the gradients passed to optimizers.
    """

    def __init__(self, job: Job, steps: Steps) -> None:
        self._job, self._steps = job, steps
        self._outside = Outside(job, steps)
        self._losses = LossProbes(job, steps.asked, self._outside)
        self._layers = LayerCalls(job, steps, self._outside)
        self._metrics = MetricProbes(job)

    def install(self, replacements: Replacements) -> None:
        """Replace the methods."""
        replacements.replace(keras.layers.Layer, "__call__", self._layers.around)
        self._losses.install(replacements)
        self._metrics.install(replacements)
        for kind in internals.optimizer_types():
            replacements.around(kind, "scale_loss", None, self._scaled)
        replacements.around(internals.assigned_type(), "assign", None, self._assigned)
        if internals.restored_type() is not None:
            restored = internals.restored_type(), "_restore_from_tensors"
            replacements.around(*restored, None, self._assigned)

    def _scaled(self, _: Any, result: Any, args: Sequence[Any], kwargs: Any, __: Any) -> None:
        look = LOOKS.current()
        loss = args[0] if args else kwargs.get("loss")
        if look is not None:
            hooks.scaled(look, loss, result)

    def _assigned(self, variable: Any, *_: object) -> None:
        """Handle a value assigned to a variable without an optimizer, such as loaded weights."""
        if not LOOKS.tapes:
            if tf.executing_eagerly():
                layers.GIVEN[id(variable)] = variable
            self._outside.assigned()
        look = None if self._steps.has_optimizers else LOOKS.current()
        if look is not None and not look.applied:
            look.assigned(variable)

    def applied(self, optimizer: Any, gradients: Sequence[Any], variables: Any) -> None:
        """Record the gradients passed to an optimizer before it applies them."""
        look = LOOKS.current()
        if variables is None:
            variables = list(optimizers.innermost(optimizer)._trainable_variables)
        keras_variables = [layers.as_keras(variable) for variable in variables]
        if look is None:
            self._steps.steps_in_branches = True
        if tf.distribute.get_strategy().num_replicas_in_sync == 1:
            with tf.init_scope():
                self._steps.applied(optimizer, keras_variables)
        if look is None:
            self._job.contain_part("gradients", self._applied_in_branch, optimizer, keras_variables)
            return
        pairs = zip(keras_variables, gradients, strict=False)
        missing = [variable for variable, gradient in pairs if gradient is None]
        known = {id(variable) for variable in keras_variables}
        left_out = [layers.as_keras(v) for v in look.unreached]
        missing += [v for v in left_out if id(v) not in known]
        look.unreached.clear()
        is_scaled = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        slots, squares = None, None
        if not look.why:
            values = [None if g is None else hooks.values_of(g) for g in gradients]
            squares = None if is_scaled else _half_squares(values)
            sound = self._sound(look, squares)
            slots = [None if value is None else Slot(value, behind=look) for value in values]
            look.flush(also=None if sound is None else wanted(sound))
            if sound is not None and look.keeper is not None:
                look.keeper.applying(sound)
            squares = Slot(squares) if squares is not None else None
        applied = Applied(optimizer, keras_variables, slots, is_scaled, tuple(missing), squares)
        if not tf.executing_eagerly() or self._job.is_full():
            applied.elsewhere = source_elsewhere(look.gradients, gradients, keras_variables)
        look.applied.append(applied)

    def _applied_in_branch(self, optimizer: Any, variables: Sequence[Any]) -> None:
        """Probe, in the program around a branch, the gradients that the branch applies.

        The script decides whether the branch runs; the gradients exist in any case.
        """
        found = LOOKS.around()
        if found is None:
            return
        graph, look = found
        if look.why or any(each.optimizer is optimizer for each in look.in_branches):
            return
        known = {id(source): gradient for source, gradient in look.gradients}
        known |= {id(layers.as_keras(source)): known[id(source)] for source, _ in look.gradients}
        pairs = [(v, known[id(v)]) for v in variables if id(v) in known]
        if not pairs or any(gradient.graph is not graph for _, gradient in pairs):
            return
        if is_in_half_precision(graph):
            return  # the script may scale the loss itself
        is_scaled = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        with graph.as_default():
            values = [gradient for _, gradient in pairs]
            squares = None if is_scaled else _half_squares(values)
            sound = self._sound(look, squares)
            slots: list[Slot | None] = [Slot(value, behind=look) for value in values]
            look.flush(also=wanted(sound))
            if look.keeper is not None:
                look.keeper.applying(sound)
            squares = Slot(squares) if squares is not None else None
        applied = Applied(optimizer, [v for v, _ in pairs], slots, is_scaled, (), squares)
        look.in_branches.append(applied)

    def _sound(self, look: Look, squares: Any) -> Any:
        """Return whether losses and gradients of a program are sound; None for an eager step."""
        if tf.executing_eagerly():
            return None
        return is_sound(squares, losses_in(look), self._job.config.max_gradient_norm)

    def step_began(self, model: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Record the inputs of a `train_step` before it computes anything."""
        look = LOOKS.current()
        data = args[0] if args else kwargs.get("data")
        if look is None or look.why:
            return
        self._job.contain_part("collections", self._steps.asked.data, look, model, data)
        if look.counter is None or look.keeper is not None:
            return
        if model.distribute_strategy.num_replicas_in_sync == 1:
            look.keeper = Keeper(look, model, data, own_step=not internals.has_plain_step(model))

    def is_scaled(self, model: Any, looks: Sequence[Look]) -> bool | None:
        """Return whether losses were scaled in half precision; None without half precision."""
        if model.dtype_policy.compute_dtype != "float16" or not looks:
            return None
        return any(target.scaled for look in looks for target in look.targets)


def _half_squares(gradients: Sequence[Any]) -> Any:
    """Return half the sum of squares of each gradient, shape (T,); None without a program.

    A sum that overflows is not a fault yet: the host then inspects the gradient.
    """
    if tf.executing_eagerly():
        return None
    values = [tf.cast(one, tf.float32) for one in gradients if one is not None]
    return tf.stack([tf.nn.l2_loss(value) for value in values]) if values else None


def shapes_of_latest() -> Iterator[tuple[str, tuple[int | None, ...]]]:
    """Return weights and layer outputs, with shapes, of the latest traced program."""
    for call in LOOKS.latest().layers:
        for variable in call.layer.weights:
            yield str(variable.path), tuple(variable.shape)
        if call.gave is not None:
            yield f"output of {layers.name_of(call.layer)}", call.gave.shape
