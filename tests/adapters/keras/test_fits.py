"""Data, weights and averages that `fit` is given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters import keras as adapter  # noqa: E402
from mothtrap.adapters import tensorflow as base  # noqa: E402
from mothtrap.adapters.keras.models import weights_by_class  # noqa: E402
from mothtrap.core.facts.data import RowsShared  # noqa: E402
from mothtrap.core.facts.epochs import EpochMetrics  # noqa: E402
from mothtrap.core.facts.evaluations import NormAverages  # noqa: E402
from mothtrap.core.facts.losses import LossCall  # noqa: E402
from mothtrap.core.facts.pipelines import SplitReshuffled  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = [pytest.mark.smoke, pytest.mark.filterwarnings("ignore")]

X = np.random.default_rng(0).normal(size=(400, 8)).astype("float32")
Y = (X[:, 0] > 0).astype("int64")


def facts(train: Callable[[], object], kind: type) -> list[Any]:
    """Return the facts of a kind of a training."""
    process = Process("numpy")
    with process.watched(base), process.watched(adapter):
        train()
    return [one for one in process.facts() if isinstance(one, kind)]


def network(*layers: Any) -> Any:
    """Return a classifier that is compiled."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((8,)), *layers, keras.layers.Dense(2)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def split(training: Any, held_out: Any) -> bool:
    """Return whether two pipelines are told to be different parts of one shuffle."""

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
    assert [(one.module, one.step) for one in told] == [("sequential/batch_normalization_1", 0)]
    assert told[0].momentum == pytest.approx(0.001)
    assert "test_fits.py" in (told[0].location or "")
