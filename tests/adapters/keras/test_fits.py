"""Data, weights and parts of models that trainings use."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.adapters.keras.fits import weights_by_class  # noqa: E402
from mothtrap.adapters.tensorflow import ADAPTER as BASE  # noqa: E402
from mothtrap.core.facts.data import BatchesLoaded, RowsShared  # noqa: E402
from mothtrap.core.facts.epochs import EpochMetrics  # noqa: E402
from mothtrap.core.facts.evaluations import Evaluation, NormAverages  # noqa: E402
from mothtrap.core.facts.layers import DataTaken  # noqa: E402
from mothtrap.core.facts.losses import LossCall  # noqa: E402
from mothtrap.core.facts.modules import FrozenParameters  # noqa: E402
from mothtrap.core.facts.optimizers import UnownedParameter  # noqa: E402
from mothtrap.core.facts.pipelines import ShuffledApart, SplitReshuffled  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = [pytest.mark.smoke, pytest.mark.filterwarnings("ignore")]

X = np.random.default_rng(0).normal(size=(400, 8)).astype("float32")
Y = (X[:, 0] > 0).astype("int64")


def facts(train: Callable[[], object], kind: type) -> list[Any]:
    """Return the facts of one kind from a training."""
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        train()
    return [one for one in process.facts() if isinstance(one, kind)]


def network(*layers: Any) -> Any:
    """Return a compiled classifier."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((8,)), *layers, keras.layers.Dense(2)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def split(training: Any, held_out: Any) -> bool:
    """Return whether two pipelines are recognized as different parts of one shuffle."""

    def train() -> None:
        given = held_out.batch(20)
        network().fit(training.batch(20), validation_data=given, epochs=2, verbose=0)

    return bool(facts(train, SplitReshuffled))


def test_parts_of_a_shuffle_that_reshuffles(tmp_path: Path) -> None:
    rows = tf.data.Dataset.from_tensor_slices((X, Y))
    mixed = rows.shuffle(400)
    assert split(mixed.skip(100), mixed.take(100))
    assert split(mixed.skip(100).shuffle(50).prefetch(1), mixed.take(100).cache())
    assert split(mixed.shard(4, 0), mixed.shard(4, 1))
    rest = mixed.skip(100)
    assert split(rest.skip(50), rest.take(50))
    part = mixed.take(300)
    assert split(part.skip(100), part.take(100))
    assert not split(mixed.take(300), mixed.take(100)), "the training data are evaluated"
    assert not split(mixed, mixed.take(100))
    assert not split(rows.skip(100).shuffle(300), rows.take(100))
    once = rows.shuffle(400, reshuffle_each_iteration=False)
    assert not split(once.skip(100), once.take(100))
    for kept in (mixed.cache(), mixed.snapshot(str(tmp_path))):
        assert not split(kept.skip(100), kept.take(100))


def test_a_generator_that_gives_one_batch_all_the_time() -> None:
    def same(rows: int = 32) -> Iterator[Any]:
        while True:
            yield X[:rows], Y[:rows]

    def moving() -> Iterator[Any]:
        for start in itertools.cycle(range(0, 400, 32)):
            yield X[start : start + 32], Y[start : start + 32]

    def train(batches: Any, **more: int) -> Callable[[], object]:
        return lambda: network().fit(batches, verbose=0, **more)

    [found] = facts(train(same(), steps_per_epoch=10, epochs=2), BatchesLoaded)[:1]
    assert (found.batches, found.repeated, found.rows) == (8, 7, 32)
    assert (found.source, found.of_rows) == ("X", 400)
    [large] = facts(train(same(80), steps_per_epoch=10), BatchesLoaded)
    assert (large.rows, large.source, large.of_rows) == (80, "X", 400)
    assert "test_fits.py" in found.location
    assert not facts(train(moving(), steps_per_epoch=10, epochs=2), BatchesLoaded)
    all_data = train(same(400), steps_per_epoch=10, epochs=2)
    assert not facts(all_data, BatchesLoaded), "not all of its rows are looked at"
    whole = tf.data.Dataset.from_tensor_slices((X, Y)).batch(400)
    assert not facts(train(whole, epochs=20), BatchesLoaded)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_frozen_batch_norm_does_not_normalize(frozen: bool) -> None:
    norm = keras.layers.BatchNormalization(trainable=not frozen)
    model = network(keras.layers.Dense(4, trainable=not frozen, name="first"), norm)
    seen = facts(lambda: model.fit(X, Y, verbose=0), DataTaken)
    assert {one.normalized for one in seen if one.layer.endswith("first")} == {not frozen}


