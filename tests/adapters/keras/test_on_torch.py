"""Keras on PyTorch: Keras optimizers make the steps, and the weights keep their bits."""

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
BAD_SCALED = (
    """
scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(1e-2))
model.compile(scaled, loss)
"""
    + BAD
)


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


def watched(tmp_path: Path, body: str, *options: str) -> tuple[str, Run]:
    start = ("-m", "mothtrap", "run", "--quiet", "--runs-dir", str(tmp_path), "--name", "run")
    printed = train(tmp_path, body, *start, *options)
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
@pytest.mark.parametrize("program", [BAD, BAD_SCALED], ids=["plain", "scaled"])
def test_a_step_that_is_not_finite_is_named_and_replayed(program: str, tmp_path: Path) -> None:
    _, run = watched(tmp_path, program)
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


def run_of(tmp_path: Path, body: str) -> tuple[str, Run]:
    """Run a program with and without mothtrap; its output, weights included, must be the same."""
    printed, run = watched(tmp_path, body)
    assert printed == train(tmp_path, body)
    return printed, run


def troubles(run: Run) -> list[str]:
    bad = ("ERROR", "WARNING")
    return [finding.code for finding in run.findings if finding.severity.name in bad]


def gradient_norms(run: Run, name: str) -> np.ndarray:
    matrix = run.stats("gradient", f"*{name}")["l2"]
    assert len(matrix.tensors) == 1
    return np.asarray(matrix.values_ST)[:, 0]


STATEFUL = """
class Stateful(keras.optimizers.schedules.LearningRateSchedule):
    rates = []

    def __call__(self, step):
        self.rates.append(float(np.float32(1e-2 * np.random.rand() / (1 + len(self.rates)))))
        return self.rates[-1]

    def get_config(self):
        return {}


model.compile(keras.optimizers.Adam(Stateful()), loss)
model.fit(x, y, epochs=2, batch_size=48, verbose=0)
print("rates", *Stateful.rates)
"""


def test_a_schedule_is_called_by_its_optimizer_alone(tmp_path: Path) -> None:
    printed, run = run_of(tmp_path, STATEFUL)
    rates = [float(word) for word in printed.split("\n")[0].split()[1:]]
    [recorded] = run.scalars("lr")
    assert list(recorded.steps_S) == list(range(12))
    assert list(recorded.values_S) == rates


MIXED = """
keras.mixed_precision.set_global_policy("mixed_float16")
x = np.random.default_rng(0).normal(size=(2048, 16)).astype("float32")
y = (x[:, 0] + x[:, 1] > 0).astype("int64")
last = keras.layers.Dense(2, dtype="float32")
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(64, activation="relu"), last])
scaled = keras.optimizers.LossScaleOptimizer(
    keras.optimizers.Adam(1e-3), initial_scale=2.0**22, dynamic_growth_steps=20
)
model.compile(scaled, loss)
seen = model.fit(x, y, epochs=5, batch_size=32, verbose=0)
print("losses", *seen.history["loss"])
print("updates", int(scaled.iterations.numpy()), float(scaled.dynamic_scale.numpy()))
"""


def test_a_loss_scale_is_taken_out_and_steps_that_it_skips_are_no_fault(tmp_path: Path) -> None:
    printed, run = run_of(tmp_path, MIXED)
    assert not troubles(run)
    means = [float(word) for word in printed.split("\n")[0].split()[1:]]
    [losses], [scales] = run.scalars("loss"), run.scalars("loss_scale")
    own = np.asarray(losses.values_S).reshape(5, 64)
    assert own.mean(axis=1) == pytest.approx(means, rel=1e-3)
    assert scales.values_S[0] == 2.0**22
    [skipped] = run.scalars("skipped")
    updates, last = (float(word) for word in printed.split("\n")[1].split()[1:])
    assert 0 < sum(skipped.values_S) == 320 - updates
    assert scales.values_S[-1] in (last / 2, last, last * 2)
    norms = gradient_norms(run, "dense/kernel")
    assert 0 < np.nanmin(norms) <= np.nanmax(norms) < 10


