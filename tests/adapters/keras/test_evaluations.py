"""Models that run outside any tape: evaluations are described, everything else is ignored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.adapters.tensorflow import ADAPTER as BASE  # noqa: E402
from mothtrap.core.facts.captures import Blind, ToolError  # noqa: E402
from mothtrap.core.facts.data import InputDistribution  # noqa: E402
from mothtrap.core.facts.evaluations import Evaluation, EvaluationPhase  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = [pytest.mark.smoke, pytest.mark.filterwarnings("ignore")]

X = np.random.default_rng(0).normal(size=(40, 6)).astype("float32")
Y = (X[:, 0] > 0).astype("int64")
STEPS = 5


@contextmanager
def watching() -> Iterator[Process]:
    keras.utils.set_random_seed(0)
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        yield process


def made(*layers: Any, inputs: int = 6) -> Any:
    return keras.Sequential([keras.Input((inputs,)), *layers, keras.layers.Dense(2)], name="net")


def stepping(model: Any) -> Any:
    """Return a function that makes one training step of a model on a batch."""
    optimizer = keras.optimizers.SGD(0.1)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

    return step


def of_kind(process: Process, kind: type) -> list[Any]:
    return [fact for fact in process.facts() if isinstance(fact, kind)]


def test_a_trained_model_is_exported_as_ever(tmp_path: Path) -> None:
    with watching() as process:
        model = made()
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(X, Y, validation_data=(X, Y), verbose=0)
        model.predict(X, verbose=0)

        class Served(tf.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = model

            @tf.function(input_signature=[tf.TensorSpec((None, 6), tf.float32)])
            def __call__(self, x: Any) -> Any:
                return self.model(x, training=False)

        served = Served()
        expected = served(X).numpy()
        tf.saved_model.save(served, str(tmp_path / "served"))
        model.export(str(tmp_path / "exported"), verbose=False)
    assert (tf.saved_model.load(str(tmp_path / "served"))(X).numpy() == expected).all()
    assert not of_kind(process, ToolError)


def test_models_in_a_pipeline_stay_what_they_are() -> None:
    with watching() as process:
        model = made()
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(X, Y, verbose=0)
        noise = keras.Sequential([keras.layers.GaussianNoise(0.1), keras.layers.GaussianNoise(0.1)])
        batches = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)
        mapped = batches.map(lambda x, y: (noise(noise(x, training=True), training=True), y))
        model.fit(mapped, verbose=0)
    assert len(process.steps()) == 2 + 5
    assert not of_kind(process, ToolError)


@pytest.mark.parametrize("kind", ["sparse", "text", "dict"])
def test_inputs_that_are_no_plain_numbers_do_no_harm(kind: str) -> None:
    with watching() as process:
        if kind == "sparse":
            inputs: Any = keras.Input((6,), sparse=True)
            model = keras.Model(inputs, keras.layers.Dense(2)(inputs))
            given: Any = tf.sparse.from_dense(X)
        elif kind == "text":
            lookup = keras.layers.StringLookup(vocabulary=["a", "b"], output_mode="multi_hot")
            inputs = keras.Input((1,), dtype="string")
            model = keras.Model(inputs, keras.layers.Dense(2)(lookup(inputs)))
            given = tf.constant([["a"], ["b"]] * 20)
        else:
            parts = {"wide": keras.Input((6,), name="wide"), "deep": keras.Input((6,), name="deep")}
            merged = keras.layers.Concatenate()(list(parts.values()))
            model = keras.Model(parts, keras.layers.Dense(2)(merged))
            given = {"wide": tf.constant(X), "deep": tf.constant(X * 100)}
        step = stepping(model)
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        for _ in range(3):
            for _ in range(STEPS):
                step(given, Y)
            loss_of(Y, model(given, training=False))
        step(given, Y)
    assert len(process.steps()) == 3 * STEPS + 1
    assert len(of_kind(process, Evaluation)) == 3
    assert not of_kind(process, InputDistribution)
    assert not of_kind(process, ToolError)
    assert not [one for one in of_kind(process, Blind) if "evaluation" in one.what]


@pytest.mark.parametrize("as_array", [True, False])
def test_many_passes_with_dropout_are_no_mistake(as_array: bool) -> None:
    with watching() as process:
        model = made(keras.layers.Dropout(0.5))
        step = stepping(model)
        rows = X if as_array else tf.constant(X)
        for _ in range(3):
            for _ in range(STEPS):
                step(X, Y)
            np.stack([model(rows, training=True) for _ in range(20)])
        step(X, Y)
    phases = of_kind(process, EvaluationPhase)
    assert [(phase.forwards, phase.repeated) for phase in phases] == [(20, True)] * 3
    assert "STR704" not in {finding.code for finding in process.findings()}


def test_a_loss_is_that_of_the_model_that_gave_the_prediction() -> None:
    with watching() as process:
        model, other = made(keras.layers.Dropout(0.5)), made(keras.layers.Dropout(0.5))
        steps = [stepping(model), stepping(other)]
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        for _ in range(3):
            for step in steps * STEPS:
                step(X, Y)
            other(X, training=True)
            loss_of(Y, model(X, training=False))
        steps[0](X, Y)
    phases = of_kind(process, EvaluationPhase)
    assert {(phase.trains, phase.labelled) for phase in phases} == {(True, 0), (False, 1)}


def test_a_model_that_no_optimizer_holds_is_not_evaluated() -> None:
    with watching() as process:
        model, teacher = made(), made(keras.layers.Dropout(0.5))
        step = stepping(model)
        for _ in range(3 * STEPS):
            teacher(X, training=True)
            step(X, Y)
    assert not of_kind(process, EvaluationPhase)


def test_of_a_weighted_loss_the_loss_of_guessing_is_not_known() -> None:
    with watching() as process:
        model = made()
        step = stepping(model)
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        step(X, Y)
        loss_of(Y, model(X, training=False))
        loss_of(Y, model(X, training=False), np.ones(40, "float32"))
        step(X, Y)
    plain, weighted = of_kind(process, Evaluation)
    assert plain.value == pytest.approx(weighted.value)
    assert plain.guess is not None
    assert weighted.guess is None


def test_many_shapes_of_prediction_do_not_push_the_step_out() -> None:
    with watching() as process:
        model = made()
        step = stepping(model)
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

        @tf.function
        def evaluate(x: Any, y: Any) -> Any:
            return loss_of(y, model(x, training=False))

        for rows in range(2, 26):
            step(X, Y)
            evaluate(X[:rows], Y[:rows])
        step(X, Y)
    assert len(process.steps()) == 25
    assert [one.rows for one in of_kind(process, Evaluation)] == list(range(2, 26))


@pytest.mark.parametrize("kind", ["sparse", "hot", "soft"])
def test_a_loss_of_tf_nn_is_an_evaluation(kind: str) -> None:
    """The loss from guessing is not known for soft targets."""
    targets = {"sparse": Y, "hot": np.eye(2)[Y], "soft": np.eye(2)[Y] * 0.8 + 0.1}[kind]
    targets = targets if kind == "sparse" else targets.astype("float32")
    name = f"{'sparse_' * (kind == 'sparse')}softmax_cross_entropy_with_logits"
    with watching() as process:
        model, loss_of = made(), getattr(tf.nn, name)
        step, mean = stepping(model), keras.metrics.Mean()

        @tf.function
        def test(x: Any, y: Any) -> None:
            mean.update_state(loss_of(labels=y, logits=model(x, training=False)))

        for _ in range(3):
            step(X, Y)
            mean.reset_state()
            for begin in (0, 20):
                test(X[begin : begin + 20], targets[begin : begin + 20])
            expected = float(mean.result())
    found = of_kind(process, Evaluation)
    assert len(found) == 3
    assert found[-1].value == pytest.approx(expected, rel=1e-5)
    assert found[-1].rows == 40
    assert (found[-1].guess is None) == (kind == "soft")
    assert "test_evaluations.py" in found[-1].location
