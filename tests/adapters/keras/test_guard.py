"""Steps that are not finite are undone, and training continues or ends, as configured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

import tensorflow as tf  # noqa: E402

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.core.errors import NonFiniteStepError  # noqa: E402
from mothtrap.core.facts.captures import SettingIgnored, ToolError  # noqa: E402
from mothtrap.core.facts.guards import StepGuarded  # noqa: E402
from mothtrap.statistics.summary import FIELDS  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

X = np.random.default_rng(0).normal(size=(40, 4)).astype("float32")
Y = X.sum(axis=1, keepdims=True)
BAD = np.where(np.arange(40)[:, None] == 13, np.nan, X)
"""Row 13 lies in the second batch of eight."""


def guarded(policy: str, **settings: Any) -> Process:
    return Process(ADAPTER.arrays, on_nonfinite=policy, **settings)


def facts_of(process: Process) -> list[StepGuarded]:
    assert not [fact for fact in process.facts() if isinstance(fact, ToolError)], process.said
    return [fact for fact in process.facts() if isinstance(fact, StepGuarded)]


def ignored_in(process: Process) -> list[SettingIgnored]:
    return [fact for fact in process.facts() if isinstance(fact, SettingIgnored)]


def model_of(**given: Any) -> keras.Model:
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(8, "tanh"), keras.layers.BatchNormalization()]
    model = keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(1)])
    model.compile("adam", "mse", **given)
    return model


def batches(rows: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(rows[at : at + 8], Y[at : at + 8]) for at in range(0, 40, 8)]


def weights(model: keras.Model) -> bytes:
    own = [*model.get_weights(), *(v.numpy() for v in model.optimizer.variables)]
    return b"".join(np.asarray(value).tobytes() for value in own)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_skipped_step_leaves_everything_as_it_was(jit_compile: bool) -> None:
    without = model_of(jit_compile=jit_compile)
    for place, (x, y) in enumerate(batches(X)):
        if place != 1:
            without.train_on_batch(x, y)
    process = guarded("skip")
    model = model_of(jit_compile=jit_compile)
    with process.watched(ADAPTER):
        for x, y in batches(BAD):
            model.train_on_batch(x, y)
    assert weights(model) == weights(without)
    [fact] = [fact for fact in process.facts() if isinstance(fact, StepGuarded)]
    assert (fact.step, fact.action, fact.fault) == (1, "skipped", "loss")


@pytest.mark.parametrize("summed", [2, 3])
def test_a_batch_of_an_accumulated_update_is_left_out(summed: int) -> None:
    def accumulating() -> keras.Model:
        model = model_of()
        optimizer = keras.optimizers.Adam(0.01, gradient_accumulation_steps=summed)
        model.compile(optimizer, "mse")
        return model

    process, without, model = guarded("skip"), accumulating(), accumulating()
    with process.watched(ADAPTER):
        for x, y in batches(BAD):
            model.train_on_batch(x, y)
    for place, (x, y) in enumerate(batches(X)):
        if place != 1:
            without.train_on_batch(x, y)
    assert weights(model) == weights(without)
    assert [(fact.step, fact.action) for fact in facts_of(process)] == [(0, "skipped")]


def test_a_bad_first_step_is_taken_back_with_the_optimizer_that_it_made() -> None:
    first = BAD[8:16]
    process, model = guarded("skip"), model_of()
    without = model_of()
    with process.watched(ADAPTER):
        model.train_on_batch(first, Y[8:16])
        model.train_on_batch(X[:8], Y[:8])
    without.train_on_batch(X[:8], Y[:8])
    assert weights(model) == weights(without)


def test_a_step_raises_and_was_not_applied() -> None:
    process, model = guarded("raise"), model_of()
    before: list[bytes] = []
    each = keras.callbacks.LambdaCallback(
        on_train_batch_begin=lambda *_, **__: before.append(
            b"".join(map(bytes, model.get_weights()))
        )
    )
    with process.watched(ADAPTER), pytest.raises(NonFiniteStepError, match="step 1") as raised:
        model.fit(BAD, Y, batch_size=8, shuffle=False, verbose=0, callbacks=[each])
    assert raised.value.step == 1
    assert before[-1] == b"".join(map(bytes, model.get_weights()))


def test_stop_ends_the_job_before_the_step() -> None:
    process, model = guarded("stop"), model_of()
    with process.watched(ADAPTER), pytest.raises(SystemExit):
        model.fit(BAD, Y, batch_size=8, shuffle=False, verbose=0)
    assert any("stopped at step 1" in line for line in process.said)
    assert np.isfinite(np.concatenate([w.ravel() for w in model.get_weights()])).all()


@pytest.mark.parametrize("by_xla", [False, True])
def test_a_function_whose_steps_are_not_seen_one_by_one_says_so(by_xla: bool) -> None:
    process, model = guarded("skip"), model_of()
    optimizer = keras.optimizers.SGD(0.01)
    optimizer.build(model.trainable_variables)
    data = tf.data.Dataset.from_tensor_slices((BAD, Y)).batch(8)

    def step(given: Any, wanted: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(given, training=True) - wanted))
        found = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(found, model.trainable_variables, strict=True))

    @tf.function
    def epoch() -> None:
        for given, wanted in data:
            step(given, wanted)

    with process.watched(ADAPTER):
        if by_xla:
            compiled = tf.function(step, jit_compile=True)
            for given, wanted in data:
                compiled(given, wanted)
        else:
            epoch()
    [ignored] = ignored_in(process)
    assert ("XLA" in ignored.reason) == by_xla
    if not by_xla:
        rows = np.concatenate([record.summary_TF for record in process.records])
        assert rows[:, FIELDS.index("nan")].any()


def test_where_it_cannot_be_done_that_is_said_and_nothing_else() -> None:
    process, model = guarded("skip"), model_of(steps_per_execution=5)
    with process.watched(ADAPTER):
        model.fit(BAD, Y, batch_size=8, shuffle=False, verbose=0)
    assert sum("one call runs several steps" in line for line in process.said) == 1
    assert [fact.setting for fact in ignored_in(process)] == ["on_nonfinite = skip"]
    assert not facts_of(process)


def test_a_custom_loop_is_guarded() -> None:
    process, model = guarded("stop", replay_at_end=True), model_of()
    with process.watched(ADAPTER):
        for x, y in batches(X):
            with tf.GradientTape() as tape:
                loss = keras.ops.mean((model(x, training=True) - y) ** 2)
            gradients = tape.gradient(loss, model.trainable_weights)
            model.optimizer.apply(gradients, model.trainable_weights)
    assert ignored_in(process) == []


@pytest.mark.parametrize("eager", [False, True])
def test_a_gradient_norm_above_the_bound_is_taken_back(eager: bool) -> None:
    without, model = model_of(run_eagerly=eager), model_of(run_eagerly=eager)
    process = guarded("skip", max_gradient_norm=200.0)
    large = [1, 2, 4]
    with process.watched(ADAPTER):
        for place, (x, y) in enumerate(batches(X)):
            model.train_on_batch(x, 1000 * y if place in large else y)
    for place, (x, y) in enumerate(batches(X)):
        if place not in large:
            without.train_on_batch(x, y)
    assert weights(model) == weights(without)
    assert [(fact.step, fact.fault, fact.action) for fact in facts_of(process)] == [
        (step, "norm", "skipped") for step in large
    ]
    lines = [line for line in process.said if "was not applied" in line]
    assert [line.split()[2] for line in lines] == ["1", "4"], "one line for each onset"


def test_a_large_norm_is_reported_where_steps_are_applied() -> None:
    process, model = guarded("report", max_gradient_norm=200.0), model_of()
    with process.watched(ADAPTER):
        for place, (x, y) in enumerate(batches(X)):
            model.train_on_batch(x, 1000 * y if place == 3 else y)
    [fact] = facts_of(process)
    assert (fact.step, fact.action, fact.fault) == (3, "reported", "norm")


@pytest.mark.parametrize("policy", ["report", "skip"])
def test_a_large_norm_in_a_custom_loop_is_reported_or_skipped(policy: str) -> None:
    process, model = guarded(policy, max_gradient_norm=200.0), model_of()
    with process.watched(ADAPTER):
        for place, (x, y) in enumerate(batches(X)):
            with tf.GradientTape() as tape:
                loss = keras.ops.mean((model(x, training=True) - 1000 * (place == 3) * y) ** 2)
            gradients = tape.gradient(loss, model.trainable_weights)
            model.optimizer.apply(gradients, model.trainable_weights)
    [fact] = facts_of(process)
    action = "skipped" if policy == "skip" else "reported"
    assert (fact.step, fact.action, fact.fault) == (3, action, "norm")


def test_functions_of_on_stop_are_called_before_the_guard_stops() -> None:
    process, model = guarded("stop"), model_of()
    called: list[bool] = []
    process.recorder.before_guard_stops = called.append
    with process.watched(ADAPTER), pytest.raises(SystemExit):
        model.fit(BAD, Y, batch_size=8, shuffle=False, verbose=0)
    assert called == [True]


@pytest.mark.parametrize("clips", [{"global_clipnorm": 1.0}, {"clipnorm": 1.0}])
def test_the_norm_is_that_after_clipping(clips: dict[str, float]) -> None:
    process, model = guarded("skip", max_gradient_norm=10.0), model_of()
    model.compile(keras.optimizers.Adam(**clips), "mse")
    with process.watched(ADAPTER):
        for x, y in batches(X):
            model.train_on_batch(x, 1000 * y)
    assert not facts_of(process)


def test_where_gradients_are_hidden_a_bound_is_said_to_have_no_effect() -> None:
    process, model = guarded("skip", max_gradient_norm=0.001), model_of(jit_compile=True)
    with process.watched(ADAPTER):
        for x, y in batches(X):
            model.train_on_batch(x, y)
    assert not facts_of(process)
    [fact] = ignored_in(process)
    assert (fact.step, fact.setting) == (0, "max_gradient_norm = 0.001")
    assert "XLA" in fact.reason


def test_all_bad_gradients_are_counted_and_four_are_named() -> None:
    process, model = guarded("skip"), model_of()
    with process.watched(ADAPTER):
        model.train_on_batch(BAD[8:16], Y[8:16])
    [fact] = facts_of(process)
    assert (fact.concerned, len(fact.parameters)) == (len(model.trainable_weights), 4)
