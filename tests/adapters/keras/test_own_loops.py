"""Non-finite steps of custom loops: kept, skipped, stopped, and replayed to the row."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tensorflow", exc_type=ImportError)
pytest.importorskip("keras")

HEAD = """
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
x = rng.uniform(0.5, 2.0, (160, 6)).astype("float32")
y = rng.normal(size=(160, 1)).astype("float32")
x[97, 2] = -1.0  # row 1 of batch 6


class Log(keras.layers.Layer):
    def call(self, given):
        return tf.math.log(given)


model = keras.Sequential(
    [keras.Input((6,)), Log(), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
)
optimizer = keras.optimizers.Adam(0.01)
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)


def loss_of(given, wanted):
    return tf.reduce_mean(tf.square(model(given, training=True) - wanted))


"""
TAIL = """
finite = all(np.isfinite(weight).all() for weight in model.get_weights())
print(f"weights finite: {finite}")
"""
EAGER = """
for given, wanted in data:
    with tf.GradientTape() as tape:
        loss = loss_of(given, wanted)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""
COMPILED = """
@tf.function
def train_step(net, given, wanted):
    with tf.GradientTape() as tape:
        loss = loss_of(given, wanted)
    gradients = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(gradients, net.trainable_variables))
    return loss


for given, wanted in data:
    train_step(model, given, wanted)
"""
IN_BRANCH = COMPILED.replace(
    "    optimizer.apply",
    "    sound = [tf.reduce_all(tf.math.is_finite(one)) for one in gradients]\n"
    "    if tf.reduce_all(sound):\n        optimizer.apply",
)
ALL_IN_BRANCH = COMPILED.replace(
    """    gradients = tape.gradient(loss, net.trainable_variables)
    optimizer.apply""",
    """    if tf.math.is_finite(loss):
        gradients = tape.gradient(loss, net.trainable_variables)
        optimizer.apply""",
)
MASKED = COMPILED.replace(
    "    optimizer.apply",
    "    gradients = [tf.where(tf.math.is_finite(g), g, 0.0) for g in gradients]\n"
    "    gradients, _ = tf.clip_by_global_norm(gradients, 1.0)\n    optimizer.apply",
)
APPLIED_OUTSIDE = """
@tf.function
def differentiate(given, wanted):
    with tf.GradientTape() as tape:
        loss = loss_of(given, wanted)
    return tape.gradient(loss, model.trainable_variables)


for given, wanted in data:
    gradients = differentiate(given, wanted)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""
LEFT_OUT = EAGER.replace(
    "    gradients = tape",
    "    if not np.isfinite(float(loss)):\n        continue\n    gradients = tape",
)
RAISES = EAGER.replace(
    "    optimizer.apply",
    "    if not all(np.isfinite(one).all() for one in gradients):\n"
    '        raise SystemExit("not finite")\n    optimizer.apply',
)
ARRAYS = EAGER.replace(
    "for given, wanted in data:",
    "for start in range(0, 160, 16):\n"
    "    given, wanted = x[start : start + 16], y[start : start + 16]",
)
TWO_OPTIMIZERS = """
last = model.layers[-1]
first = [v for v in model.trainable_variables if not any(v is each for each in last.variables)]
others = keras.optimizers.RMSprop(0.01)

for given, wanted in data:
    with tf.GradientTape(persistent=True) as tape:
        loss = loss_of(given, wanted)
    optimizer.apply_gradients(zip(tape.gradient(loss, first), first))
    found = tape.gradient(loss, last.trainable_variables)
    others.apply_gradients(zip(found, last.trainable_variables))
"""
SCALED = COMPILED.replace("tape.gradient(loss", "tape.gradient(optimizer.scale_loss(loss)").replace(
    "\n@tf.function",
    "\noptimizer = keras.optimizers.LossScaleOptimizer(optimizer)\n\n\n@tf.function",
)
BY_XLA = """
class Masked(keras.Sequential):
    def train_step(self, data):
        given, wanted = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(given, training=True) - wanted))
        found = tape.gradient(loss, self.trainable_variables)
        found = [tf.where(tf.math.is_finite(loss), one, 0.0) for one in found]
        self.optimizer.apply_gradients(zip(found, self.trainable_variables))
        return {"loss": loss}


model = Masked(model.layers)
model.compile(optimizer, jit_compile=True)
model.fit(data, verbose=0)
"""
LOOPS = {
    "by_xla": BY_XLA,
    "eager": EAGER,
    "compiled": COMPILED,
    "in_branch": IN_BRANCH,
    "all_in_branch": ALL_IN_BRANCH,
    "masked": MASKED,
    "applied_outside": APPLIED_OUTSIDE,
    "left_out": LEFT_OUT,
    "raises": RAISES,
    "arrays": ARRAYS,
}
FAST = ("in_branch",)
CASES = [
    name if name in FAST else pytest.param(name, marks=pytest.mark.full) for name in sorted(LOOPS)
]


@pytest.mark.parametrize("name", CASES)
def test_a_replay_names_operation_line_row_and_sample(tmp_path: Path, name: str) -> None:
    printed = ran(tmp_path, LOOPS[name])
    assert "next: mothtrap replay" in printed
    found = json.loads(mothtrap(tmp_path, "replay", "a", "--step", "6", "--format", "json"))
    assert found["match"] is True
    assert found["operation"] == "Log"
    assert found["location"] == "train.py:15"
    assert found["rows"] == [1]
    assert found["samples"] == ["sample 97" + (" of x" if name == "arrays" else "")]


@pytest.mark.full
@pytest.mark.parametrize("policy", ["skip", "stop"])
@pytest.mark.parametrize(
    "name", ["eager", "compiled", "applied_outside", "masked", "left_out", "two_optimizers"]
)
def test_weights_stay_finite(tmp_path: Path, name: str, policy: str) -> None:
    loop = TWO_OPTIMIZERS if name == "two_optimizers" else LOOPS[name]
    script = loop.replace("\nfor ", "\nimport atexit\n\natexit.register(show)\nfor ")
    show = "def show():" + TAIL.replace("\n", "\n    ")
    printed = ran(tmp_path, show + "\n" + script, "--on-nonfinite", policy)
    assert "weights finite: True" in printed
    assert "had no effect" not in printed


@pytest.mark.full
def test_a_loss_scale_that_overflows_is_no_fault(tmp_path: Path) -> None:
    healthy = SCALED.replace("\nfor ", "\nx[97, 2] = 1.0\nfor ")
    printed = ran(tmp_path, healthy)
    assert "skipped by the script" not in printed
    assert "replay" not in printed


def ran(tmp_path: Path, loop: str, *options: str) -> str:
    """Run a loop under mothtrap; return everything that was printed."""
    (tmp_path / "train.py").write_text(HEAD + loop + TAIL)
    return mothtrap(tmp_path, "run", "--name", "a", *options, "train.py")


def mothtrap(tmp_path: Path, *arguments: str) -> str:
    """Run a mothtrap command; return its output."""
    command = [sys.executable, "-m", "mothtrap", *arguments]
    done: Any = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    return str(done.stdout if "json" in arguments else done.stdout + done.stderr)
