"""Data sets in the arguments of `fit`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from tests.checks.given import finding, passes  # noqa: E402

from mothtrap.adapters.keras.checking.given_data import GivenData  # noqa: E402

X = np.random.default_rng(0).normal(size=(60, 4)).astype("float32")
Y = (X[:, 0] > 0).astype("int64") + (X[:, 1] > 0)


class Batches(keras.utils.PyDataset):  # type: ignore[misc,unused-ignore]
    """Yields rows of its arrays, with one order for inputs and one for targets."""

    def __init__(self, orders: tuple[Any, Any]) -> None:
        super().__init__()
        self.x, self.y, self._orders = X, Y, orders

    def __len__(self) -> int:
        return 5

    def __getitem__(self, number: int) -> tuple[Any, Any]:
        rows, others = (order[12 * number : 12 * number + 12] for order in self._orders)
        return self.x[rows], self.y[others]


def fed(orders: tuple[Any, Any]) -> Any:
    [train] = GivenData({"x": Batches(orders)}, "train.py:3").sets()
    return train


def zipped(*, apart: bool) -> Any:
    """Return the data set of a `tf.data` pipeline."""
    parts = [tf.data.Dataset.from_tensor_slices(one) for one in (X, Y)]
    if apart:
        parts = [part.shuffle(60, seed=seed) for seed, part in enumerate(parts)]
    whole = tf.data.Dataset.zip(tuple(parts)).shuffle(60, seed=2).batch(12)
    [train] = GivenData({"x": whole}, "train.py:3").sets()
    return train


def test_a_pipeline_that_shuffles_inputs_and_targets_apart_is_named() -> None:
    assert finding("PRE311", zipped(apart=True)).severity == "warning"


def test_a_pipeline_that_shuffles_them_together_is_no_fault() -> None:
    assert passes("PRE311", zipped(apart=False))


def test_a_dataset_that_shuffles_inputs_and_targets_apart_is_named() -> None:
    draw = np.random.default_rng(1)
    found = finding("PRE311", fed((draw.permutation(60), draw.permutation(60))))
    assert (found.severity, found.location) == ("warning", "train.py:3")


def test_a_dataset_that_shuffles_them_together_is_no_fault() -> None:
    order = np.random.default_rng(1).permutation(60)
    assert passes("PRE311", fed((order, order)))