def test_a_pipeline_of_many_parts_is_looked_at_once() -> None:
    rows = tf.data.Dataset.from_tensor_slices((X[:1], Y[:1]))
    for _ in range(12):
        rows = rows.concatenate(rows)
    assert not split(rows.shuffle(9).take(40), rows.take(9))


def test_rows_that_were_repeated_before_the_split() -> None:
    def shared(x: Any, held_out: Any) -> RowsShared:
        def train() -> None:
            labels = np.zeros(len(x), "int64"), np.zeros(len(held_out), "int64")
            network().fit(x, labels[0], validation_data=(held_out, labels[1]), verbose=0)

        return facts(train, RowsShared)[0]

    rng = np.random.default_rng(1)
    rare = np.concatenate([X[:200], X[rng.choice(np.arange(200, 240), 200)]])
    rare = rng.permutation(rare)
    assert shared(rare[:300], rare[300:]).copied
    assert not shared(X[:300], X[300:]).copied
    drawn = np.concatenate([X, X[:9]])
    assert not shared(drawn[rng.choice(409, 409)], drawn).copied, "as bagging does"
    flags = np.where(np.arange(8) < 3, np.sign(rare), 0.0).astype("float32")
    assert not shared(flags[:300], flags[300:]).copied, "few values are equal by chance"


def series(first: int, last: int | None, *, wide: bool = True) -> Any:
    """Return windows of a part of a series, each of 12 values at every second step."""
    walk = np.cumsum(np.random.default_rng(3).normal(size=(600, 8)), axis=0)
    return keras.utils.timeseries_dataset_from_array(
        walk if wide else walk[:, 0],
        targets=walk[24:, 0],
        sequence_length=12,
        sampling_rate=2,
        shuffle=True,
        batch_size=32,
        start_index=first,
        end_index=last,
    )


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize(("first", "shared"), [(400, 0), (0, 377), (376, 1)])
def test_windows_of_a_series_are_compared(first: int, shared: int, *, wide: bool) -> None:
    """A first window of training rows, with its target after them, is no leak."""

    def train() -> None:
        shape = keras.Input((12, 8) if wide else (12,))
        model = keras.Sequential([shape, keras.layers.Flatten(), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        held_out = series(first, 560, wide=wide)
        model.fit(series(0, 400, wide=wide), validation_data=held_out, verbose=0)

    [told] = facts(train, RowsShared)
    assert (told.train_rows, told.shared) == (385, shared)
    assert told.eval_rows == 560 - first - 23


def test_rows_of_pipelines_are_compared() -> None:
    def rows(first: int, last: int) -> Any:
        return tf.data.Dataset.from_tensor_slices((X[first:last], Y[first:last]))

    def shared(held_out: Any) -> list[int]:
        def train() -> None:
            training = rows(0, 300).shuffle(50).batch(20).prefetch(2)
            network().fit(training, validation_data=held_out.batch(20), verbose=0)

        return [one.shared for one in facts(train, RowsShared)]

    assert shared(rows(200, 400)) == [100]
    assert shared(rows(300, 400)) == [0]
    assert shared(rows(0, 400).skip(300)) == [], "the other part of the same rows"


def test_rows_of_booleans_are_compared() -> None:
    rows = np.random.default_rng(2).random((400, 8, 12)) < 0.5

    def train() -> None:
        model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(2)])
        model.compile("sgd", "mse")
        y = np.zeros((400, 2), "float32")
        model.fit(rows, y, validation_data=(rows[:100], y[:100]), verbose=0)

    assert facts(train, RowsShared)[0].shared == 100


def test_equal_rows_of_one_of_several_inputs_are_no_copies() -> None:
    def train() -> None:
        given = [keras.Input((8,), name="user"), keras.Input((8,), name="item")]
        scores = keras.layers.Dense(2)(keras.layers.Concatenate()(given))
        model = keras.Model(given, scores)
        model.compile("sgd", "mse")
        users, y = X[np.arange(400) % 20], np.zeros((400, 2))
        model.fit(
            [users[:300], X[:300]], y[:300], validation_data=([users[300:], X[300:]], y[300:])
        )

    [told] = facts(train, RowsShared)
    assert told.shared == 20
    assert not told.copied


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, None),
        ({}, None),
        ({0: 0.5, 1: 4.5}, (0.5, 4.5)),
        ({np.int64(1): np.float32(2)}, (1.0, 2.0)),
        ({2.0: 3}, (1.0, 1.0, 3.0)),
        ({10**9: 1.0}, ()),
        ({float("nan"): 1.0}, ()),
        ({"0": 1.0}, ()),
        ([1.0, 2.0], ()),
    ],
)
def test_class_weights_in_order(given: object, told: object) -> None:
    assert weights_by_class(given) == told


