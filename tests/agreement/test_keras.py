"""Keras' facts of the batch, on TensorFlow."""

from __future__ import annotations

import pytest

pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from tests.agreement import batch, golden, stored  # noqa: E402

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402


def network(kind: str) -> keras.Model:
    last_weight, last_bias = batch.last_layer(kind)
    model = keras.Sequential(
        [
            keras.Input((batch.FEATURES,)),
            keras.layers.Dense(batch.HIDDEN),
            keras.layers.Activation("relu"),
            keras.layers.Dense(len(last_bias)),
        ]
    )
    model.set_weights([batch.W1, batch.B1, last_weight, last_bias])
    return model


def train(kind: str) -> Process:
    """Make a few steps on the batch, each followed by an evaluation."""
    keras.utils.clear_session()  # names are counted from the start, whatever ran before
    process = Process("numpy")
    with process.watched(ADAPTER):
        model = network(kind)
        x, y = batch.data(kind)
        classes = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        loss = classes if kind == "classes" else "mean_squared_error"
        model.compile(keras.optimizers.SGD(batch.RATE), loss)
        for _ in range(batch.STEPS):
            model.fit(x, y, batch_size=batch.ROWS, shuffle=False, verbose=0)
            model.evaluate(x, y, batch_size=batch.ROWS, verbose=0)
    return process


@pytest.mark.filterwarnings("ignore")
@pytest.mark.smoke
@pytest.mark.parametrize("kind", stored.KINDS)
def test_facts_agree(kind: str) -> None:
    facts = train(kind).facts()
    stored.assert_agrees("keras", kind, facts)
    golden.assert_unchanged("keras", kind, facts)
