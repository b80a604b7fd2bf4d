"""Weights that two optimizers update in turn."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.adapters.tensorflow import ADAPTER as BASE  # noqa: E402
from mothtrap.core.facts.optimizers import OpposedOptimizers  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def network(inputs: int, outputs: int) -> keras.Model:
    layers = [keras.layers.Dense(16, activation="relu"), keras.layers.Dense(outputs)]
    return keras.Sequential([keras.Input((inputs,)), *layers])


def game(extra: str) -> list[OpposedOptimizers]:
    """Train a GAN whose generator's loss also trains the weights of another network."""
    keras.utils.set_random_seed(0)
    generator, discriminator = network(3, 2), network(2, 1)
    ours, theirs = keras.optimizers.Adam(1e-3), keras.optimizers.Adam(1e-3)
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    weights = list(generator.trainable_variables)
    if extra == "behind":
        weights += discriminator.trainable_variables
    elif extra == "before":
        weights = [*discriminator.trainable_variables, *weights]

    @tf.function
    def step(noise: tf.Tensor, real: tf.Tensor) -> None:
        with tf.GradientTape(persistent=True) as tape:
            made = discriminator(generator(noise))
            won = loss(tf.ones_like(made), made)
            lost = loss(tf.ones_like(made), discriminator(real)) + loss(tf.zeros_like(made), made)
        ours.apply_gradients(zip(tape.gradient(won, weights), weights, strict=True))
        own = discriminator.trainable_variables
        theirs.apply_gradients(zip(tape.gradient(lost, own), own, strict=True))

    rng, process = np.random.default_rng(0), Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        for _ in range(10):
            real = rng.normal(2.0, 0.1, (16, 2)).astype("float32")
            step(rng.normal(size=(16, 3)).astype("float32"), real)
    return [one for one in process.facts() if isinstance(one, OpposedOptimizers)]


def test_a_loss_that_trains_the_opponent_is_seen() -> None:
    [found] = game("behind")
    assert (found.shared, found.parameters, found.looks) == (4, 8, 8)
    assert found.cosine < 0


@pytest.mark.parametrize("extra", ["", "before"])
def test_optimizers_of_their_own_weights_are_not_compared(extra: str) -> None:
    assert game(extra) == []
