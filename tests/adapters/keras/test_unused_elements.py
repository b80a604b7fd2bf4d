"""Custom loops that train on one batch, although their datasets have others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.adapters.tensorflow import ADAPTER as BASE  # noqa: E402
from mothtrap.core.facts.data import OneBatchUsed  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

STEPS, ROWS = 34, 8
X = np.random.default_rng(0).normal(size=(STEPS * ROWS, 6)).astype("float32")
Y = (X[:, 0] > 0).astype("int64")


def trained(kind: str, *, traced: bool) -> list[OneBatchUsed]:
    keras.utils.set_random_seed(0)
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        model, optimizer = keras.layers.Dense(2), keras.optimizers.SGD(0.1)
        model.build((None, 6))
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

        def step(x: Any, y: Any) -> None:
            with tf.GradientTape() as tape:
                loss = loss_of(y, model(x))
            weights = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

        act = tf.function(step) if traced else step
        data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(ROWS)
        first_x, first_y = next(iter(data))
        if kind == "restarted":
            for _ in range(STEPS):
                act(*next(iter(data)))
        elif kind == "meant":
            for _ in range(STEPS):
                act(first_x, first_y)
        elif kind == "validated":
            for x, y in data:
                act(X[-ROWS:], Y[-ROWS:])
                loss_of(y, model(x))
        elif kind == "one batch":
            whole = tf.data.Dataset.from_tensor_slices((X, Y)).batch(len(X))
            for _ in range(STEPS):
                act(*next(iter(whole)))
        else:
            for x, y in data:
                act(*((first_x, first_y) if kind == "thrown away" else (x, y)))
    return [one for one in process.facts() if isinstance(one, OneBatchUsed)]


@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.parametrize(("kind", "source"), [("restarted", "data"), ("thrown away", "")])
def test_one_batch_is_reported(kind: str, source: str, traced: bool) -> None:
    found = trained(kind, traced=traced)
    assert [(one.source, one.steps, one.rows) for one in found] == [(source, 32, ROWS)]
    assert found[0].unused >= 31
    assert "test_unused_elements.py" in (found[0].location or "")


@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.parametrize("kind", ["healthy", "meant", "one batch", "validated"])
def test_other_loops_are_not_reported(kind: str, traced: bool) -> None:
    assert not trained(kind, traced=traced)
