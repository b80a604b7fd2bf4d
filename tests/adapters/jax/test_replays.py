"""Six programs with a step that makes NaN: operation, line and row are named, also in replay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jax")

SCRIPT = """
import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np

ROWS, BAD = 8, 6


def overflow(w, x, key):
    grown = jnp.exp(x[:, 0] * 30)  # overflow
    return (x @ w - grown / (1 + grown)).mean()


def bad_row(w, x, key):
    size = jnp.log(x[:, 1] - 1)  # bad_row
    return ((x @ w - size) ** 2).mean()


def scanned(w, x, key):
    def body(total, row):
        return total + jnp.sqrt(row[0] - 1) * (row @ w), None  # scanned

    total, _ = jax.lax.scan(body, 0.0, x)
    return total


def dropped(w, x, key):
    kept = jnp.where(jax.random.bernoulli(key, 0.9, x.shape), x / 0.9, 0.0)
    return (jnp.exp(kept[:, 0]) @ jnp.ones(ROWS) * w.sum()) / ROWS  # dropped


def root(w, x, key):
    return jnp.sqrt(((x - x[:, :1]) @ w * (x[:, 2] - 2)) ** 2).mean()  # root


def behind_where(w, x, key):
    safe = jnp.where(x[:, 1] > 0, 0.0, jnp.log(-x[:, 1]))
    return ((x @ w + safe - jnp.log(x[:, 0] - 1)) ** 2).mean()  # behind_where


VALUES = {
    overflow: (0, 5.0), bad_row: (1, 0.5), scanned: (0, 0.5),
    dropped: (0, 500.0), root: (2, 2.0), behind_where: (0, 0.5),
}


def train(loss_fn, place, value, **options):
    def update(w, x, key):
        loss, grad = jax.value_and_grad(loss_fn)(w, x, key)
        return w - 1e-3 * grad, loss

    update.__name__ = loss_fn.__name__
    step = jax.jit(update, **options)
    rng, w = np.random.default_rng(0), jnp.linspace(0.1, 0.4, 4)
    for number in range(BAD + 2):
        x = rng.uniform(1.2, 2.0, (ROWS, 4)).astype(np.float32)
        if number == BAD:
            x[5, place] = value
        w, loss = step(w, x, jax.random.key(number))


for loss_fn, (place, value) in VALUES.items():
    options = {"donate_argnums": 0} if loss_fn in (bad_row, root) else {}
    train(loss_fn, place, value, **options)
"""
NAMES = ("overflow", "bad_row", "scanned", "dropped", "root", "behind_where")
OPERATIONS = {"overflow": "exp", "bad_row": "log", "scanned": "sqrt", "behind_where": "log"}


def mothtrap(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "mothtrap", *words],
        cwd=folder,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr[-2000:] if not done.stdout else done.stdout


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run all six programs and keep a snapshot of the bad step of each."""
    folder = tmp_path_factory.mktemp("planted")
    (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    bad = [str(6 + 8 * number) for number in range(len(NAMES))]
    (folder / "mothtrap.toml").write_text(
        f"snapshots = 20\nsnapshot_at = [{', '.join(bad)}]\n", encoding="utf-8"
    )
    mothtrap(folder, "run", "--quiet", "train.py")
    [run] = (folder / "runs").iterdir()
    return run


@pytest.mark.parametrize("name", NAMES)
def test_a_replay_names_operation_line_and_row(run: Path, name: str) -> None:
    step = 6 + 8 * NAMES.index(name)
    said = mothtrap(run.parent.parent, "replay", str(run), "--step", str(step), "--format", "json")
    found: dict[str, Any] = json.loads(said)
    assert found["match"] is True, said
    lines = [line for line in enumerate(SCRIPT.splitlines(), 1) if line[1].endswith(f"# {name}")]
    assert found["location"] == f"train.py:{lines[0][0]}"
    assert found["rows"] == [5]
    assert found["operation"] == OPERATIONS.get(name, found["operation"])
