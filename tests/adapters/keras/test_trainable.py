"""Changes of `trainable` that a compiled step ignores."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.adapters.tensorflow import ADAPTER as BASE  # noqa: E402
from mothtrap.core.facts.functions import TrainableIgnored  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

X = np.random.default_rng(0).normal(size=(16, 6)).astype("float32")


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("compiles", [False, True])
def test_trainable_is_set_between_two_fits(first: bool, compiles: bool) -> None:
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        base = keras.layers.Dense(4, name="base")
        model = keras.Sequential([keras.Input((6,)), base, keras.layers.Dense(1)])
        base.trainable = first
        model.compile("sgd", "mse")
        model.fit(X, X[:, :1], verbose=0)
        before = base.get_weights()[0]
        base.trainable = not first
        if compiles:
            model.compile("sgd", "mse")
        model.fit(X, X[:, :1], verbose=0)
        moved = not np.array_equal(base.get_weights()[0], before)
    told = [one for one in process.facts() if isinstance(one, TrainableIgnored)]
    assert moved is (first ^ compiles)
    if compiles:
        assert not told
    else:
        [one] = told
        assert one.elements == 33
        assert (one.unfrozen, one.frozen) == ((0, 28) if first else (28, 0))
        assert [name.rpartition("/")[2] for name in one.layers] == ["base"]
