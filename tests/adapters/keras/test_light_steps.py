"""Light steps: the same bits and numbers, and a step that becomes non-finite is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.core.facts.captures import Unwatched  # noqa: E402
from mothtrap.core.snapshot_orders import SnapshotDraft  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

ROWS, BATCH = 960, 8
X = np.random.default_rng(0).normal(size=(ROWS, 4)).astype("float32")
Y = X.sum(axis=1, keepdims=True)
BAD = 110
"""A light step, whose batch holds NaN."""
BROKEN = np.where(np.arange(ROWS)[:, None] == BAD * BATCH + 3, np.nan, X)


class Sink:
    """Keeps the snapshots in memory."""

    def __init__(self) -> None:
        self.taken: list[SnapshotDraft] = []

    def has_room(self, spare: int = 0) -> bool:
        return spare == 0

    def put(self, taken: SnapshotDraft) -> None:
        self.taken.append(taken)

    def refused(self, *why: object) -> None:
        raise AssertionError(why)


def trained(x: np.ndarray, **given: Any) -> keras.Model:
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(6, "tanh"), keras.layers.BatchNormalization()]
    model = keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.001, global_clipnorm=1.0), "mse", **given)
    model.fit(x, Y, batch_size=BATCH, shuffle=False, verbose=0)
    return model


def weights(model: keras.Model) -> bytes:
    return b"".join(map(bytes, model.get_weights()))


def watched(process: Process, x: np.ndarray, **given: Any) -> tuple[keras.Model, Sink]:
    sink = Sink()
    with process.watched(ADAPTER) as handle:
        handle.snapshots.connect(sink)
        model = trained(x, **given)
    return model, sink


def numbers(process: Process, name: str) -> dict[int, float]:
    return {
        each.key.step: scalar.value
        for each in process.records
        for scalar in each.scalars
        if scalar.name == name
    }


def test_light_steps_show_the_same_numbers() -> None:
    whole, light = Process(ADAPTER.arrays), Process(ADAPTER.arrays, overhead=0.02)
    first, _ = watched(whole, X)
    second, _ = watched(light, X)
    assert weights(first) == weights(second) == weights(trained(X))
    expected, found = numbers(whole, "gradient_norm"), numbers(light, "gradient_norm")
    assert found == pytest.approx(expected, rel=1e-5)
    assert len(found) == ROWS // BATCH
    assert numbers(light, "loss") == numbers(whole, "loss")


def test_a_bad_step_among_light_ones_is_kept_with_what_it_began_with() -> None:
    process = Process(ADAPTER.arrays, overhead=0.02)
    _, sink = watched(process, BROKEN)
    _of_the_bad_step(sink)


def test_of_several_steps_of_a_call_the_bad_one_is_kept() -> None:
    process = Process(ADAPTER.arrays, overhead=0.02)
    _, sink = watched(process, BROKEN, steps_per_execution=4)
    _of_the_bad_step(sink)
    found = numbers(process, "loss")
    assert np.isnan(found[BAD])
    assert len(process.steps()) == ROWS // BATCH


def test_steps_go_by_unwatched_until_one_is_not_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(ADAPTER.arrays, overhead=0.02)
    monkeypatch.setattr(
        process.recorder, "next_watched", lambda step: step + (1 if step < 80 else 1000)
    )
    monkeypatch.setattr(process.recorder.sampler, "long_s", lambda: float("inf"))
    model, sink = watched(process, BROKEN)
    assert weights(model) == weights(trained(BROKEN))
    _of_the_bad_step(sink)
    [first] = [fact for fact in process.facts() if isinstance(fact, Unwatched)][:1]
    assert (first.step, first.last_step) == (81, BAD - 1)
    assert np.isnan(numbers(process, "loss")[BAD])
    assert process.recorder.steps == ROWS // BATCH


def _of_the_bad_step(sink: Sink) -> None:
    [draft] = sink.taken
    assert draft.step == BAD
    arrays = draft.steps[0].arrays
    batch = arrays["b0"].data.view("float32").reshape(arrays["b0"].shape)
    np.testing.assert_array_equal(batch, BROKEN[BAD * BATCH : (BAD + 1) * BATCH])
    state = draft.state
    assert state is not None
    kept = np.concatenate(
        [a.data.view("float32") for a in state.arrays.values() if a.dtype == "float32"]
    )
    assert np.isfinite(kept).all()


def test_a_scaled_loss_whose_program_begins_in_light_steps_is_observed() -> None:
    process = Process(ADAPTER.arrays, overhead=0.02)
    with process.watched(ADAPTER):
        trained(X)
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.01)), "mse")
        model.fit(X[:80], Y[:80], batch_size=BATCH, shuffle=False, verbose=0)
    rates = {s.of for each in process.records for s in each.scalars if s.name == "lr"}
    assert "loss_scale_optimizer" in rates
