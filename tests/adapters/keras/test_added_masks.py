"""Masks that an attention of the script's own adds to its scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.adapters.tensorflow import ADAPTER as BASE  # noqa: E402
from mothtrap.core.facts.layers import MaskOfOnes  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

WORDS, LENGTH = 9, 6
TEXTS = np.random.default_rng(0).integers(0, WORDS, (32, LENGTH + 1))


class Attention(keras.layers.Layer):  # type: ignore[misc,unused-ignore]
    """Attention by hand, with a bias of positions that is trained."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.q, self.k, self.v = (keras.layers.Dense(8) for _ in range(3))
        self.factor = factor

    def build(self, _: Any) -> None:
        self.near = self.add_weight(shape=(LENGTH, LENGTH), initializer="ones")

    def call(self, x: Any) -> Any:
        scores = tf.matmul(self.q(x), self.k(x), transpose_b=True) / 3.0 + self.near
        ones = tf.ones((tf.shape(x)[1], tf.shape(x)[1]))
        scores += (1 - tf.linalg.band_part(ones, -1, 0)) * self.factor
        return tf.matmul(tf.nn.softmax(scores), self.v(x))


def masks(factor: float) -> list[MaskOfOnes]:
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        model = keras.Sequential(
            [keras.layers.Embedding(WORDS, 8), Attention(factor), keras.layers.Dense(WORDS)]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("sgd", loss)
        model.fit(TEXTS[:, :-1], TEXTS[:, 1:], batch_size=16, verbose=0)
    return [one for one in process.facts() if isinstance(one, MaskOfOnes)]


def test_a_mask_of_zeros_and_ones_is_seen_with_its_line() -> None:
    found = masks(1.0)
    assert found
    assert found[0].shape == (LENGTH, LENGTH)
    assert "test_added_masks.py" in (found[0].location or "")


def test_a_mask_of_large_numbers_is_none() -> None:
    assert masks(-1e9) == []
