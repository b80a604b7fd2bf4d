"""Recurrent layers that keep their state from batch to batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.adapters.tensorflow import ADAPTER as BASE  # noqa: E402
from mothtrap.core.facts.data import StatesKept  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

X = np.random.default_rng(0).normal(size=(16, 3, 2)).astype("float32")


class Resets(keras.callbacks.Callback):
    """Resets the states before each batch."""

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        for layer in self.model.layers:
            if hasattr(layer, "reset_states"):
                layer.reset_states()


def kept(*, stateful: bool = True, **options: Any) -> list[StatesKept]:
    """Return what is told about a fit of a recurrent model."""
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        layers = [keras.layers.GRU(4, stateful=stateful, name="memory"), keras.layers.Dense(1)]
        model = keras.Sequential([keras.Input(batch_shape=(4, 3, 2)), *layers])
        model.compile("sgd", "mse")
        model.fit(X, X[:, 0, :1], batch_size=4, verbose=0, **options)
    return [one for one in process.facts() if isinstance(one, StatesKept)]


@pytest.mark.parametrize("shuffle", [True, False])
def test_stateful_layers_and_the_order_of_the_rows_are_told(shuffle: bool) -> None:
    [one] = kept(shuffle=shuffle)
    assert (one.shuffled, one.batches) == (shuffle, 4)
    assert [name.rpartition("/")[2] for name in one.layers] == ["memory"]


def test_layers_without_a_state_and_states_that_may_be_reset_are_not_told() -> None:
    assert not kept(stateful=False)
    assert not kept(callbacks=[Resets()])
    assert kept(callbacks=[keras.callbacks.EarlyStopping(monitor="loss")])
