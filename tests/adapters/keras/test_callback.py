"""A callback passed to `fit` makes mothtrap watch that fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

import mothtrap  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def test_the_fit_becomes_a_run(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(40, 3)).astype("float32")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    callback = mothtrap.KerasCallback(runs_dir=str(tmp_path), quiet=True)
    model.fit(x, x[:, :1], batch_size=8, epochs=2, verbose=0, callbacks=[callback])
    [folder] = tmp_path.iterdir()
    run = mothtrap.open_run(folder)
    assert len(run.steps_of("train")) == 10
    assert any(series.name == "loss" for series in run.scalars())
    assert run.tensors("gradient:*")
