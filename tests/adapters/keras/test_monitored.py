from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.core.facts.epochs import EpochMetrics, MetricWatched  # noqa: E402# noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

X = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
Y = (X[:, 0] > 0).astype("int64")


def test_callbacks_with_a_direction_and_the_metrics_of_epochs(tmp_path: object) -> None:
    process = Process(ADAPTER.arrays)
    with process.watched(ADAPTER):
        model = keras.Sequential([keras.layers.Dense(1, activation="sigmoid")])
        model.compile("sgd", "binary_crossentropy", metrics=["accuracy", "mae"])
        every = f"{tmp_path}/every.weights.h5"
        callbacks = [
            keras.callbacks.EarlyStopping("val_loss", mode="max", restore_best_weights=True),
            [keras.callbacks.ReduceLROnPlateau("loss", mode="min")],
            keras.callbacks.ReduceLROnPlateau("val_accuracy"),
            keras.callbacks.ModelCheckpoint(every, mode="max", save_weights_only=True),
        ]
        model.fit(
            *(X, Y),
            epochs=2,
            verbose=0,
            callbacks=callbacks,
            validation_data=(X, Y),
            class_weight={0: 1.0, 1: 2.0},
        )
    stopping, plateau = (one for one in process.facts() if isinstance(one, MetricWatched))
    assert (stopping.callback, stopping.metric, stopping.held_out) == (
        "EarlyStopping",
        "loss",
        True,
    )
    assert (stopping.direction, stopping.stops, stopping.restores) == ("max", True, True)
    assert stopping.location != plateau.location
    assert (plateau.monitor, plateau.held_out, plateau.lowers_rate) == ("loss", False, True)
    first, second = (one for one in process.facts() if isinstance(one, EpochMetrics))
    assert (first.epoch, second.epoch, first.fit) == (0, 1, stopping.fit)
    assert first.weighted
    assert {"loss", "accuracy", "mae"} <= first.values.keys() & first.held_out.keys()
    assert first.higher_is_better == ("accuracy",)
    assert {"loss", "mae"} <= {*first.lower_is_better}
