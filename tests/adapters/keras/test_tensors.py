"""A Keras model gives the same answers through its wrapper, also when loaded from a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore")  # those of Keras
keras = pytest.importorskip("keras")

from mothtrap.session.asked_models import from_words, wrapped  # noqa: E402


def test_a_model_and_its_file(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4, "relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(2, "softmax"),
        ]
    )
    X = np.random.default_rng(0).normal(size=(50, 3)).astype("float32")
    wanted = np.asarray(model(X, training=False))
    assert wrapped(model).predict(X) == pytest.approx(wanted, abs=1e-6)
    model.save(tmp_path / "model.keras")
    assert from_words(str(tmp_path / "model.keras")).predict(X) == pytest.approx(wanted, abs=1e-6)


def test_a_file_that_holds_code_is_refused(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Lambda(lambda x: x * 2)])
    model.save(tmp_path / "code.keras")
    with pytest.raises(Exception, match=r"[Ll]ambda"):
        from_words(str(tmp_path / "code.keras"))