FIXED_SCALE = """
model.compile(keras.optimizers.SGD(0.1, loss_scale_factor=1024.0), loss)
seen = model.fit(x, y, epochs=2, batch_size=48, verbose=0)
print("losses", *seen.history["loss"])
"""


def test_a_fixed_loss_scale_is_taken_out(tmp_path: Path) -> None:
    printed, run = run_of(tmp_path, FIXED_SCALE)
    means = [float(word) for word in printed.split("\n")[0].split()[1:]]
    [losses], [scales] = run.scalars("loss"), run.scalars("loss_scale")
    own = np.asarray(losses.values_S).reshape(2, 6)
    weight_R = np.array([48, 48, 48, 48, 48, 16]) / 256
    assert own @ weight_R == pytest.approx(means, rel=1e-5)
    assert set(scales.values_S) == {1024.0}
    assert 0 < gradient_norms(run, "last/kernel").max() < 10


SUMMED_UP = """
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(2, use_bias=False, name="last")])
optimizer = keras.optimizers.SGD(0.5, gradient_accumulation_steps=4, clipnorm=0.05)
model.compile(optimizer, loss)
print("before", *model.layers[0].kernel.numpy().reshape(-1).tolist())
"""
BY_FIT = "model.fit(x, y, epochs=6, batch_size=32, verbose=0, shuffle=False)"
BY_LOOP = """
for step in range(6 * 8):
    rows = slice(step % 8 * 32, step % 8 * 32 + 32)
    value = loss(y[rows], model(x[rows], training=True))
    model.zero_grad()
    value.backward()
    with torch.no_grad():
        optimizer.apply([model.layers[0].kernel.value.grad], model.trainable_weights)
"""


def by_hand(kernel_FC: np.ndarray) -> tuple[list[float], list[float]]:
    """Compute the losses and gradient norms of the steps of `SUMMED_UP`, without mothtrap."""
    x_RF = np.random.default_rng(0).normal(size=(256, 8)).astype("float32").astype(float)
    y_RC = np.eye(2)[(x_RF[:, 0] > 0).astype(int)]
    losses, norms = [], []
    for step in range(12):
        rows = slice(step % 2 * 128, step % 2 * 128 + 128)  # four batches of 32
        logits_RC = x_RF[rows] @ kernel_FC
        p_RC = np.exp(logits_RC) / np.exp(logits_RC).sum(axis=1, keepdims=True)
        losses.append(float(-np.log((p_RC * y_RC[rows]).sum(axis=1)).mean()))
        gradient_FC = x_RF[rows].T @ (p_RC - y_RC[rows]) / 128
        norms.append(float(np.linalg.norm(gradient_FC)))
        kernel_FC = kernel_FC - 0.5 * gradient_FC * min(1, 0.05 / norms[-1])
    return losses, norms


@pytest.mark.parametrize("loop", [BY_FIT, BY_LOOP], ids=["fit", "loop"])
def test_a_step_of_micro_batches_has_their_mean_loss_and_gradient(
    loop: str, tmp_path: Path
) -> None:
    printed, run = run_of(tmp_path, SUMMED_UP + loop)
    kernel = [float(word) for word in printed.split("\n")[0].split()[1:]]
    losses, norms = by_hand(np.array(kernel).reshape(8, 2))
    [recorded] = run.scalars("loss")
    assert list(recorded.values_S) == pytest.approx(losses, rel=1e-4)
    assert list(gradient_norms(run, "last/kernel")) == pytest.approx(norms, rel=1e-4)
    assert "GRD107" not in {finding.code for finding in run.findings}


