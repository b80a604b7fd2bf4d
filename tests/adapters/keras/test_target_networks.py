"""Target networks of custom loops."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.adapters.tensorflow import ADAPTER as BASE  # noqa: E402
from mothtrap.core.facts.evaluations import BootstrappedTargets, EvaluatedCopy  # noqa: E402
from mothtrap.core.facts.policies import UnreadEnds  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

SCRIPT = """
import keras
import numpy as np
import tensorflow as tf


def build(units=2):
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(units)])


COMPILED
def train(batch):
    states, rewards, after, dones = batch
    future = target.predict(after, verbose=0) if PREDICTS else target(after)
    targets = rewards + 0.9 * GAMMA * tf.reduce_max(future, axis=1)ENDS
    with tf.GradientTape() as tape:
        values = tf.reduce_max(model(states), axis=1)
        loss = tf.reduce_mean(tf.square(targets - values))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))


GAMMA = 0.9
PREDICTS = False
model, target, optimizer = build(), build(), keras.optimizers.SGD(0.01)
rng = np.random.default_rng(0)
for step in range(12):
    states, after = rng.normal(size=(2, 8, 4)).astype("float32")
    train((states, np.ones(8, "float32"), after, np.zeros(8, "float32")))
    if UPDATES:
        target.set_weights(model.get_weights())
"""


def facts_of(
    path: Path,
    *,
    updates: bool,
    predicts: bool = False,
    ends: bool = True,
    compiled: bool = False,
    other: bool = False,
) -> list:
    text = SCRIPT.replace("ENDS", " * (1.0 - dones)" if ends else "")
    text = text.replace("COMPILED", "@tf.function" if compiled else "")
    text = text.replace("build(), build()", "build(), build(3)" if other else "build(), build()")
    text = text.replace("PREDICTS = False", f"PREDICTS = {predicts}\nUPDATES = {updates}")
    script = path / "play.py"
    script.write_text(text)
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        runpy.run_path(str(script))
    return list(process.facts())


@pytest.mark.parametrize("predicts", [False, True])
@pytest.mark.parametrize("updates", [False, True])
def test_weights_of_a_target_network(tmp_path: Path, updates: bool, predicts: bool) -> None:
    facts = facts_of(tmp_path, updates=updates, predicts=predicts)
    copies = [one for one in facts if isinstance(one, EvaluatedCopy)]
    assert len(copies) > 4
    assert (len({one.digest for one in copies}) > 1) is updates
    assert copies[-1].apart > 4
    assert [one for one in facts if isinstance(one, BootstrappedTargets)]


@pytest.mark.parametrize("ends", [False, True])
def test_ends_of_episodes_that_are_not_read(tmp_path: Path, ends: bool) -> None:
    facts = facts_of(tmp_path, updates=True, ends=ends)
    assert bool([one for one in facts if isinstance(one, UnreadEnds)]) is not ends


@pytest.mark.parametrize("updates", [False, True])
def test_a_program_calls_its_target_network_in_each_step(tmp_path: Path, updates: bool) -> None:
    facts = facts_of(tmp_path, updates=updates, compiled=True)
    copies = [one for one in facts if isinstance(one, EvaluatedCopy)]
    assert len(copies) > 4
    assert (len({one.digest for one in copies}) > 1) is updates


def test_a_network_of_other_shapes_in_a_program_is_no_target_network(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, updates=False, compiled=True, other=True)
    assert [one for one in facts if isinstance(one, EvaluatedCopy)] == []
