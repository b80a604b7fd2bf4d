"""Keras networks on their own backend: outputs, gradients, class maps and idle channels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("keras")
pytest.importorskip("sklearn")

import keras
from sklearn.datasets import load_digits

from mothtrap.adapters._models.keras import wrap
from mothtrap.behavior.attribution import attribute
from mothtrap.behavior.inside import Margin
from mothtrap.behavior.latent import latent_chart
from mothtrap.behavior.probes.idle_units import IdleUnits
from mothtrap.behavior.pruning import pruning_curve
from mothtrap.behavior.subject import Subject
from mothtrap.behavior.subjects import Request, make_subject

ROWS = np.arange(10)


def subject_of(model: Any, X: Any, y: Any) -> Subject:
    found = wrap(model)
    inside = Request(network=found.network)
    return make_subject(found.predict, X, y, None, inside)[0]


@pytest.fixture(scope="module")
def subject() -> Subject:
    keras.utils.set_random_seed(0)
    X, y = load_digits(return_X_y=True)
    X = (X / 16).reshape(-1, 8, 8, 1).astype("float32")
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(8, 3, padding="same", name="first"),
            keras.layers.ReLU(),
            keras.layers.Conv2D(8, 3, padding="same", activation="relu", name="maps"),
            keras.layers.Dropout(0.3),
            keras.layers.Flatten(),
            keras.layers.Dense(10, activation="softmax", name="last"),
        ]
    )
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
    model.fit(X[:1000], y[:1000], epochs=4, batch_size=64, verbose=0)
    return subject_of(model, X[1000:], y[1000:])


def test_the_gradient_is_that_of_the_outputs(subject: Subject) -> None:
    network = subject.options.network
    assert network is not None
    rows = subject.table.data[:8]
    output = network.outputs(rows)
    margin = Margin.of(subject, output)
    found = network.gradient(rows, margin.weights(output))
    assert found.shape == rows.shape
    step = 1e-2 * np.sign(found)
    higher = margin.values(network.outputs(rows + step))
    lower = margin.values(network.outputs(rows - step))
    wanted = (found * step).reshape(8, -1).sum(axis=1)
    assert np.allclose((higher - lower) / 2, wanted, rtol=0.1)


def test_the_gradient_at_a_layer_explains_the_outputs(subject: Subject) -> None:
    network = subject.options.network
    assert network is not None
    rows = subject.table.data[:4]
    layers = network.layers(rows)
    kinds = [(each.name.rpartition("/")[2], each.kind) for each in layers]
    assert ("first", "convolution") in kinds
    assert ("last", "linear") in kinds
    maps = next(each for each in layers if each.name.endswith("maps"))
    assert maps.values.shape == (4, 8, 8, 8)
    output = network.outputs(rows)
    margin = Margin.of(subject, output)
    slope = network.gradient(rows, margin.weights(output), maps.name)
    assert slope.shape == maps.values.shape
    last = subject.options.network._model.layers[-1].get_weights()  # type: ignore[union-attr]
    wanted = (last[0][:, margin.first_R] - last[0][:, margin.second_R]).T.reshape(slope.shape)
    assert np.allclose(slope, wanted, atol=1e-3)  # the margin is linear in the maps


def test_attributions_and_maps_of_a_keras_model(subject: Subject) -> None:
    before = subject.ask(subject.table)
    found = attribute(subject, ROWS, "integrated_gradients")
    assert found.values.shape == (10, 8, 8, 1)
    assert found.gap <= 0.05
    maps = attribute(subject, ROWS, "grad_cam")
    assert maps.values.shape == (10, 8, 8)
    assert maps.layer.startswith(("maps", "dropout"))  # Keras counts names in a process
    assert maps.randomized < 0.7
    assert np.array_equal(subject.ask(subject.table), before)
    assert len(latent_chart(subject)["data"]["values"]) == len(subject.judged)


def test_the_channels_that_matter_least_are_held_first(subject: Subject) -> None:
    before = subject.ask(subject.table)
    curve = pruning_curve(subject)
    assert curve.units == 16
    assert curve.scores[0] > 0.85
    assert curve.scores[1] > curve.scores[-1] + 0.3
    assert np.array_equal(subject.ask(subject.table), before)


def test_dead_channels_of_a_keras_model_are_named() -> None:
    keras.utils.set_random_seed(0)
    X = np.random.default_rng(0).normal(size=(300, 4)).astype("float32")
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(12, activation="relu", name="hidden"),
            keras.layers.Dense(2, activation="softmax"),
        ]
    )
    hidden = model.get_layer("hidden")
    weights, bias = hidden.get_weights()
    bias[:3] = -100.0
    hidden.set_weights([weights, bias])
    (found,) = IdleUnits().look(subject_of(model, X, (X[:, 0] > 0).astype(int)))
    assert found.evidence["dead"] == [0, 1, 2]
    assert hidden.call.__func__ is keras.layers.Dense.call  # the method is no longer replaced
