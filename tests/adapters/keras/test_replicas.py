"""A training on two replicas gets the same bits, watched or not, and is recorded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import mothtrap

pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

SCRIPT = """
import hashlib
import sys

import numpy as np
import tensorflow as tf

[cpu] = tf.config.list_physical_devices("CPU")
halves = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(cpu, halves)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

import keras

import mothtrap

keras.utils.set_random_seed(5)
x = np.random.rand(64, 4).astype("float32")
y = x.sum(axis=1, keepdims=True)


class Noted(keras.layers.Layer):
    def call(self, given):
        mothtrap.log("mean", tf.reduce_mean(given))
        return given


with strategy.scope():
    layers = [keras.layers.Dense(8, "relu"), Noted(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((4,)), *layers])
    model.compile("adam", "mse")
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
model.fit(data, epochs=2, verbose=0)
weights = b"".join(weight.tobytes() for weight in model.get_weights())
print(hashlib.sha256(weights).hexdigest(), file=open(sys.argv[1], "w"))
"""


def start(folder: Path, *, watched: bool) -> subprocess.Popen[bytes]:
    command = [sys.executable, *(["-m", "mothtrap", "run"] if watched else []), "train.py"]
    out = folder / f"{watched}{len(list(folder.iterdir()))}"
    out.touch()
    process = subprocess.Popen(
        [*command, str(out)],
        cwd=folder,
        env={**os.environ, "MOTHTRAP_ON_NONFINITE": "skip"},
        stderr=subprocess.PIPE,
    )
    process.out = out  # type: ignore[attr-defined]
    return process


def digest(process: subprocess.Popen[bytes]) -> str:
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    return str(process.out.read_text())  # type: ignore[attr-defined]


def test_two_replicas_of_one_process(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    assert digest(start(tmp_path, watched=True)) == digest(start(tmp_path, watched=False))
    [folder] = (tmp_path / "runs").iterdir()
    seen = mothtrap.open_run(folder)
    assert seen.steps == 8
    assert [list(loss.steps_S) for loss in seen.scalars("loss")] == [list(range(8))]
    [logged] = seen.scalars("mean")
    assert list(logged.steps_S) == [step for step in range(8) for _ in "ab"]  # of each replica
