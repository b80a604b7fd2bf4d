"""Keras on JAX: steps, losses and names come from the compiled steps of Keras."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from mothtrap import Run, open_run
from mothtrap.core.facts.data import NonfiniteInput
from mothtrap.core.facts.nonfinite import FirstBadOperation

pytestmark = pytest.mark.skipif(
    not (find_spec("keras") and find_spec("jax")), reason="Keras and JAX are not installed"
)

PROGRAM = """
import sys
import keras
import numpy as np

keras.utils.set_random_seed(0)
x = np.random.default_rng(0).normal(size=(256, 8)).astype("float32")
y = (x[:, 0] > 0).astype("int64")
if "bad" in sys.argv:
    x[100, 3] = np.nan
model = keras.Sequential([
    keras.Input((8,)),
    keras.layers.Dense(16, activation="relu", name="hidden"),
    keras.layers.BatchNormalization(),
    keras.layers.Dropout(0.2),
    keras.layers.Dense(2, name="last"),
])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(1e-2), loss, metrics=["accuracy"])
seen = model.fit(x, y, epochs=2, batch_size=48, verbose=0, validation_split=0.25)
print("losses", *seen.history["loss"])
print("weights", b"".join(np.asarray(one).tobytes() for one in model.get_weights()).hex())
"""


def train(tmp_path: Path, *start: str, bad: bool = False) -> str:
    script = tmp_path / "train.py"
    script.write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, *start, str(script), *(["bad"] if bad else [])],
        cwd=tmp_path,
        env={**os.environ, "KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def watched(tmp_path: Path, **options: bool) -> tuple[str, Run]:
    start = ("-m", "mothtrap", "run", "--quiet", "--runs-dir", str(tmp_path), "--name", "run")
    printed = train(tmp_path, *start, **options)
    run = open_run(tmp_path / "run")
    assert not run.tool_errors, run.tool_errors
    return printed, run


def test_a_training_of_keras_is_seen_and_keeps_its_bits(tmp_path: Path) -> None:
    printed, run = watched(tmp_path)
    assert printed == train(tmp_path)
    [loss] = run.scalars("loss", mode="train")
    [evaluated] = run.scalars("loss", mode="eval")
    assert evaluated.steps_S.tolist() == [4, 8]
    means = [float(word) for word in re.findall(r"losses (\S+) (\S+)", printed)[0]]
    rows = np.array([48, 48, 48, 48] * 2)
    own = np.asarray(loss.values_S).reshape(2, 4)
    assert np.average(own, axis=1, weights=rows[:4]) == pytest.approx(means, rel=1e-5)
    names = {tensor.name for tensor in run.tensors() if tensor.kind in ("weight", "gradient")}
    assert {name.partition("/")[2] for name in names} >= {"hidden/kernel", "last/kernel"}


def test_a_missing_value_is_found_though_keras_gives_its_state_away(tmp_path: Path) -> None:
    _, run = watched(tmp_path, bad=True)
    [inputs] = list(run.observations(NonfiniteInput))[:1]
    assert (inputs.nan, len(inputs.rows)) == (1, 1)
    [found] = list(run.observations(FirstBadOperation))[:1]
    assert found.rows == inputs.rows
