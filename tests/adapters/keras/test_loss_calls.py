"""Sequences that a Keras model is given, compared with the targets of its loss."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.adapters.tensorflow import ADAPTER as BASE  # noqa: E402
from mothtrap.core.facts.losses import LossCall, TargetSample  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

WORDS, LENGTH, ROWS = 12, 6, 64
SOURCE = np.random.default_rng(0).integers(2, WORDS, (ROWS, LENGTH))
TARGET = (SOURCE[:, ::-1] * 3 + 1) % (WORDS - 2) + 2
SHIFTED = np.concatenate([np.ones((ROWS, 1), np.int64), TARGET[:, :-1]], axis=1)


def translation(*, one_hot: bool) -> keras.Model:
    """An encoder and a decoder, as in the tutorial of Keras."""
    shape = (LENGTH, WORDS) if one_hot else (LENGTH,)
    source, given = keras.Input(shape), keras.Input(shape)
    embedded = [source, given]
    if not one_hot:
        embedded = [keras.layers.Embedding(WORDS, 8)(tokens) for tokens in embedded]
    _, *state = keras.layers.LSTM(8, return_state=True)(embedded[0])
    out = keras.layers.LSTM(8, return_sequences=True)(embedded[1], initial_state=state)
    return keras.Model([source, given], keras.layers.Dense(WORDS, activation="softmax")(out))


def transformer(*, masked: bool) -> keras.Model:
    """An encoder that sees all positions, and a decoder."""
    source, given = keras.Input((LENGTH,)), keras.Input((LENGTH,))
    x = keras.layers.Embedding(WORDS, 8)(source)
    encoded = x + keras.layers.MultiHeadAttention(2, 4)(x, x)
    y = keras.layers.Embedding(WORDS, 8)(given)
    y = y + keras.layers.MultiHeadAttention(2, 4)(y, y, use_causal_mask=masked)
    y = y + keras.layers.MultiHeadAttention(2, 4)(y, encoded)
    return keras.Model([source, given], keras.layers.Dense(WORDS, activation="softmax")(y))


def calls_of_fit(model: keras.Model, data: list[np.ndarray], kind: str) -> list[LossCall]:
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        model.compile("sgd", kind)
        model.fit(data[:2], data[2], batch_size=16, verbose=0)
    return [one for one in process.facts() if isinstance(one, LossCall)]


def targets_of_fit(given: np.ndarray, *, one_hot: bool) -> list[TargetSample]:
    kind = "categorical_crossentropy" if one_hot else "sparse_categorical_crossentropy"
    data = [SOURCE, given, TARGET]
    if one_hot:
        data = [keras.utils.to_categorical(one, WORDS) for one in data]
    calls = calls_of_fit(translation(one_hot=one_hot), data, kind)
    return [one.targets for one in calls if one.targets is not None]


@pytest.mark.parametrize("one_hot", [False, True])
def test_a_decoder_that_is_given_its_targets_is_seen(one_hot: bool) -> None:
    found = targets_of_fit(TARGET, one_hot=one_hot)
    assert found
    assert all(one.input_offsets == (0,) and one.decoded for one in found)


@pytest.mark.parametrize("one_hot", [False, True])
def test_a_decoder_that_is_given_the_tokens_before_is_not(one_hot: bool) -> None:
    found = targets_of_fit(SHIFTED, one_hot=one_hot)
    assert found
    assert all(one.input_offsets == (1,) and not one.decoded for one in found)


@pytest.mark.parametrize(("masked", "ahead"), [(False, "attention"), (True, "")])
def test_the_attention_of_a_decoder_must_be_masked(masked: bool, ahead: str) -> None:
    kind = "sparse_categorical_crossentropy"
    found = calls_of_fit(transformer(masked=masked), [SOURCE, SHIFTED, TARGET], kind)
    assert found
    assert all(one.looks_ahead == ahead for one in found)


@pytest.mark.parametrize(
    ("how", "ends"),
    [("mask", True), ("weights", True), ("weights", False), ("class", True), ("class", False)],
)
def test_ends_that_the_loss_does_not_count_are_described(how: str, ends: bool) -> None:
    rng, end = np.random.default_rng(0), 1
    tokens = np.zeros((ROWS, LENGTH + 6), "int64")
    for row in tokens:
        length = rng.integers(3, LENGTH + 5)
        row[:length], row[length] = rng.integers(2, WORDS, length), end
    given, labels = tokens[:, :-1], tokens[:, 1:]
    counted = labels > (0 if ends else end)
    keras.utils.set_random_seed(0)
    embedding = keras.layers.Embedding(WORDS, 8, mask_zero=how == "mask")
    model = keras.Sequential([embedding, keras.layers.Dense(WORDS)])
    ignored = {"ignore_class": 0} if how == "class" else {}
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True, **ignored))
    weights = {"sample_weight": counted.astype("float32")} if how == "weights" else {}
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        shown = np.where(counted, labels, 0) if how == "class" else labels
        model.fit(given, shown, batch_size=16, verbose=0, **weights)
    calls = [one for one in process.facts() if isinstance(one, LossCall)]
    seen = [one.targets.endings for one in calls if one.targets is not None]
    assert len(seen) == len(calls) > 0
    assert all(seen)
    for rows, last, last_rows, _, after_rows in filter(None, seen):
        assert after_rows == rows
        assert last_rows == rows if ends else last_rows < rows / 2
        assert not ends or last == (
            0 if how == "mask" else end
        )  # a mask hides what follows the end


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("rest", "alone"), [("", True), ("negated", True), ("other", False)])
def test_a_loss_that_is_not_all_that_a_tape_differentiates(
    rest: str, alone: bool, compiled: bool
) -> None:
    """The loss of a policy may be negative, although the error of its values may not."""
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        optimizer, huber = keras.optimizers.SGD(0.01), keras.losses.Huber()
        x = tf.constant(np.random.default_rng(0).normal(size=(8, 3)).astype("float32"))

        def step() -> None:
            with tf.GradientTape() as tape:
                output = model(x, training=True)
                error = huber(tf.ones((8, 1)), output)
                loss = -error if rest == "negated" else error
                loss = error - tf.reduce_sum(output) if rest == "other" else loss
            weights = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

        step = tf.function(step) if compiled else step
        for _ in range(3):
            step()
    calls = [one for one in process.facts() if isinstance(one, LossCall)]
    assert {one.alone for one in calls} == {alone}
