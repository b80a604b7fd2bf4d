"""Two processes that train on shared arrays get the same bits, and nothing deadlocks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("jax")

PROGRAM = """
import sys
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

rank = int(sys.argv[2])
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(sys.argv[1], 2, rank)
mesh = jax.make_mesh((2,), ("rows",))
rows, whole = NamedSharding(mesh, P("rows")), NamedSharding(mesh, P())


@jax.jit
def update(w, x):
    loss, grad = jax.value_and_grad(lambda w: ((x @ w - 1) ** 2).mean())(w)
    return w - 0.1 * grad, loss


w = jax.make_array_from_process_local_data(whole, np.zeros(3, np.float32))
for step in range(30):
    own = np.random.default_rng(2 * step + rank).normal(size=(4, 3)).astype(np.float32)
    w, loss = update(w, jax.make_array_from_process_local_data(rows, own))
print("weights", np.asarray(w).tobytes().hex())
"""


def weights(tmp_path: Path, *start: str) -> list[str]:
    script = tmp_path / "train.py"
    script.write_text(PROGRAM, encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    kept = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    jobs = [
        subprocess.Popen(
            [sys.executable, *start, *name(rank, start), str(script), address, str(rank)],
            cwd=tmp_path,
            env={**kept, "JAX_PLATFORMS": "cpu"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    try:
        said = [job.communicate(timeout=400) for job in jobs]
    finally:
        for job in jobs:
            job.kill()
    assert not any(job.returncode for job in jobs), [err[-2000:] for _, err in said]
    return [line for out, _ in said for line in out.splitlines() if line.startswith("weights")]


def name(rank: int, start: Sequence[str]) -> list[str]:
    """Return the options that name the run of one process."""
    return ["--name", f"rank{rank}"] if start else []


def test_two_processes_keep_their_bits(tmp_path: Path) -> None:
    plain = weights(tmp_path)
    assert len(plain) == 2
    assert weights(tmp_path, "-m", "mothtrap", "run", "--runs-dir", str(tmp_path)) == plain
