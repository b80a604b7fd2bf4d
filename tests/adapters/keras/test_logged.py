"""`mothtrap.log` inside programs: in `call`, in `train_step`, under XLA, and on two replicas."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

import tensorflow as tf  # noqa: E402

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.capture.logged import Logged  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

X = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
Y = X.sum(axis=1, keepdims=True)


class Notes:
    """Replaces `mothtrap.log` in runs without mothtrap; does nothing."""

    to: Logged | None = None

    def log(self, name: str, value: tf.Tensor) -> None:
        if self.to is not None:
            self.to.number(name, value)

    def log_tensor(self, name: str, value: tf.Tensor) -> None:
        if self.to is not None:
            self.to.tensor(name, value)


NOTES = Notes()


@pytest.fixture
def process() -> Iterator[Process]:
    made = Process(ADAPTER.arrays)
    NOTES.to = Logged(made.recorder, made.said.append)
    yield made
    NOTES.to = None


class Noted(keras.Model):
    """A model that logs in its `call` and in its step."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = keras.layers.Dense(1)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        found = self.inside(x)
        NOTES.log("greatest", tf.reduce_max(found))
        NOTES.log_tensor("found", found)
        return found

    def train_step(self, data: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x) - y))
        gradients = tape.gradient(loss, self.trainable_variables)
        NOTES.log("norm", tf.linalg.global_norm(gradients))
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"loss": loss}


def trained(*, jit_compile: bool) -> bytes:
    keras.utils.set_random_seed(1)
    model = Noted()
    model.compile("sgd", jit_compile=jit_compile)
    model.fit(X, Y, batch_size=8, epochs=1, verbose=0)
    return b"".join(weight.tobytes() for weight in model.get_weights())


@pytest.mark.parametrize("jit_compile", [False, True])
def test_values_of_programs_come_with_their_steps(process: Process, jit_compile: bool) -> None:
    with process.watched(ADAPTER):
        watched = trained(jit_compile=jit_compile)
    logged = [(s.name, r.key.step) for r in process.records for s in r.scalars]
    assert [step for name, step in logged if name == "norm"] == [0, 1, 2, 3]
    assert [step for name, step in logged if name == "greatest"] == [0, 1, 2, 3]
    defined = {info.name: info.shape for r in process.records for _, info in r.defined}
    assert defined["found"] == (8, 1)
    assert ("XLA" in "".join(process.said)) is jit_compile
    NOTES.to = None
    assert jit_compile or trained(jit_compile=False) == watched
