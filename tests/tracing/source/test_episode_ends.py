"""Functions that discount values, with and without the ends of episodes."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from mothtrap.tracing.source.episode_ends import (
    discounted_line,
    multiplied_ends,
    unread_ends,
)


def found(tmp_path: Path, text: str) -> str | None:
    file = tmp_path / "agent.py"
    file.write_text(textwrap.dedent(text))
    seen = unread_ends([str(file)])
    if seen is None:
        return None
    assert seen[1].endswith("agent.py:" + seen[1].rpartition(":")[2])
    return f"{seen[0]} {seen[1].rpartition(':')[2]}"


def test_ends_that_are_received_and_not_read_are_found(tmp_path: Path) -> None:
    learns = """
    def learn(batch):
        state, action, reward, after, done = batch
        target = reward + gamma * q(after).max(1)[0]
        return loss(q(state), target)
    """
    assert found(tmp_path, learns) == "done 4"


def test_ends_that_are_parameters_are_found(tmp_path: Path) -> None:
    learns = """
    @jax.jit
    def update(state, rewards, dones, after):
        def loss(params):
            return ((q(params) - target) ** 2).mean()
        target = rewards + args.gamma * q(after).max(-1)
    """
    assert found(tmp_path, learns) == "dones 6"


def test_a_mask_of_actions_is_no_mask_of_ends(tmp_path: Path) -> None:
    learns = """
    def learn(states, actions, rewards, after, done):
        target = rewards + gamma * q(after).max(1)
        masks = tf.one_hot(actions, 2)
        return loss(q(states) * masks, target)
    """
    assert found(tmp_path, learns) == "done 3"


LOOP = """
while True:
    after, reward, done = env.step(action)
    memory.append((state, action, reward, after, float(done)))
    if done:
        state = env.reset()
    states, actions, rewards, nexts, dones = zip(*random.sample(memory, 32))
    rewards, dones = torch.tensor(rewards), torch.tensor(dones).unsqueeze(-1)
    target = rewards + gamma * q(nexts).max(1)[0]{factor}
"""


def test_a_loop_that_only_makes_a_batch_of_ends_is_found(tmp_path: Path) -> None:
    assert found(tmp_path, LOOP.format(factor="")) == "dones 9"
    function = "def train():\n" + textwrap.indent(LOOP.format(factor=""), "    ")
    assert found(tmp_path, function) == "dones 9"


@pytest.mark.parametrize(
    "factor",
    [
        " * (1 - dones)",
        "\n    target[dones] = 0",
        "\n    not_done = 1 - dones\n    target = target * not_done",
        "\n    target = torch.where(dones, rewards, target)",
    ],
)
def test_a_loop_that_reads_the_batch_of_ends_is_quiet(tmp_path: Path, factor: str) -> None:
    assert found(tmp_path, LOOP.format(factor=factor)) is None


@pytest.mark.parametrize(
    "text",
    [
        "def f(r, done): return r + gamma * v * (1 - done)",
        "def f(r, done):\n  v[done] = 0\n  return r + gamma * v",
        "def f(r, not_done): return r + not_done * gamma * v",
        "def f(r, done): return r + gamma * mask * v",
        "def f(batch, done): return batch.reward + gamma * batch['done'] * v",
        "def f(rewards, done):\n  for r, end in zip(rewards, done):\n    R = r + gamma * R",
        "def f(r, done): return r + gamma * v\ndef g(r, done): return r + gamma * v * done",
        "def f(r): return r + gamma * v",  # an environment without ends
        "def f(x, done): return x + gamma * v",  # no reward
        "def f(r, done): return r + 0.5 * v",
    ],
)
def test_other_functions_are_fine(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, text) is None


def test_the_line_that_discounts_is_found(tmp_path: Path) -> None:
    file = tmp_path / "agent.py"
    file.write_text("x = 1\ntarget = rewards + (1 - done) * args.gamma * value\n")
    assert (discounted_line([str(file)]) or "").endswith("agent.py:2")
    file = tmp_path / "other.py"
    file.write_text("target = x + gamma * value\n")
    assert discounted_line([str(file)]) is None


def test_files_that_cannot_be_read_are_skipped(tmp_path: Path) -> None:
    assert unread_ends([str(tmp_path / "missing.py")]) is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("y = reward + gamma * v * done", "done"),
        ("y = r + done.float() * self.gamma * v.max(1)[0]", "done"),
        ("y = rewards + gamma * (v * dones.unsqueeze(1))", "dones"),
        ("y = reward + gamma * v * (1 - done)", None),
        ("y = reward + gamma * v * not_done", None),
        ("y = reward + gamma * v * done_mask", None),
        ("y = x + gamma * v * done", None),  # no reward
    ],
)
def test_ends_that_are_a_factor_are_found(tmp_path: Path, text: str, name: str | None) -> None:
    file = tmp_path / "agent.py"
    file.write_text(text)
    found = multiplied_ends([str(file)])
    assert (found[0] if found is not None else None) == name
