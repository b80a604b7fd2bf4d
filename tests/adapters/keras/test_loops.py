"""Custom loops: evaluations, which no tape records, and agents that play a game."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.adapters.tensorflow import ADAPTER as BASE  # noqa: E402
from mothtrap.core.facts.compiling import UpdateDropped  # noqa: E402
from mothtrap.core.facts.data import InputDistribution  # noqa: E402
from mothtrap.core.facts.evaluations import (  # noqa: E402
    Evaluation,
    EvaluationPhase,
    TrainingMode,
)
from mothtrap.core.facts.losses import LossCall, LossSeries  # noqa: E402
from mothtrap.core.facts.modules import FrozenParameters  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = [pytest.mark.smoke, pytest.mark.filterwarnings("ignore")]

X = np.random.default_rng(0).normal(size=(40, 6)).astype("float32")
Y = (X[:, 0] > 0).astype("int64")
EPOCHS = 4


def train(*, compiled: bool, reduction: str) -> tuple[list[float], list[Evaluation]]:
    """Train and evaluate by hand; return the losses of the loop and what was recorded."""
    keras.utils.set_random_seed(0)
    process, losses = Process("numpy"), []
    with process.watched(BASE), process.watched(ADAPTER):
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2)])
        optimizer = keras.optimizers.SGD(0.1)
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        evaluated = keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction=reduction
        )

        def step(x: object, y: object) -> None:
            with tf.GradientTape() as tape:
                loss = loss_of(y, model(x, training=True))
            weights = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

        def evaluate(x: object, y: object) -> object:
            return tf.reduce_sum(evaluated(y, model(x, training=False)))

        if compiled:
            step, evaluate = tf.function(step), tf.function(evaluate)
        for _ in range(EPOCHS):
            for _ in range(3):
                step(X, Y)
            sums = [float(evaluate(X[rows], Y[rows])) for rows in (slice(0, 30), slice(30, 40))]
            means = np.dot(sums, (30, 10)) if reduction == "sum_over_batch_size" else sum(sums)
            losses.append(float(means) / 40)
        step(X, Y)
    return losses, [one for one in process.facts() if isinstance(one, Evaluation)]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "sum", "none"])
def test_each_evaluation_is_one_value_over_its_rows(compiled: bool, reduction: str) -> None:
    losses, seen = train(compiled=compiled, reduction=reduction)
    assert [one.value for one in seen] == pytest.approx(losses, rel=1e-6)
    assert [(one.rows, one.number) for one in seen] == [(40, n) for n in range(EPOCHS)]
    assert [one.step for one in seen] == [3, 6, 9, 12]
    zeros, ones = np.bincount(Y).tolist()
    assert seen[0].label_counts == (zeros, ones)
    shares = np.array([zeros, ones]) / 40
    entropy = pytest.approx(-(shares * np.log(shares)).sum())
    assert [one.guess for one in seen] == [entropy] * EPOCHS
    assert all((one.location or "").rpartition(":")[0].endswith("test_loops.py") for one in seen)


def test_evaluations_of_fit_are_those_of_keras_alone() -> None:
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2)])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(X, Y, epochs=2, validation_data=(X, Y), verbose=0)
        model.evaluate(X, Y, verbose=0)
    sites = [one.site.split()[0] for one in process.facts() if isinstance(one, Evaluation)]
    assert sites == ["validation", "validation", "evaluate"]


@pytest.mark.parametrize("compiled", [True, False])
def test_each_loss_of_a_game_has_its_own_optimizer(compiled: bool) -> None:
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        players = [keras.Sequential([keras.Input((6,)), keras.layers.Dense(6)]) for _ in range(2)]
        rates = [keras.optimizers.SGD(0.1, name=name) for name in ("first", "second")]
        loss_of = keras.losses.MeanSquaredError()

        def step(x: object) -> None:
            with tf.GradientTape() as mine, tf.GradientTape() as yours:
                own = loss_of(x, players[0](x, training=True))
                other = loss_of(players[0](x, training=True), players[1](x, training=True))
            for tape, loss, player, rate in zip(
                (mine, yours), (own, other), players, rates, strict=True
            ):
                weights = player.trainable_variables
                rate.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

        step = tf.function(step) if compiled else step
        for _ in range(3):
            step(X)
    series = [one for one in process.facts() if isinstance(one, LossSeries)]
    assert {one.optimizers for one in series} == {("first",), ("second",)}


def test_a_missing_flag_is_told_at_the_line_that_calls_the_model() -> None:
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        model = keras.Sequential(
            [keras.Input((6,)), keras.layers.Dropout(0.5), keras.layers.Dense(2)]
        )
        optimizer = keras.optimizers.SGD(0.1)
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        for _ in range(3):
            with tf.GradientTape() as tape:
                loss = loss_of(Y, model(X))  # the line
            weights = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
    [mode] = [one for one in process.facts() if isinstance(one, TrainingMode)]
    line = int((mode.location or "").rpartition(":")[2])
    assert linecache.getline(__file__, line).rstrip().endswith("# the line")


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("flag", [True, False])
def test_an_evaluation_tells_the_mode_in_which_the_model_runs(compiled: bool, flag: bool) -> None:
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        layers = [
            keras.layers.BatchNormalization(name="norm"),
            keras.layers.Dropout(0.5, name="drop"),
        ]
        model = keras.Sequential([keras.Input((6,)), *layers, keras.layers.Dense(2)], name="net")
        optimizer = keras.optimizers.SGD(0.1)
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

        def step(x: object, y: object) -> None:
            with tf.GradientTape() as tape:
                loss = loss_of(y, model(x, training=True))
            weights = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

        def evaluate(x: object, y: object) -> object:
            return loss_of(y, model(x, training=flag))

        if compiled:
            step, evaluate = tf.function(step), tf.function(evaluate)
        for _ in range(3):
            for _ in range(5):
                step(X, Y)
            evaluate(X[:20], Y[:20])
            evaluate(X[20:], Y[20:])
        step(X, Y)
    phases = [one for one in process.facts() if isinstance(one, EvaluationPhase)]
    assert [(p.module, p.forwards, p.labelled, p.trains) for p in phases] == [
        ("net", 2, 2, flag)
    ] * 3
    assert [(p.step, p.number, p.steps) for p in phases] == [(5, 0, 5), (10, 1, 5), (15, 2, 5)]
    assert phases[0].dropouts == (("drop",) if flag else ())
    assert phases[0].norms == (("net/norm",) if flag else ())
    assert not any(phase.repeated for phase in phases)


def test_the_scale_of_data_sets_is_told_in_training_and_in_evaluation() -> None:
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2)], name="net")
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        training = tf.data.Dataset.from_tensor_slices((X, Y)).batch(20)
        other = tf.data.Dataset.from_tensor_slices((X * 50, Y)).batch(20)
        model.fit(training, epochs=3, validation_data=other, verbose=0)
    seen = [one for one in process.facts() if isinstance(one, InputDistribution)]
    spread = {mode: [one.std for one in seen if one.mode == mode] for mode in ("train", "eval")}
    assert len(spread["train"]) >= 2
    assert spread["train"] == pytest.approx([1.0] * len(spread["train"]), rel=0.2)
    assert spread["eval"] == pytest.approx([50.0] * len(spread["eval"]), rel=0.2)
    assert {one.module for one in seen} == {"net"}


def test_arrays_that_fit_is_given_are_told_as_a_whole() -> None:
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2)])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(X, Y, epochs=3, batch_size=10, verbose=0)
    seen = [one.rows for one in process.facts() if isinstance(one, InputDistribution)]
    assert seen == [len(X)]


@pytest.mark.parametrize("loaded", [True, False])
def test_weights_that_were_given_are_none_of_a_new_layer(loaded: bool) -> None:
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        frozen = keras.layers.Dense(32, trainable=False)
        model = keras.Sequential([keras.Input((6,)), frozen, keras.layers.Dense(2)])
        if loaded:
            frozen.set_weights([value[::-1] for value in frozen.get_weights()])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(X, Y, verbose=0)
    [told] = [one for one in process.facts() if isinstance(one, FrozenParameters)]
    assert told.untouched == (0 if loaded else 6 * 32)


@pytest.mark.parametrize("compiled", [False, True])
def test_every_target_that_meets_every_prediction_in_a_loss_written_by_hand(compiled: bool) -> None:
    x = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
    rows, columns = tf.constant(x[:, 0]), tf.constant(x[:, :1])

    def shapes(target: Any, pairwise: bool = False) -> list[Any]:
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        optimizer = keras.optimizers.SGD(0.01)

        def step(given: Any) -> None:
            with tf.GradientTape() as tape:
                found = model(given, training=True)
                other = tf.squeeze(found) if pairwise else target
                loss = tf.reduce_mean(tf.square(other - found))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

        run = tf.function(step) if compiled else step
        process = Process("numpy")
        with process.watched(BASE), process.watched(ADAPTER):
            for _ in range(4):
                run(tf.constant(x))
        calls = [one for one in process.facts() if isinstance(one, LossCall)]
        return [one.result_shape for one in calls if one.result_shape]

    assert set(shapes(rows)) == {(32, 32)}
    assert not shapes(columns)
    if not compiled:  # with two models, it is not known which of them is trained
        assert not shapes(columns, pairwise=True)


def test_differences_in_a_step_that_are_no_loss_are_left_alone() -> None:
    """A tape happens to record the distances of a layer to centers, and a metric."""
    x = np.random.default_rng(0).normal(size=(16, 4)).astype("float32")
    targets, centers = tf.constant(x[:, :1]), tf.Variable(x[:, 0])
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        optimizer = keras.optimizers.SGD(0.01)
        for _ in range(4):
            with tf.GradientTape() as tape:
                found = model(tf.constant(x), training=True)
                near = tf.exp(-tf.square(found - centers))
                nearest = tf.reduce_min(tf.abs(found - tf.constant(x[:, 0])), axis=1)
                loss = tf.reduce_mean(tf.square(targets - found)) + 0.0 * tf.reduce_mean(near)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            assert nearest.shape == (16,)
    calls = [one for one in process.facts() if isinstance(one, LossCall)]
    assert not [one.result_shape for one in calls if one.result_shape]
    assert len(process.steps()) == 4


@pytest.mark.parametrize("by", ["nothing", "an optimizer outside", "hand"])
def test_gradients_of_a_loop_that_change_nothing_are_told(by: str) -> None:
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        before = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2)])
        before.compile("sgd", "mse")
        before.fit(X, X[:, :2], verbose=0)
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
        optimizer = keras.optimizers.SGD(0.1)

        @tf.function
        def train_step(x: object) -> object:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(x, training=True) - 1.0))
            return tape.gradient(loss, model.trainable_variables)

        for _ in range(40):
            gradients = train_step(tf.constant(X))
            pairs = list(zip(gradients, model.trainable_variables, strict=True))
            if by == "hand":
                for gradient, variable in pairs:
                    variable.assign(variable - 0.1 * gradient)
            elif by != "nothing":
                optimizer.apply_gradients(pairs)
    told = [one.function for one in process.facts() if isinstance(one, UpdateDropped)]
    assert told == (["train_step"] if by == "nothing" else [])


@pytest.mark.parametrize("bad_step", [None, 3])
def test_a_step_that_tests_its_gradients_before_it_applies_them(bad_step: int | None) -> None:
    """The optimizer is called in a branch of the program; an omitted step counts as skipped."""
    keras.utils.set_random_seed(0)
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
        optimizer = keras.optimizers.SGD(0.1)

        @tf.function
        def step(x: object) -> object:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(model(x, training=True) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            if tf.reduce_any(tf.math.is_nan(gradients[0])):
                return tf.constant(0.0)
            weights = model.trainable_variables
            optimizer.apply_gradients(zip(gradients, weights, strict=True))
            return loss

        for number in range(5):
            step(X * (np.nan if number == bad_step else 1))
    trained = [record for record in process.records if record.key.mode == "train"]
    scalars = [{one.name: one.value for one in record.scalars} for record in trained]
    assert [one["skipped"] for one in scalars] == [float(n == bad_step) for n in range(5)]
    assert [bool(np.isnan(one["loss"])) for one in scalars] == [n == bad_step for n in range(5)]
    found = {one.name for one in process.findings()}
    assert ("nonfinite_loss" in found) is (bad_step is not None)
