"""Gradients of one model that an optimizer applies to the weights of another."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.adapters.tensorflow import ADAPTER as BASE  # noqa: E402
from mothtrap.core.facts.compiling import UpdateDropped  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)


def model_of() -> object:
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("to", ["itself", "other", "shared"])
def test_gradients_applied_to_another_model(to: str, compiled: bool) -> None:
    """A worker that copies the shared weights back, as in A3C, is no fault."""
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        model, other = model_of(), model_of()
        optimizer = keras.optimizers.SGD(0.1)
        weights = (model if to == "itself" else other).trainable_variables

        def step(x: object) -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(x, training=True) - 1.0))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, weights, strict=True))

        step = tf.function(step) if compiled else step
        for _ in range(12):
            step(tf.constant(X))
            if to == "shared":
                model.set_weights(other.get_weights())
    told = [one.why for one in process.facts() if isinstance(one, UpdateDropped)]
    assert told == (["other weights"] if to == "other" else [])
