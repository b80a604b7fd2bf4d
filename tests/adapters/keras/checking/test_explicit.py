"""`mothtrap.check` of compiled Keras models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

keras = pytest.importorskip("keras")

import numpy as np  # noqa: E402

from mothtrap.core.errors import MothtrapError  # noqa: E402
from mothtrap.core.facts.checks import CheckResult  # noqa: E402
from mothtrap.session.explicit_check import check  # noqa: E402

ROWS = 32


def table(columns: int = 6) -> list[tuple[Any, Any]]:
    """Return batches of random rows with classes that depend on them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3 * ROWS, columns)).astype("float32")
    y = (x[:, 0] > 0).astype("int64")
    return list(zip(np.split(x, 3), np.split(y, 3), strict=True))


def compiled(*layers: Any, outputs: str | None = "softmax", rate: float = 0.02) -> Any:
    """Return a compiled classifier of two classes."""
    keras.utils.set_random_seed(0)
    last = keras.layers.Dense(2, activation=outputs)
    model = keras.Sequential([keras.Input((6,)), *layers, last])
    model.compile(keras.optimizers.Adam(rate), "sparse_categorical_crossentropy")
    return model


def results(model: Any, batches: Sequence[Any], *codes: str) -> dict[str, CheckResult]:
    """Run checks and return their results by code."""
    made = check(model, batches, select=codes).results
    return {one.code: one for one in made}


@pytest.fixture(scope="module")
def healthy() -> dict[str, CheckResult]:
    """Run the checks on a model that learns."""
    model = compiled(keras.layers.Dense(16, activation="relu"))
    before = [np.array(w) for w in model.get_weights()]
    made = results(model, table(), "PRE1", "STR707")
    assert all(map(np.array_equal, before, model.get_weights()))
    return made


@pytest.mark.parametrize(
    "code", ["PRE101", "PRE103", "PRE104", "PRE105", "PRE106", "PRE107", "PRE109", "STR707"]
)
def test_a_healthy_model_passes(healthy: dict[str, CheckResult], code: str) -> None:
    assert (healthy[code].state, healthy[code].found) == ("done", ())


def test_checks_that_need_float64_say_why_they_are_left_out(
    healthy: dict[str, CheckResult],
) -> None:
    assert healthy["PRE110"].state == "not_applicable"
    assert "precision" in healthy["PRE110"].reason


def test_a_softmax_too_many_is_named() -> None:
    model = compiled(keras.layers.Dense(16, activation="relu"))
    model.add(keras.layers.Rescaling(1.0))  # hides the softmax from Keras
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.1), loss)
    [found] = results(model, table(), "PRE104")["PRE104"].found
    assert found.severity == "error"
    assert "softmax before cross_entropy" in found.message


def test_a_layer_that_mixes_rows_is_named() -> None:
    class Centered(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            return x - keras.ops.mean(x, axis=0, keepdims=True)

    model = compiled(Centered(name="centered"))
    [found] = results(model, table(), "STR707")["STR707"].found
    assert found.severity == "error"
    assert found.layers == ("centered",)


def test_a_layer_behind_stop_gradient_is_named() -> None:
    stopped = keras.layers.Lambda(keras.ops.stop_gradient)
    model = compiled(keras.layers.Dense(4, name="first"), stopped)
    [found] = results(model, table(), "PRE101")["PRE101"].found
    assert "first" in found.message
    assert found.evidence["cut"] == "detached"


def test_a_layer_whose_output_is_unused_is_named() -> None:
    inputs = keras.Input((6,))
    lost = keras.layers.Dense(4, name="lost")(inputs)
    outputs = keras.layers.Dense(2, activation="softmax")(inputs + 0 * keras.ops.sum(lost))
    model = keras.Model(inputs, outputs)
    model.compile("adam", "sparse_categorical_crossentropy")
    [found] = results(model, table(), "PRE101")["PRE101"].found
    assert found.layers[0].startswith("lost")


def test_a_layer_that_belongs_to_no_model_is_named() -> None:
    inputs = keras.Input((6,))
    hidden = keras.layers.Dense(8, activation="relu")(inputs)
    lost = keras.layers.Dense(8, name="forgotten")(hidden)
    seen = keras.layers.Dense(4, name="inspected")(hidden)
    inspected = keras.Model(inputs, seen)
    outputs = keras.layers.Dense(2, activation="softmax")(hidden)
    model = keras.Model(inputs, outputs)
    model.compile("adam", "sparse_categorical_crossentropy")
    [found] = results(model, table(), "PRE501")["PRE501"].found
    assert found.layers == ("forgotten",)
    assert (lost.shape, inspected.name) != ((), "")  # keeps both objects alive until here


def test_an_input_that_is_multiplied_by_0_is_named() -> None:
    model = compiled(keras.layers.Rescaling(0.0), keras.layers.Dense(8), rate=1e-4)
    batches = [(x, (x[:, 0] > 1).astype("int64")) for x, _ in table()]
    [found] = results(model, batches, "PRE105")["PRE105"].found
    assert found.severity == "error"


def test_a_slow_rate_is_no_model_without_input() -> None:
    model = compiled(keras.layers.Dense(8, activation="relu"), rate=1e-5)
    assert results(model, table(), "PRE105")["PRE105"].found == ()


def pictures(model_of: Any) -> Any:
    """Run PRE106 on three-channel pictures, with a model built by the given function."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((8, 8, 3))
    hidden = keras.layers.Conv2D(4, 3, strides=2, activation="relu")(model_of(inputs))
    outputs = keras.layers.Dense(2, activation="softmax")(keras.layers.Flatten()(hidden))
    model = keras.Model(inputs, outputs)
    model.compile("adam", "sparse_categorical_crossentropy")
    x = np.random.default_rng(0).normal(size=(ROWS, 8, 8, 3)).astype("float32")
    return results(model, [(x, (x.mean((1, 2, 3)) > 0).astype("int64"))], "PRE106")["PRE106"]


def test_a_channel_that_a_slice_drops_is_named() -> None:
    [found] = pictures(lambda x: x[..., :2]).found
    assert found.message.startswith("1 of 3 channels of the input")
    assert found.evidence["columns"] == [2.0]


def test_pixels_at_the_edge_that_a_stride_leaves_out_are_no_fault() -> None:
    made = pictures(lambda x: x)
    assert (made.state, made.found) == ("done", ())


def test_dropout_that_is_always_on_is_a_note() -> None:
    class Always(keras.layers.Dropout):
        def call(self, inputs: Any, training: bool = False) -> Any:
            return super().call(inputs, training=True)

    [found] = results(compiled(Always(0.5)), table(), "PRE109")["PRE109"].found
    assert found.severity == "info"


def test_a_model_that_is_not_compiled_is_refused() -> None:
    with pytest.raises(MothtrapError, match="call `compile`"):
        check(keras.Sequential([keras.Input((6,)), keras.layers.Dense(2)]), table())
