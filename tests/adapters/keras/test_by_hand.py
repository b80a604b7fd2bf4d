"""Steps of Keras models whose weights the script assigns itself, without an optimizer."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.adapters.tensorflow import ADAPTER as BASE  # noqa: E402
from mothtrap.core.facts.losses import LossCall  # noqa: E402
from mothtrap.core.facts.optimizers import UpdateDirection  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = [pytest.mark.smoke, pytest.mark.filterwarnings("ignore")]

X = np.random.default_rng(0).normal(size=(64, 6)).astype("float32")
Y = (X[:, 0] > 0).astype("int64")
STEPS = 12


def train(*, compiled: bool, sign: float) -> Process:
    """Descend (sign -1) or ascend by hand; return what was recorded."""
    keras.utils.set_random_seed(0)
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2)])
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

        def step(x: object, y: object) -> object:
            with tf.GradientTape() as tape:
                loss = loss_of(y, model(x, training=True))
            weights = model.trainable_variables
            for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
                weight.assign_add(sign * 0.5 * gradient)
            return loss

        step = tf.function(step) if compiled else step
        for _ in range(STEPS):
            step(X, Y)
    return process


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_each_assignment_is_a_step_with_its_loss_and_direction(compiled: bool, sign: float) -> None:
    process = train(compiled=compiled, sign=sign)
    assert [optimizers for _, optimizers in process.steps()] == [("tape",)] * STEPS
    facts = process.facts()
    cosines = [one.cosines for one in facts if isinstance(one, UpdateDirection)]
    assert len(cosines) == 8
    assert np.sign(cosines).tolist() == [[sign, sign]] * 8
    assert {one.operation for one in facts if isinstance(one, LossCall)} == {"cross_entropy"}
    named = {finding.code for finding in process.findings() if finding.severity.value == "error"}
    assert ("LOS410" in named) == (sign > 0)


def test_an_optimizer_makes_the_steps_where_there_is_one() -> None:
    keras.utils.set_random_seed(0)
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2)])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(X, Y, batch_size=16, epochs=2, verbose=0)
    [[name]] = {optimizers for _, optimizers in process.steps()}
    assert name.startswith("sgd")
