"""A training step of a compiled Keras model, with trials in the process itself."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import keras
import numpy as np

from mothtrap.adapters.keras import internals
from mothtrap.adapters.keras.checking.forwarding import KerasForward, tensorflow
from mothtrap.adapters.keras.checking.losses import loss_seen, share_right
from mothtrap.adapters.keras.checking.state import ModelState, array_of
from mothtrap.checks.step import BatchSeen, Change, Forward, LossSeen, ParameterSeen, Trial
from mothtrap.core.errors import MothtrapError, NotApplicable
from mothtrap.tracing.jobs.process_memory import ProcessMemory

MAX_BATCHES = 5
ADAM_RATE = 1e-3
"""Default learning rate of the optimizer that a trial uses instead of the script's."""

Batch = tuple[Any, Any, Any]
"""Inputs, targets, and weights of rows; the last two may be None."""


class KerasStep:
    """A step of a model; see `checks.step.Step`.

    Weights, optimizer, metrics, and random states are restored after each trial.

    Args:
        model: a compiled and built model.
        batches: batches from `fit`; the first batch belongs to the recorded step.
        location: `file:line` of the call to `fit`.
        initial: state at which the first loss is computed; None = the current state.
        loaded: weights were loaded from a file before.
        dummy: the loss is the mean square of the outputs, regardless of the targets.
        free: all trials train the predictions instead of weights.
        losses: losses of the observed steps.
    """

    number = 0

    def __init__(
        self,
        model: Any,
        batches: Sequence[Batch],
        *,
        location: str | None = None,
        initial: ModelState | None = None,
        loaded: bool = False,
        dummy: bool = False,
        free: bool = False,
        losses: Sequence[float] = (),
    ) -> None:
        self._model, self._batches, self._location = model, batches, location
        self._dummy, self._free, self._initial = dummy, free, initial
        self.losses: Sequence[float] = losses
        # otherwise a trial would continue with the moments of the last one
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        self._state = ModelState(model)
        self.loaded, self.watched = loaded, len(batches)
        self.forward: Forward | None = None
        self.loss: LossSeen | None = None
        self.peak_rate = _rate(model.optimizer)
        self.rates: Sequence[float] = (self.peak_rate,) * self.watched if self.peak_rate else ()
        self._plain = internals.has_plain_step(model)
        if self._plain:
            self.forward = KerasForward(model, batches[0][0], location)
            if initial is not None:
                initial.restore()
            self.loss = self._loss_of(batches[0])
            self._state.restore()
        self.target = None if self.loss is None else self.loss.target
        self.parameters: Sequence[ParameterSeen] = tuple(self._parameters())

    @classmethod
    def of(
        cls, model: Any, loader: Any, loss: Any = None, step: Any = None, optimizer: Any = None
    ) -> KerasStep:
        """Create the step for the arguments of `mothtrap.check`.

        Raises:
            MothtrapError: the loader yields no batch, or the model is not compiled.
        """
        if loss is not None or step is not None or optimizer is not None:
            raise MothtrapError(
                "check: a Keras model gets its loss and optimizer from `compile`; pass only the "
                "model and the batches"
            )
        if not model.compiled:
            raise MothtrapError("check: call `compile` on the model first")
        batches = [batch_of(given) for given, _ in zip(loader, range(MAX_BATCHES), strict=False)]
        if not batches:
            raise MothtrapError("check: the loader yields no batch")
        if not model.built:
            model(batches[0][0])
        return cls(model, batches)

    def batches(self) -> Sequence[BatchSeen]:
        """Return the batches; see `checks.step.Step`."""
        found = []
        for x, y, weight in self._batches:
            seen = None
            if self._plain and y is not None and weight is None and not self._dummy:
                seen = self._loss_of((x, y, weight))
            if seen is None:
                return ()
            inputs = KerasForward(self._model, x, self._location).inputs
            found.append(BatchSeen(inputs=inputs, target=seen.target))
        self._state.restore()
        return found

    def train(self, change: Change, steps: int, seconds: float) -> Trial:
        """Repeat the step with one change; see `checks.step.Step`."""
        until = time.monotonic() + seconds
        if self._free or change.predictions:
            return self._trained_predictions(change, steps, until)
        losses: list[float] = []
        ended = ""
        memory = ProcessMemory()
        batches = [_changed(batch, change) for batch in self._batches[: change.batches]]
        with self._prepared(change) as possible:
            for number in range(steps if possible else 0):
                if time.monotonic() > until:
                    ended = f"it made {number} of {steps} steps in {seconds:.0f} s"
                    break
                self._state.restore_random(everywhere=not number)
                if change.sweep != 1.0 and number:
                    _scaled(self._model.optimizer, change.sweep)
                losses.append(self._made(batches[number % len(batches)]))
            seen = self._loss_of(batches[0]) if losses and self._plain else None
        right = math.nan if seen is None else share_right(seen)
        used, limit = memory.now()
        return Trial(
            losses=np.array(losses), ended=ended, right=right, memory_bytes=used, limit_bytes=limit
        )

    def _trained_predictions(self, change: Change, steps: int, until: float) -> Trial:
        """Train the outputs of the model instead of its weights.

        Raises:
            NotApplicable: the backend is not TensorFlow, or the model has several outputs.
        """
        tf = tensorflow()
        x, y, weight = _changed(self._batches[0], change)
        self._state.restore()
        self._state.restore_random()
        output = self._model(x, training=True)
        if len(keras.tree.flatten(output)) != 1:
            raise NotApplicable("the model has several outputs")
        free = tf.Variable(output)
        rate = 100 * ADAM_RATE * max(1.0, float(np.abs(array_of(output)).mean()))
        adam = tf.keras.optimizers.Adam(rate)
        losses: list[float] = []
        while len(losses) < steps and time.monotonic() < until:
            with tf.GradientTape() as tape:
                loss = self._model.compute_loss(x=x, y=y, y_pred=free, sample_weight=weight)
            gradient = tape.gradient(loss, free)
            losses.append(float(loss))
            if gradient is not None:
                adam.apply_gradients([(gradient, free)])
        self._state.restore()
        ended = "" if len(losses) == steps else f"it made {len(losses)} of {steps} steps"
        return Trial(losses=np.array(losses), ended=ended)

    def _made(self, batch: Batch) -> float:
        x, y, weight = batch
        self._model.reset_metrics()
        given = {} if weight is None else {"sample_weight": weight}
        logs = self._model.train_on_batch(x, y, return_dict=True, **given)
        value = logs.get("loss", next(iter(logs.values()), math.nan))
        return float(np.asarray(value).mean())

    @contextmanager
    def _prepared(self, change: Change) -> Iterator[bool]:
        """Change the optimizer and the layers inside a block; yield whether that is possible."""
        model, optimizer = self._model, self._model.optimizer
        self._state.restore()
        if change.fresh:
            self._reset()
        rates = [(one, one.rate) for one in model._flatten_layers() if _drops(one)]
        decay = getattr(optimizer, "weight_decay", None)
        sweeps = change.sweep != 1.0
        possible = change.scheduled or (sweeps and _scaled(optimizer, 1.0))
        if change.adam:
            model.optimizer = keras.optimizers.Adam(ADAM_RATE)
        elif change.rate != 1.0:
            possible = possible and _scaled(optimizer, change.rate)
        if not change.regularized:
            optimizer.weight_decay = None
            for layer, _ in rates:
                layer.rate = 0.0
        if change.adam or not change.regularized:
            model.train_function = None
        try:
            yield possible
        finally:
            if change.adam or not change.regularized:
                model.train_function = None
            model.optimizer = optimizer
            optimizer.weight_decay = decay
            for layer, rate in rates:
                layer.rate = rate
            self._state.restore()

    def _reset(self) -> None:
        """Reset the model to its initial weights, and the optimizer to an empty state."""
        if self._initial is None:
            return
        rate = getattr(self._model.optimizer, "_learning_rate", None)
        for variable in self._model.optimizer.variables:
            if variable is not rate:
                variable.assign(np.zeros_like(array_of(variable)))
        self._initial.restore()

    def _loss_of(self, batch: Batch) -> LossSeen | None:
        x, y, weight = batch
        if y is None or weight is not None or self._dummy:
            return None
        self._state.restore_random()
        prediction = self._model(x, training=True)
        value = self._model.compute_loss(x=x, y=y, y_pred=prediction)
        flat = keras.tree.flatten(prediction)
        if len(flat) != 1:
            return None
        return loss_seen(self._model, y, array_of(flat[0]), float(value), self._location)

    def _parameters(self) -> Iterator[ParameterSeen]:
        if not self._plain:
            return
        try:
            tf = tensorflow()
        except NotApplicable:
            return
        model = self._model
        found: dict[str, Any] = {}
        for x, y, weight in self._batches:
            self._state.restore_random()
            with tf.GradientTape() as tape:
                prediction = model(x, training=True)
                loss = model.compute_loss(x=x, y=y, y_pred=prediction, sample_weight=weight)
            gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
            for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
                if found.get(variable.path) != "some":
                    found[variable.path] = _kind(tf, gradient, found.get(variable.path, "none"))
        self._state.restore()
        for layer in model._flatten_layers():
            for variable in layer._trainable_variables:
                if variable.path in found:
                    yield ParameterSeen(
                        name=variable.path,
                        module=layer.path or layer.name,
                        kind=type(layer).__name__,
                        gradient=found[variable.path],
                    )