def test_a_step_that_is_left_out_takes_its_micro_batches_along(tmp_path: Path) -> None:
    _, run = watched(
        tmp_path, SUMMED_UP + "x[200, 3] = np.nan\n" + BY_FIT, "--on-nonfinite", "skip"
    )
    [skipped] = run.scalars("skipped")
    assert list(skipped.values_S) == [0, 1] * 6  # row 200 is in the second half of an epoch


UNKNOWN = """
optimizer = keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)
optimizer.build(model.trainable_weights)
optimizer._iterations.assign_add(1)
try:
    optimizer.apply([torch.ones(1)], [keras.Variable([1.0])])
except ValueError:
    model.fit(x, y, epochs=2, batch_size=48, verbose=0)
"""


def test_a_variable_that_the_optimizer_does_not_know_is_the_scripts_own_error(
    tmp_path: Path,
) -> None:
    _, run = run_of(tmp_path, UNKNOWN)
    [loss] = run.scalars("loss")
    assert len(loss) > 5


OWN_GRADIENTS = """
optimizer = keras.optimizers.SGD(0.1)
for step in range(20):
    rows = slice(step * 8, step * 8 + 48)
    value = loss(y[rows], model(x[rows], training=True))
    trained = model.trainable_weights
    gradients = torch.autograd.grad(value, [one.value for one in trained])
    with torch.no_grad():
        optimizer.apply(gradients, trained)
"""


def test_gradients_that_weights_do_not_bear_are_those_that_apply_is_given(tmp_path: Path) -> None:
    _, run = run_of(tmp_path, OWN_GRADIENTS)
    assert not [finding for finding in run.findings if finding.severity.name == "ERROR"]
    norms = gradient_norms(run, "last/kernel")
    assert len(norms) == 20
    assert norms.min() > 0


SAME_NAMES = """
class Block(keras.layers.Layer):
    def __init__(self, units):
        super().__init__(name="block")
        self.inner = keras.layers.Dense(units, activation="relu", name="inner")

    def build(self, shape):
        self.inner.build(shape)

    def call(self, rows):
        return self.inner(rows)


class Whole(keras.Model):
    def __init__(self):
        super().__init__(name="whole")
        self.first, self.second, self.last = Block(16), Block(17), keras.layers.Dense(2)

    def call(self, rows):
        return self.last(self.second(self.first(rows)))


model = Whole()
model.compile("adam", loss)
model.fit(x, y, batch_size=32, epochs=2, verbose=0)
model.zero_grad()
print("not cleared", *(one.path for one in model.trainable_weights if one.value.grad is not None))
"""


def test_variables_of_the_same_path_have_names_of_their_own(tmp_path: Path) -> None:
    printed, run = run_of(tmp_path, SAME_NAMES)
    shapes = {t.name: t.shape for t in run.tensors() if t.kind in ("weight", "bias")}
    own = {name.removeprefix("whole/"): shape for name, shape in shapes.items()}
    assert own == {
        "block/inner/kernel": (8, 16),
        "block/inner/bias": (16,),
        "block/inner#1/kernel": (16, 17),
        "block/inner#1/bias": (17,),
        "dense/kernel": (17, 2),
        "dense/bias": (2,),
    }
    # A real fault in Keras: its `zero_grad` omits the first of two variables with the same path.
    assert printed.startswith("not cleared whole/block/inner/kernel whole/block/inner/bias\n")
    assert {finding.code for finding in run.findings} == {"GRD105"}


READINGS = """
from mothtrap.adapters.keras.on_torch import Reading

reading, variable = Reading(), keras.Variable(3, dtype="int32", trainable=False)
original, reads = torch.Tensor.item, []
torch.Tensor.item = lambda self: reads.append(1) or original(self)
for step in range(4):
    assert reading.of(variable) == 3 + step
    variable.assign_add(1)
    reading.added(variable)
assert len(reads) == 1, reads
variable.assign(9)
assert (reading.of(variable), len(reads)) == (9, 2)
"""


def test_a_number_on_a_device_is_read_where_something_else_has_assigned_it(tmp_path: Path) -> None:
    train(tmp_path, READINGS)