def test_class_weights_are_those_of_the_fit_that_is_in_progress() -> None:
    def train() -> None:
        model = network()
        model.fit(X, Y, batch_size=100, class_weight={0: 0.5, 1: 4.5}, verbose=0)
        model.fit(X, Y, batch_size=100, verbose=0)

    seen = [one.targets for one in facts(train, LossCall)]
    assert [one.class_weights for one in seen] == [(0.5, 4.5)] * 4 + [()] * 4
    assert [one.weighted for one in seen] == [True] * 4 + [False] * 4


def test_losses_of_outputs_are_named() -> None:
    def train() -> None:
        given = keras.Input((8,))
        outputs = {name: keras.layers.Dense(1, name=name)(given) for name in ("price", "kind")}
        model = keras.Model(given, outputs)
        model.compile("sgd", {"price": "mse", "kind": "mse"}, metrics={"kind": ["mae"]})
        model.fit(X, {"price": X[:, :1], "kind": X[:, 1:2]}, verbose=0)

    [told] = facts(train, EpochMetrics)
    assert told.output_losses == ("kind_loss", "price_loss")


@pytest.mark.parametrize("loaded", ["not", "weights", "checkpoint"])
def test_averages_of_batch_norms_are_new_until_they_are_loaded(tmp_path: Path, loaded: str) -> None:
    def train() -> None:
        norms = [keras.layers.BatchNormalization(momentum=m) for m in (0.9, 0.999)]
        model = network(keras.layers.Dense(4), *norms)
        if loaded == "weights":
            model.set_weights(model.get_weights())
        if loaded == "checkpoint":
            path = tf.train.Checkpoint(model=model).save(str(tmp_path / "c"))
            tf.train.Checkpoint(model=model).restore(path)
        for _ in range(2):
            model.fit(X, Y, batch_size=100, verbose=0)

    told = facts(train, NormAverages)
    if loaded != "not":
        assert told == []
        return
    [one] = told
    # step numbers continue within a process
    assert one.module.startswith("sequential/batch_normalization_")
    assert one.step == 0
    assert told[0].momentum == pytest.approx(0.001)
    assert "test_fits.py" in (told[0].location or "")


def test_a_model_that_goes_on_is_evaluated_on_rows_of_an_earlier_fit() -> None:
    def told(*, anew: bool) -> list[bool]:
        def train() -> None:
            folds = X[:200], X[200:]
            model = network()
            for number in range(2):
                if anew:
                    model = network()
                given = folds[1 - number], np.zeros(200, "int64")
                model.fit(folds[number], np.zeros(200, "int64"), validation_data=given, verbose=0)

        return [one.earlier for one in facts(train, RowsShared)]

    assert told(anew=False) == [False, True]
    assert told(anew=True) == [False, False]


class Scaled(keras.layers.Layer):
    """A layer with a TensorFlow variable or with a Keras weight."""

    def __init__(self, *, tracked: bool) -> None:
        super().__init__()
        self.tracked = tracked

    def build(self, _: object) -> None:
        value = np.eye(8, dtype="float32")
        if self.tracked:
            self.matrix = self.add_weight(shape=(8, 8))
        else:
            self.matrix = tf.Variable(value, name="lost")

    def call(self, x: Any) -> Any:
        return tf.matmul(x, tf.convert_to_tensor(self.matrix))


@pytest.mark.parametrize("tracked", [True, False])
def test_variables_that_no_layer_knows(tracked: bool) -> None:
    def train() -> None:
        network(Scaled(tracked=tracked)).fit(X, Y, batch_size=10, verbose=0)

    seen = facts(train, UnownedParameter)
    assert [(one.name, one.untracked, one.changed) for one in seen] == (
        [] if tracked else [("sequential/scaled/lost", True, False)]
    )


