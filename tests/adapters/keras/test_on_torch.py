"""Keras on PyTorch: its optimizers make the steps, and weights keep their bits."""

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
from mothtrap.core.facts.epochs import EpochMetrics
from mothtrap.core.facts.evaluations import Evaluation
from mothtrap.core.facts.optimizers import OptimizerFacts

pytestmark = pytest.mark.skipif(
    not (find_spec("keras") and find_spec("torch")), reason="Keras and PyTorch are not installed"
)

START = """
import keras
import numpy as np
import torch

keras.utils.set_random_seed(0)
x = np.random.default_rng(0).normal(size=(256, 8)).astype("float32")
y = (x[:, 0] > 0).astype("int64")
model = keras.Sequential([
    keras.Input((8,)),
    keras.layers.Dense(16, activation="relu", name="hidden"),
    keras.layers.BatchNormalization(),
    keras.layers.Dropout(0.2),
    keras.layers.Dense(2, name="last"),
])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(1e-2), loss, metrics=["accuracy"])
"""
END = """
weights = b"".join(keras.ops.convert_to_numpy(one).tobytes() for one in model.weights)
print("weights", weights.hex())
"""
FIT = """
seen = model.fit(x, y, epochs=2, batch_size=48, verbose=0, validation_split=0.25)
print("losses", *seen.history["loss"])
"""
OWN_STEP = """
class Own(keras.Sequential):
    def train_step(self, data):
        rows, labels = data
        self.zero_grad()
        value = self.compute_loss(rows, labels, self(rows, training=True))
        value.backward()
        trained = list(self.trainable_weights)
        with torch.no_grad():
            self.optimizer.apply([one.value.grad for one in trained], trained)
        return {"loss": value}


model = Own(model.layers)
model.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss)
model.fit(x, y, epochs=2, batch_size=48, verbose=0)
"""
LOOP = """
optimizer = keras.optimizers.AdamW(1e-2)
for step in range(20):
    rows = slice(step * 8, step * 8 + 48)
    value = loss(y[rows], model(x[rows], training=True))
    model.zero_grad()
    value.backward()
    trained = model.trainable_weights
    with torch.no_grad():
        optimizer.apply([one.value.grad for one in trained], trained)
"""
MICRO = """
model.compile(keras.optimizers.Adam(1e-2, gradient_accumulation_steps=2, global_clipnorm=1.0), loss)
model.fit(x, y, epochs=2, batch_size=32, verbose=0)
"""
PROGRAMS = {"fit": FIT, "own step": OWN_STEP, "loop": LOOP, "micro-batches": MICRO}
BAD = """
x[100, 3] = np.nan
model.fit(x, y, epochs=1, batch_size=32, verbose=0, shuffle=False)
"""


def train(tmp_path: Path, body: str, *start: str) -> str:
    script = tmp_path / "train.py"
    script.write_text(START + body + END, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, *start, str(script)],
        cwd=tmp_path,
        env={**os.environ, "KERAS_BACKEND": "torch"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def watched(tmp_path: Path, body: str) -> tuple[str, Run]:
    start = ("-m", "mothtrap", "run", "--quiet", "--runs-dir", str(tmp_path), "--name", "run")
    printed = train(tmp_path, body, *start)
    run = open_run(tmp_path / "run")
    assert not run.tool_errors, run.tool_errors
    return printed, run


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_keep_their_bits_and_are_seen(name: str, tmp_path: Path) -> None:
    printed, run = watched(tmp_path, PROGRAMS[name])
    assert printed == train(tmp_path, PROGRAMS[name])
    [loss] = run.scalars("loss")
    assert len(loss) > 5
    names = {tensor.name for tensor in run.tensors() if tensor.kind in ("weight", "gradient")}
    assert {name.partition("/")[2] for name in names} >= {"hidden/kernel", "last/kernel"}
    assert not [finding for finding in run.findings if finding.severity.name == "ERROR"]


def test_losses_of_steps_metrics_of_epochs_and_evaluations_are_told(tmp_path: Path) -> None:
    printed, run = watched(tmp_path, FIT)
    [loss] = run.scalars("loss")
    means = [float(word) for word in re.findall(r"losses (\S+) (\S+)", printed)[0]]
    own = np.asarray(loss.values_S).reshape(2, 4)
    assert own.mean(axis=1) == pytest.approx(means, rel=1e-5)
    assert len(list(run.observations(Evaluation))) == 2
    assert [epoch.epoch for epoch in run.observations(EpochMetrics)] == [0, 1]
    [optimizer] = list(run.observations(OptimizerFacts))[:1]
    assert (optimizer.kind, optimizer.learning_rate) == ("Adam", pytest.approx(0.01))


@pytest.mark.smoke
def test_a_step_that_is_not_finite_is_named_and_replayed(tmp_path: Path) -> None:
    _, run = watched(tmp_path, BAD)
    found = run.findings[0]
    assert found.code.startswith("NUM")
    assert found.step == 3
    replayed = subprocess.run(
        [sys.executable, "-m", "mothtrap", "replay", str(tmp_path / "run")],
        cwd=tmp_path,
        env={**os.environ, "KERAS_BACKEND": "torch"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert "identical" in replayed.stdout, replayed.stdout + replayed.stderr


FORGOTTEN = """
import gc, weakref
seen = []
for fold in range(3):
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(2)])
    model.compile(keras.optimizers.Adam(1e-2), loss)
    model.fit(x, y, batch_size=64, verbose=0)
    seen.append(weakref.ref(model.optimizer))
keras.backend.clear_session()
gc.collect()
print("alive", sum(one() is not None for one in seen))
"""


def test_optimizers_that_the_script_lets_go_of_are_gone(tmp_path: Path) -> None:
    printed, _ = watched(tmp_path, FORGOTTEN)
    assert printed == train(tmp_path, FORGOTTEN)
