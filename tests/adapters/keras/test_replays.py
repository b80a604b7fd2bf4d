"""A step that is not finite is kept, replayed to the same bits, and its operation is named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

SCRIPT = """
import keras
import numpy as np

keras.utils.set_random_seed(0)
x = np.random.rand(256, 4).astype("float32")
y = np.random.rand(256, 2).astype("float32")
x[77, 2] = -1.0


def aside(target, predicted):
    return keras.ops.mean(keras.ops.where(predicted > 9, keras.ops.log(predicted - 9), 0.0))


class Root(keras.layers.Layer):
    def call(self, given):
        return keras.ops.sqrt(given)


model = keras.Sequential(
    [keras.Input((4,)), Root(), keras.layers.Dropout(0.3), keras.layers.Dense(2)]
)
model.compile("adam", "mse", metrics=[aside], jit_compile=JIT)
model.fit(x, y, batch_size=32, epochs=2, verbose=0)
"""


@pytest.mark.parametrize("jit", [False, True])
def test_operation_line_and_row_are_named(tmp_path: Path, jit: bool) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.replace("JIT", str(jit)))
    command = [sys.executable, "-m", "mothtrap"]
    subprocess.run([*command, "run", "--quiet", "train.py"], cwd=tmp_path, check=False)
    [run] = (tmp_path / "runs").iterdir()
    replayed = subprocess.run(
        [*command, "replay", str(run), "--format", "json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(replayed.stdout)
    assert found["match"] is True
    assert found["operation"] == "Sqrt"
    assert found["location"] == "train.py:17"
    assert len(found["rows"]) == 1
