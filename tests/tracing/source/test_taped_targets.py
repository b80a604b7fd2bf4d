"""Targets under the tape that differentiates their loss."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from mothtrap.tracing.source.taped_targets import taped_target

STEP = """
def step(states, rewards, after):
    BEFORE
    with tf.GradientTape() as tape:
        values = critic(states)
        TARGET
        loss = tf.reduce_mean((target - values) ** 2)
    grads = tape.gradient(loss, critic.trainable_variables)
"""
SIMPLE = "target = rewards + gamma * critic(after)"


def found(tmp_path: Path, target: str, before: str = "pass") -> bool:
    file = tmp_path / "agent.py"
    text = STEP.replace("BEFORE", before)
    file.write_text(text.replace("TARGET", textwrap.indent(target, " " * 8).lstrip()))
    return taped_target([str(file)]) is not None


@pytest.mark.parametrize(
    "target",
    [
        SIMPLE,
        "best = tf.reduce_max(critic(after))\ntarget = rewards + gamma * best",
    ],
)
def test_a_target_of_the_trained_model(tmp_path: Path, target: str) -> None:
    assert found(tmp_path, target)


@pytest.mark.parametrize(
    "target",
    [
        "target = rewards + gamma * target_critic(after)",
        "target = tf.stop_gradient(rewards + gamma * critic(after))",
        "target = rewards + gamma * tf.stop_gradient(critic(after))",
        "target = rewards + gamma * critic(after)\ntarget = tf.stop_gradient(target)",
        "for reward in rewards:\n    total = reward + gamma * total\ntarget = total",
    ],
)
def test_other_targets(tmp_path: Path, target: str) -> None:
    assert not found(tmp_path, target)


def test_a_target_before_the_tape(tmp_path: Path) -> None:
    assert not found(tmp_path, "pass", before=SIMPLE)
