"""A non-finite step is kept, replayed to the same bits, and its operation is named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

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

BUILT_LATE = """
import keras
import numpy as np

keras.utils.set_random_seed(0)
x = np.random.rand(256, 4).astype("float32")
y = np.random.rand(256, 2).astype("float32")
x[ROW, 2] = -1.0


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)

    def call(self, given):
        return self.dense(keras.ops.sqrt(given))


model = Net()
model.compile("adam", "mse", jit_compile=JIT)
model.fit(x, y, batch_size=32, shuffle=False, verbose=0)
"""

OVERFLOW = """
import keras
import numpy as np

keras.utils.set_random_seed(0)
x = np.full((64, 4), 0.5, "float32")
x[21] = 1.0


class Softplus(keras.layers.Layer):
    def call(self, given):
        return keras.ops.log(1.0 + keras.ops.exp(100.0 * given))


model = keras.Sequential([keras.Input((4,)), Softplus(), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, x[:, :1], batch_size=32, shuffle=False, verbose=0)
"""


RECORDS = """
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
for part in range(3):
    with tf.io.TFRecordWriter(f"part-{part}.tfrecord") as writer:
        for number in range(40):
            row = np.random.rand(5).astype("float32")
            if (part, number) == (1, 13):
                row[2] = -1.0
            writer.write(row.tobytes())


def parse(record):
    row = tf.io.decode_raw(record, tf.float32)
    return row[:4], row[4:]


data = tf.data.Dataset.list_files("part-*.tfrecord").interleave(tf.data.TFRecordDataset)
data = data.map(parse).shuffle(100).batch(16).map(lambda x, y: (tf.sqrt(x), y)).prefetch(1)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(data, verbose=0)
"""


def test_a_step_in_64_bits_shows_that_precision_is_to_blame(tmp_path: Path) -> None:
    found = replayed(tmp_path, OVERFLOW, "--dtype", "float64")
    assert found["nonfinite"] is False
    assert found["losses_in_run"] == ["NaN"]
    assert found["losses"] == [pytest.approx(720.589, rel=1e-3)]


@pytest.mark.parametrize("jit", [False, True])
def test_operation_line_and_row_are_named(tmp_path: Path, jit: bool) -> None:
    found = replayed(tmp_path, SCRIPT.replace("JIT", str(jit)))
    assert found["match"] is True
    assert found["operation"] == "Sqrt"
    assert found["location"] == "train.py:17"
    assert len(found["rows"]) == 1
    assert found["samples"] == ["sample 77 of the data"]


@pytest.mark.parametrize(("row", "jit"), [(77, False), (7, True)])
def test_a_model_that_its_first_step_builds_is_built_before(
    tmp_path: Path, row: int, jit: bool
) -> None:
    """Layers of a subclassed model have no variables yet when the recorded state is restored."""
    found = replayed(tmp_path, BUILT_LATE.replace("JIT", str(jit)).replace("ROW", str(row)))
    assert found["step"] == row // 32
    assert found["match"] is True
    assert found["operation"] == "Sqrt"
    assert found["location"] == "train.py:17"
    assert found["rows"] == [row % 32]


def test_the_record_of_a_row_is_named(tmp_path: Path) -> None:
    found = replayed(tmp_path, RECORDS)
    [row] = found["rows"]
    [record] = found["samples"]
    assert record.startswith("record 13 of ")
    assert record.endswith("part-1.tfrecord")
    assert f"row {row} is {record}" in found["told"]


def replayed(tmp_path: Path, script: str, *options: str) -> dict[str, Any]:
    """Run a script, replay the step that it keeps, and return what was found."""
    (tmp_path / "train.py").write_text(script)
    command = [sys.executable, "-m", "mothtrap"]
    subprocess.run([*command, "run", "--quiet", "train.py"], cwd=tmp_path, check=False)
    [run] = (tmp_path / "runs").iterdir()
    done = subprocess.run(
        [*command, "replay", str(run), "--format", "json", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(done.stdout)