def batch_of(given: Any) -> Batch:
    """Return a batch of a loader as arrays."""
    x, y, weight = keras.utils.unpack_x_y_sample_weight(given)
    return _arrays(x), _arrays(y), _arrays(weight)


def _arrays(value: Any) -> Any:
    return None if value is None else keras.tree.map_structure(_array, value)


def _array(value: Any) -> Any:
    try:
        return array_of(value)
    except (TypeError, ValueError):
        return np.asarray(value)


def _kind(tf: Any, gradient: Any, known: str) -> str:
    if gradient is None:
        return known
    values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
    return "some" if np.count_nonzero(array_of(values)) else "zero"


def _changed(batch: Batch, change: Change) -> Batch:
    """Return a batch with the inputs, targets, and rows of a trial."""
    x, y, weight = batch
    if change.inputs == "constant":
        x = keras.tree.map_structure(_alike, x)
    if change.targets == "permuted" and y is not None:
        y = keras.tree.map_structure(lambda one: np.roll(one, 1, 0), y)
    if change.rows:
        size = len(keras.tree.flatten(x)[0])
        order = np.resize(np.array(change.rows), size)
        x, y, weight = (_picked(part, order) for part in (x, y, weight))
    if change.repeats > 1:
        order = np.tile(np.arange(len(keras.tree.flatten(x)[0])), change.repeats)
        x, y, weight = (_picked(part, order) for part in (x, y, weight))
    return x, y, weight


def _picked(part: Any, order: Any) -> Any:
    return None if part is None else keras.tree.map_structure(lambda one: one[order], part)


def _alike(array: Any) -> Any:
    """Return inputs with equal rows: the mean of the rows, or the first row for integers."""
    if len(array) < 2:
        return array
    same = array.mean(0, keepdims=True) if array.dtype.kind == "f" else array[:1]
    return np.repeat(same, len(array), axis=0).astype(array.dtype)


def _drops(layer: Any) -> bool:
    return "Dropout" in type(layer).__name__ and hasattr(layer, "rate")


def _rate(optimizer: Any) -> float:
    """Return the learning rate; 0 for a schedule, whose rate trials cannot change."""
    return float(np.asarray(optimizer.learning_rate)) if _scaled(optimizer, 1.0) else 0.0


def _scaled(optimizer: Any, factor: float) -> bool:
    """Multiply the learning rate; return False if it cannot be changed, as with a schedule."""
    with suppress(TypeError, AttributeError, ValueError):
        optimizer.learning_rate = float(np.asarray(optimizer.learning_rate)) * factor
        return True
    return False
