"""Recurrent layers that get sequences of one time step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.adapters.tensorflow import ADAPTER as BASE  # noqa: E402
from mothtrap.core.facts.layers import SingleTimeSteps  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def told(model: Any, *inputs: Any) -> list[SingleTimeSteps]:
    """Return what is told about a training of a model."""
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        model.compile("sgd", "mse")
        given = inputs[0] if len(inputs) == 1 else list(inputs)
        model.fit(given, np.zeros((8, 1), "float32"), batch_size=8, epochs=2, verbose=0)
    return [one for one in process.facts() if isinstance(one, SingleTimeSteps)]


def network(shape: tuple[int | None, ...], **options: Any) -> Any:
    """Return a model with two recurrent layers."""
    first = keras.layers.LSTM(3, return_sequences=True, name="first", **options)
    second = keras.layers.GRU(3, name="second", **options)
    return keras.Sequential([keras.Input(batch_shape=shape), first, second, keras.layers.Dense(1)])


def test_layers_that_see_one_time_step() -> None:
    [one] = told(network((8, 1, 5)), np.ones((8, 1, 5), "float32"))
    assert one.features == 5
    assert [name.rpartition("/")[2] for name in one.layers] == ["first", "second"]


def test_longer_sequences_kept_states_and_given_states_are_fine() -> None:
    ones = np.ones((8, 1, 5), "float32")
    assert not told(network((8, 4, 5)), np.ones((8, 4, 5), "float32"))
    assert not told(network((8, 1, 5), stateful=True), ones)
    assert not told(network((8, None, 5)), ones)
    given, state = keras.Input((1, 5)), keras.Input((3,))
    made = keras.layers.Dense(1)(keras.layers.GRU(3)(given, initial_state=state))
    assert not told(keras.Model([given, state], made), ones, np.ones((8, 3), "float32"))