@pytest.mark.parametrize("anew", [True, False])
def test_layers_that_are_made_in_each_step(anew: bool) -> None:
    class Net(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.last = keras.layers.Dense(8), keras.layers.Dense(2)

        def call(self, x: Any) -> Any:
            return self.last(keras.layers.Dense(8)(x) if anew else self.inner(x))

    def train() -> None:
        model, optimizer = Net(), keras.optimizers.SGD(0.1)
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        for _ in range(30):
            with tf.GradientTape() as tape:
                loss = loss_of(Y, model(X))
            weights = model.trainable_variables
            gradients = tape.gradient(loss, weights)
            pairs = zip(gradients, weights, strict=True)
            optimizer.apply_gradients([pair for pair in pairs if pair[0] is not None])

    seen = facts(train, UnownedParameter)
    assert [one.made_anew >= 20 for one in seen] == ([True] if anew else [])
    assert all("test_fits.py" in (one.location or "") for one in seen)


@pytest.mark.parametrize(
    ("kind", "ahead"),
    [
        ("attention", "attention"),
        ("masked", ""),
        ("keys", "attention"),
        ("cross", None),
        ("both ways", "recurrent"),
        ("one way", "causal"),
    ],
)
def test_what_shows_a_position_the_next_ones(kind: str, ahead: str | None) -> None:
    tokens = np.random.default_rng(0).integers(0, 7, (64, 9))

    def train() -> None:
        given = keras.Input((8,), dtype="int64")
        x = keras.layers.Embedding(7, 8)(given)
        attention = keras.layers.MultiHeadAttention(1, 4)
        if kind in ("attention", "masked"):
            x = attention(x, x, use_causal_mask=kind == "masked")
        elif kind == "keys":
            x = keras.layers.GroupQueryAttention(4, 2, 1)(x, x, x)
        elif kind == "cross":
            x = attention(x, keras.layers.Dense(8)(x))
        else:
            recurrent = keras.layers.GRU(8, return_sequences=True)
            x = (keras.layers.Bidirectional(recurrent) if kind == "both ways" else recurrent)(x)
        model = keras.Model(given, keras.layers.Dense(7)(x))
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(tokens[:, :-1], tokens[:, 1:], verbose=0)

    calls = facts(train, LossCall)
    assert {one.looks_ahead for one in calls} == {ahead}
    if ahead == "attention":
        assert all("test_fits.py" in (one.made_at or "") for one in calls)


@pytest.mark.parametrize("trained", [True, False])
def test_a_model_that_no_optimizer_holds(trained: bool) -> None:
    def train() -> None:
        first = keras.Sequential([keras.Input((8,)), keras.layers.Dense(32)])
        second = keras.Sequential([keras.Input((32,)), keras.layers.Dense(2)])
        optimizer = keras.optimizers.SGD(0.1)
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        for _ in range(62):
            with tf.GradientTape() as tape:
                loss = loss_of(Y, second(first(X)))
            weights = [*second.trainable_variables, *(first.trainable_variables if trained else ())]
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

    assert [one.frozen for one in facts(train, FrozenParameters)] == ([] if trained else [9 * 32])


def test_the_mean_of_a_sum_of_losses_has_the_same_bits() -> None:
    class Summing(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.last, self.told = keras.layers.Dense(3), keras.metrics.Mean(name="loss")

        @property
        def metrics(self) -> list[Any]:
            return [self.told]

        def train_step(self, data: Any) -> Any:
            with tf.GradientTape() as tape:
                gave = self.last(data)
                near = tf.reduce_mean(tf.reduce_sum(100 * tf.abs(gave - 1), axis=1))
                total = near + tf.reduce_mean(tf.square(gave))
            gradients = tape.gradient(total, self.trainable_weights)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
            self.told.update_state(total)
            return {"loss": self.told.result()}

    def losses() -> list[float]:
        keras.utils.set_random_seed(0)
        model = Summing()
        model.compile(keras.optimizers.Adam(0.001))
        return list(model.fit(X, batch_size=10, epochs=3, verbose=0).history["loss"])

    plain, process = losses(), Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        assert losses() == plain


def test_models_that_the_script_lets_go_of_are_not_kept() -> None:
    made: list[weakref.ref[Any]] = []

    def train() -> None:
        for _ in range(5):
            model = network()
            model.fit(X, Y, validation_split=0.2, verbose=0)
            made.append(weakref.ref(model))
        del model
        keras.backend.clear_session()
        gc.collect()
        assert sum(one() is not None for one in made) <= 1  # the values of the latest steps

    facts(train, EpochMetrics)


def test_evaluations_of_two_models_by_one_line_are_apart() -> None:
    def train() -> None:
        for _ in range(2):
            network().fit(X, Y, validation_split=0.2, epochs=2, verbose=0)

    told = [one.site for one in facts(train, Evaluation)]
    assert told[0] == told[1] != told[2] == told[3]


def test_pipelines_whose_inputs_and_labels_are_shuffled_apart() -> None:
    def told(data: Any) -> bool:
        return bool(facts(lambda: network().fit(data.batch(32), verbose=0), ShuffledApart))

    x, y = (tf.data.Dataset.from_tensor_slices(one) for one in (X, Y))
    pair = tf.data.Dataset.zip
    assert told(pair((x.shuffle(400), y.shuffle(400))))
    assert told(pair((x.shuffle(400, seed=1), y.shuffle(400, seed=2))).prefetch(1))
    assert told(pair((x.shuffle(400), y)).map(lambda given, label: (2 * given, label)))
    assert not told(pair((x.shuffle(400, seed=1), y.shuffle(400, seed=1))))
    assert not told(pair((x, y)).shuffle(400))
