"""Errors that people meet most are told in words, with what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters.tensorflow import names  # noqa: E402
from mothtrap.adapters.tensorflow.errors import explain  # noqa: E402
from mothtrap.tracing import frames  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

X = np.random.default_rng(0).random((40, 6)).astype("float32")
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


CASES: dict[str, tuple[Callable[[], object], str, str]] = {
    "label": (
        lambda: fit([Dense(3, "softmax")], np.full(40, 3), "sparse_categorical_crossentropy"),
        "label",
        "a label is 3, but the model has outputs for 3 classes",
    ),
    "gather": (
        lambda: fit([keras.layers.Embedding(10, 4), Dense(1)], ZEROS, x=np.full((40, 6), 10)),
        "index",
        "index 10, at place [0,0], is looked up in a table of 10 rows",
    ),
    "matmul": (
        through(lambda x: tf.matmul(x, tf.reshape(x, (-1, 3)))),
        "shape",
        "tensors of shapes (8,6) and (16,3) do not go together in",
    ),
    "concat": (
        through(lambda x: tf.concat([x, tf.reshape(x, (-1, 1))], 1)),
        "shape",
        "tensors are concatenated in",
    ),
    "input": (
        lambda: keras.Sequential([keras.Input((6,)), Dense(1)])(np.ones((2, 5), "float32")),
        "shape",
        "expected axis -1 of input shape to have value 6",
    ),
    "target": (
        lambda: fit([Dense(10, "softmax")], ZEROS, "categorical_crossentropy"),
        "shape",
        "targets of shape (8, 1) are compared with outputs of shape (8, 10)",
    ),
    "branch": (
        lambda: tf.function(lambda x: 1 if x > 0 else 0, autograph=False)(tf.constant(1.0)),
        "graph",
        "Python decides by a value",
    ),
    "numpy": (through(lambda x: tf.constant(np.log(x))), "graph", "code of numpy is given"),
    "variable": (variables_in_each_call, "graph", "makes a variable in each call"),
    "rows": (lambda: fit([Dense(1)], ZEROS[1:]), "data", "x has 40 rows and y has 39"),
    "objects": (
        lambda: fit([Dense(1)], ZEROS, x=np.array([[1, "a"]] * 40, dtype=object)),
        "dtype",
        "objects of Python",
    ),
    "gradients": (without_gradient, "graph", "no weight has a gradient"),
    "elements": (
        lambda: fit([Dense(3)], ZEROS[:, [0, 0]], lambda t, p: tf.reduce_mean(tf.square(t - p))),
        "shape",
        "tensors of shapes (8,2) and (8,3) do not go together",
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
    assert found.fixes
    assert not any("other" in line for line in found.inputs)


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

    frames.generated.append(names.line_before_autograph)
    try:
        branching(tf.constant(1.0))
    finally:
        frames.generated.remove(names.line_before_autograph)
    line = branching.python_function.__code__.co_firstlineno + 4
    assert places[0] is not None
    assert places[0].endswith(f"test_errors.py:{line}")
