"""The most common errors are explained in words, with what to do."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters.keras.failed_fits import FailedFits  # noqa: E402
from mothtrap.adapters.tensorflow import internals  # noqa: E402
from mothtrap.adapters.tensorflow.errors import explain  # noqa: E402
from mothtrap.adapters.tensorflow.scene import MadeLayer, Scene  # noqa: E402
from mothtrap.tracing.source import frames  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

X = np.random.default_rng(0).random((40, 6)).astype("float32")
NUMBERS = np.arange(40) % 3
ONE_HOT = keras.utils.to_categorical(NUMBERS, 3)
ZEROS = np.zeros((40, 1), "float32")
Dense = keras.layers.Dense


def fit(layers: list[Any], y: np.ndarray, loss: Any = "mse", x: np.ndarray = X) -> None:
    model = keras.Sequential([keras.Input(x.shape[1:]), *layers])
    model.compile("sgd", loss)
    model.fit(x, y, batch_size=8, verbose=0)


def through(function: Callable[[tf.Tensor], tf.Tensor]) -> Callable[[], None]:
    class Through(keras.layers.Layer):
        def call(self, x: tf.Tensor) -> tf.Tensor:
            return function(x)

    return lambda: fit([Through(), Dense(1)], ZEROS)


def without_gradient() -> None:
    kernel = tf.Variable(tf.ones((6, 2)))
    with tf.GradientTape() as tape:
        loss = tf.cast(tf.argmax(X @ kernel, axis=1), tf.float32)
    optimizer = keras.optimizers.SGD()
    optimizer.apply_gradients(zip(tape.gradient(loss, [kernel]), [kernel], strict=True))


def variables_in_each_call() -> None:
    made = tf.function(lambda: tf.Variable(1.0))
    made()


def fit_with_metric(metric: str) -> None:
    model = keras.Sequential([keras.Input((6,)), Dense(3)])
    model.compile("sgd", "mse", metrics=[metric])
    model.fit(X, ONE_HOT, batch_size=8, verbose=0)


def fit_generator(batch: Callable[[], Any]) -> None:
    model = keras.Sequential([keras.Input((6,)), Dense(1)])
    model.compile("sgd", "mse")
    model.fit((batch() for _ in range(4)), steps_per_epoch=2, verbose=0)


def fit_other_than_the_signature() -> None:
    signature = tf.TensorSpec((None, 6)), tf.TensorSpec((None, 1))
    data = tf.data.Dataset.from_generator(lambda: iter([(X[:8],)]), output_signature=signature)
    model = keras.Sequential([keras.Input((6,)), Dense(1)])
    model.compile("sgd", "mse")
    model.fit(data, verbose=0)


class Raising(keras.layers.Layer):
    def call(self, x: tf.Tensor) -> tf.Tensor:
        raise ValueError("too few rows")


def without_output() -> None:
    class Returnless(keras.Model):
        def call(self, x: tf.Tensor) -> None:
            del x

    model = Returnless()
    model.compile("sgd", "mse")
    model.fit(X, ZEROS, batch_size=8, verbose=0)


CASES: dict[str, tuple[Callable[[], object], str, str]] = {
    "label": (
        lambda: fit([Dense(3, "softmax")], np.full(40, 3), "sparse_categorical_crossentropy"),
        "label",
        "a label is 3, but the model has outputs for 3 classes",
    ),
    "gather": (
        lambda: fit([keras.layers.Embedding(10, 4), Dense(1)], ZEROS, x=np.full((40, 6), 10)),
        "index",
        "index 10, at position [0,0], is looked up in a table of 10 rows",
    ),
    "matmul": (
        through(lambda x: tf.matmul(x, tf.reshape(x, (-1, 3)))),
        "shape",
        "tensors of shapes (8,6) and (16,3) cannot be combined in",
    ),
    "concat": (
        through(lambda x: tf.concat([x, tf.reshape(x, (-1, 1))], 1)),
        "shape",
        "are concatenated in",
    ),
    "input": (
        lambda: keras.Sequential([keras.Input((6,)), Dense(1)])(np.ones((2, 5), "float32")),
        "shape",
        "takes inputs with 6 features in the last axis, but got shape (2, 5)",
    ),
    "target": (
        lambda: fit([Dense(10, "softmax")], ZEROS, "categorical_crossentropy"),
        "shape",
        "class numbers of shape (8, 1) were passed to `categorical_crossentropy`",
    ),
    "axes": (
        lambda: keras.layers.Conv2D(2, 3)(np.ones((2, 8, 8), "float32")),
        "shape",
        "takes inputs with 4 axes, including the batch, but got shape (2, 8, 8)",
    ),
    "metric": (
        lambda: fit_with_metric("sparse_categorical_accuracy"),
        "label",
        "labels of shape (8,3) are compared with predicted classes of shape (8)",
    ),
    "list": (
        lambda: fit_generator(lambda: [X[:8], ZEROS[:8]]),
        "data",
        "the generator passed to `fit` does not yield tuples",
    ),
    "parts": (
        lambda: fit_generator(lambda: (X[:8], X[:8], ZEROS[:8], ZEROS[:8])),
        "data",
        "a batch has 4 parts",
    ),
    "signature": (
        fit_other_than_the_signature,
        "data",
        "does not match its `output_signature`",
    ),
    "none in": (
        through(lambda x: None),
        "data",
        "`call` of the model or of a layer returned nothing",
    ),
    "call": (
        lambda: Raising()(np.ones((2, 3), "float32")),
        "other",
        "`Raising.call` raised: too few rows",
    ),
    "none": (without_output, "data", "returned nothing, or labels are missing"),
    "branch": (
        lambda: tf.function(lambda x: 1 if x > 0 else 0, autograph=False)(tf.constant(1.0)),
        "graph",
        "Python branches or loops",
    ),
    "numpy": (through(lambda x: tf.constant(np.log(x))), "graph", "numpy code gets a tensor"),
    "variable": (variables_in_each_call, "graph", "creates a variable in each call"),
    "rows": (lambda: fit([Dense(1)], ZEROS[1:]), "data", "x has 40 rows and y has 39"),
    "objects": (
        lambda: fit([Dense(1)], ZEROS, x=np.array([[1, "a"]] * 40, dtype=object)),
        "dtype",
        "Python objects",
    ),
    "gradients": (without_gradient, "graph", "no weight has a gradient"),
    "elements": (
        lambda: fit([Dense(3)], ZEROS[:, [0, 0]], lambda t, p: tf.reduce_mean(tf.square(t - p))),
        "shape",
        "tensors of shapes (8,2) and (8,3) cannot be combined",
    ),
    "reshape": (
        through(lambda x: tf.reshape(x, (10, 6))),
        "shape",
        "a tensor of 48 values is reshaped to 60 values",
    ),
}


@pytest.mark.parametrize("name", list(CASES))
def test_the_error_is_told_with_its_place(name: str) -> None:
    act, kind, sentence = CASES[name]
    with pytest.raises(Exception) as raised:  # noqa: PT011
        act()
    found = explain(raised.value, 3, [("kernel", (6, 3)), ("other", (7, 7))])
    assert found is not None
    assert (found.kind, found.step) == (kind, 3)
    assert sentence in found.sentence
    assert found.location is not None
    assert "test_errors.py" in found.location
    assert found.fixes or kind == "other"
    assert not any("other" in line for line in found.inputs)


SPARSE, ONE_HOT_LOSS = "sparse_categorical_crossentropy", "categorical_crossentropy"
CLASSES = "Use `categorical_crossentropy` for one-hot labels, or pass class numbers: `y.argmax"
TO_ONE_HOT = "Use `sparse_categorical_crossentropy` for class numbers, or pass one-hot labels: "
LOSSES: dict[str, tuple[Any, int, np.ndarray, str, str]] = {
    "one-hot": (SPARSE, 3, ONE_HOT, "one-hot labels of shape (8, 3) were passed to", CLASSES),
    "numbers": (ONE_HOT_LOSS, 3, NUMBERS, "class numbers of shape (8,) were passed", TO_ONE_HOT),
    "fewer": (ONE_HOT_LOSS, 4, ONE_HOT, "3 classes against 4 units", "Give the last layer 3 units"),
    "binary": (
        "binary_crossentropy",
        2,
        NUMBERS > 0,
        "labels of shape (8,) were passed to `binary_crossentropy`",
        'Give the last layer one unit: `Dense(1, activation="sigmoid")`',
    ),
    "one unit": (
        "binary_crossentropy",
        1,
        ONE_HOT,
        "labels of shape (8, 3) were passed to `binary_crossentropy`",
        "Give the last layer 3 units",
    ),
    "mse": (
        "mean_squared_error",
        3,
        ZEROS[:, [0, 0]],
        "targets of shape (8, 2) are compared with outputs of shape (8, 3)",
        "Give the last layer 2 units, or the targets 3 columns.",
    ),
}


def train(loss: Any, units: int, y: np.ndarray, how: str) -> Any:
    """Train a model with `fit`, or in a loop whose step is a Python function or a `tf.function`."""
    model = keras.Sequential([keras.Input((6,)), Dense(units, "sigmoid")])
    if how == "fit":
        model.compile("sgd", loss)
        model.fit(X, y.astype("float32"), batch_size=8, verbose=0)
        return model

    def step(inputs: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(loss(labels, model(inputs)))
        return tape.gradient(value, model.trainable_variables)

    (tf.function(step) if how == "graph" else step)(X[:8], y[:8].astype("float32"))
    return model


@pytest.mark.parametrize("how", ["fit", "tape", "graph"])
@pytest.mark.parametrize("name", list(LOSSES))
def test_targets_that_do_not_fit_the_loss_are_told_by_its_name(name: str, how: str) -> None:
    loss, units, y, sentence, fix = LOSSES[name]
    function = loss if how == "fit" else getattr(keras.losses, loss)
    with pytest.raises(Exception) as raised:  # noqa: PT011
        train(function, units, y, how)
    scene = Scene(fitted=True, loss=loss, loss_at="a.py:3") if how == "fit" else Scene()
    found = explain(raised.value, 0, [], scene)
    assert found is not None
    assert found.sentence.startswith(sentence) or sentence in found.sentence
    assert f"`{loss}`" in found.sentence
    assert ("(chosen at a.py:3)" in found.sentence) == (how == "fit")
    assert found.fixes[0].startswith(fix)
    assert found.location is not None
    assert "test_errors.py" in found.location


@pytest.mark.parametrize(
    ("message", "sentence", "fix"),
    [
        (
            "logits and labels must have the same first dimension, got logits shape [32,10] and "
            "labels shape [320]",
            "one-hot labels of shape (32, 10) were passed to `sparse_categorical_crossentropy`",
            CLASSES,
        ),
        (
            "Received: target.shape=(None, 10), output.shape=(None, 10)",
            "which takes class numbers of shape (batch,); the output has shape (batch, 10)",
            CLASSES,
        ),
        (
            "Received: target.shape=(None,), output.shape=(None, 5, 10)",
            "one class number for each row of the output, shape (batch, 5)",
            "Reduce the output to one row per label",
        ),
        (
            "Received: target.shape=(None, 12), output.shape=(None, 5)",
            "labels of shape (batch, 12) were passed",
            "If each of the 12 positions of a sequence has a label, set "
            "`return_sequences=True` in the last recurrent layer",
        ),
        (
            "Input 0 with name 'None' of layer 'lstm_1' is incompatible with the layer: expected "
            "ndim=3, found ndim=2. Full shape received: (None, 16)",
            'layer "lstm_1" takes sequences with 3 axes, including the batch, but got shape '
            "(batch, 16)",
            "If a recurrent layer comes before it, set `return_sequences=True` there",
        ),
    ],
)
def test_shapes_are_told_with_the_batch_as_a_word(message: str, sentence: str, fix: str) -> None:
    found = explain(ValueError(message), 0, [], Scene(loss=SPARSE))
    assert found is not None
    assert sentence in found.sentence
    assert found.fixes[0].startswith(fix)


@pytest.mark.parametrize("loss", ["categorical_crossentropy", "mean_squared_error"])
def test_targets_for_each_position_need_all_outputs_of_a_recurrent_layer(loss: str) -> None:
    text = (
        "must have the same rank (ndim). Received: target.shape=(32, 4, 12), output.shape=(32, 12)"
    )
    found = explain(ValueError(text), 0, [], Scene(loss=loss))
    assert found is not None
    assert "targets of shape (32, 4, 12) are compared with outputs of shape (32, 12)" in (
        found.sentence
    )
    assert found.fixes[0].startswith(
        "If each of the 4 positions of a sequence has a target, set "
        "`return_sequences=True` in the last recurrent layer"
    )


@pytest.mark.parametrize("name", ["words", "tags", None])
def test_an_index_out_of_range_is_told_with_the_embedding(name: str | None) -> None:
    words = MadeLayer(name="words", kind="Embedding", location="a.py:3", rows=10)
    tags = dataclasses.replace(words, name="tags", location="a.py:4")
    node = f"Detected at node model_1/{name}_1/GatherV2 defined at\n" if name else ""
    error = ValueError(f"Graph execution error:\n\n{node}\nindices[0,2] = 11 is not in [0, 10)")
    found = explain(error, 1, [], Scene(layers=(words, tags)))
    assert found is not None
    assert found.error == "ValueError: indices[0,2] = 11 is not in [0, 10)"
    assert "`input_dim=12` or more" in found.fixes[0]
    line = {"words": 3, "tags": 4}.get(name or "")
    table = f'Embedding "{name}" (made at a.py:{line})' if name else "a table"
    assert f"is looked up in {table} of 10 rows" in found.sentence
    alone = explain(error, 1, [], Scene(layers=(words,)))
    assert alone is not None
    assert 'Embedding "words" (made at a.py:3)' in alone.sentence


def test_a_loss_without_gradients_is_told_by_its_name_and_without_a_tape() -> None:
    error = ValueError("No gradients provided for any variable.")
    found = explain(error, 0, [], Scene(fitted=True, loss="f1_loss"))
    assert found is not None
    assert "`f1_loss` was not computed from the outputs" in found.sentence
    told = " ".join(found.fixes)
    assert "tape" not in told
    assert all(word in told for word in ("`round`", "(`>`)", "`argmax`", "casts to int"))


@pytest.mark.parametrize("fails", [True, False])
def test_the_fit_that_failed_is_known(fails: bool) -> None:
    fits = FailedFits()
    model = train(keras.losses.SparseCategoricalCrossentropy(), 3, NUMBERS, "fit")
    error = ValueError("x")
    fits.note(error, model, (X,), {})
    scene = fits.scene(error if fails else ValueError("another"))
    assert scene.fitted == fails
    assert scene.loss == SPARSE * fails
    assert scene.unlabeled == fails
    found = explain(ValueError("None values not supported."), 0, [], scene)
    assert found is not None
    assert ("`fit` got no labels" in found.sentence) == fails


def test_an_error_of_the_users_own_is_not_explained() -> None:
    assert explain(KeyError("x"), 0, []) is None


def test_lines_of_converted_code_are_those_that_the_user_wrote() -> None:
    places: list[str | None] = []

    @tf.function
    def branching(x: tf.Tensor) -> tf.Tensor:
        if x > 0:
            x = -x
        places.append(frames.location(frames.user_frame()))
        return x

    frames.generated.append(internals.line_before_autograph)
    try:
        branching(tf.constant(1.0))
    finally:
        frames.generated.remove(internals.line_before_autograph)
    line = branching.python_function.__code__.co_firstlineno + 4
    assert places[0] is not None
    assert places[0].endswith(f"test_errors.py:{line}")
