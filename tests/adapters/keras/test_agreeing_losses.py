"""Losses of two opponents that ask for the same answer."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.adapters.tensorflow import ADAPTER as BASE  # noqa: E402
from mothtrap.core.facts.loss_terms import AgreeingLosses  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def network(inputs: int, outputs: int) -> keras.Model:
    layers = [keras.layers.Dense(16, activation="relu"), keras.layers.Dense(outputs)]
    return keras.Sequential([keras.Input((inputs,)), *layers])


def game(*, ours: float = 1.0, theirs: float = 0.0, joint: bool = False) -> list[AgreeingLosses]:
    """Train a GAN with these labels of generated examples; `joint`: with one loss for both."""
    keras.utils.set_random_seed(0)
    generator, discriminator = network(3, 2), network(2, 1)
    optimizers = keras.optimizers.Adam(1e-3), keras.optimizers.Adam(1e-3)
    loss = keras.losses.BinaryCrossentropy(from_logits=True)

    @tf.function
    def step(noise: tf.Tensor, real: tf.Tensor) -> None:
        with tf.GradientTape() as of_generator, tf.GradientTape() as of_discriminator:
            made, given = discriminator(generator(noise)), discriminator(real)
            won = loss(ours * tf.ones_like(made), made)
            lost = loss(tf.ones_like(given), given) + loss(theirs * tf.ones_like(made), made)
        first, second = generator.trainable_variables, discriminator.trainable_variables
        gradients = of_generator.gradient(lost if joint else won, first)
        optimizers[0].apply_gradients(zip(gradients, first, strict=True))
        gradients = of_discriminator.gradient(lost, second)
        optimizers[1].apply_gradients(zip(gradients, second, strict=True))

    rng, process = np.random.default_rng(0), Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        for _ in range(10):
            real = rng.normal(2.0, 0.1, (16, 2)).astype("float32")
            step(rng.normal(size=(16, 3)).astype("float32"), real)
    return [one for one in process.facts() if isinstance(one, AgreeingLosses)]


def test_opposite_labels_are_fine() -> None:
    assert game() == []
    assert game(ours=0.9) == []


@pytest.mark.parametrize("label", [0, 1])
def test_equal_labels_are_reported(label: int) -> None:
    [one] = game(ours=float(label), theirs=float(label))
    assert (one.label, one.looks, one.unused) == (label, 8, False)
    assert "test_agreeing_losses.py" in (one.location or "")


def test_a_loss_that_is_not_differentiated_is_reported() -> None:
    [one] = game(joint=True)
    assert one.unused
