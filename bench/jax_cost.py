"""CPU time of a JAX step under mothtrap, and under `jax_debug_nans`, relative to the plain one.

Each way trains the same network in processes of its own, in turns. What a machine was doing
besides shows in the spread of the plain runs among themselves.

Run: .venv-jax/bin/python bench/jax_cost.py [--steps 200] [--width 1024] [--rounds 5]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

WAYS = ("plain", "mothtrap", "jax_debug_nans")
WARM_UP = 30
"""Steps that are not counted: programs and shadows are compiled in them."""


def train(steps: int, width: int, *, debug_nans: bool) -> float:
    """Train four layers with Adam; return the mean CPU time of a step, in milliseconds."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    import optax

    jax.config.update("jax_debug_nans", debug_nans)
    keys = jax.random.split(jax.random.key(0), 4)
    params = [jax.random.normal(key, (width, width)) / width**0.5 for key in keys]
    optimizer = optax.adam(1e-4)

    def loss_fn(params: Any, x: Any, y: Any) -> Any:
        for weight in params[:-1]:
            x = jax.nn.relu(x @ weight)
        return jnp.mean((x @ params[-1] - y) ** 2)

    @jax.jit
    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state, loss

    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(64, width)).astype(np.float32) for _ in range(2))
    state, spent_s = optimizer.init(params), []
    for _ in range(steps + WARM_UP):
        began_s = time.process_time()
        params, state, loss = step(params, state, x, y)
        loss.block_until_ready()
        spent_s.append(time.process_time() - began_s)
    return 1e3 * statistics.fmean(spent_s[WARM_UP:])


def measure(way: str, options: argparse.Namespace) -> float:
    """Train in a process of its own; return what `train` returned there."""
    own = [__file__, "--as", way, "--steps", str(options.steps), "--width", str(options.width)]
    with tempfile.TemporaryDirectory() as folder:
        watched = ["-m", "mothtrap", "run", "--quiet", "--runs-dir", folder]
        words = [sys.executable, *(watched if way == "mothtrap" else []), *own]
        env = {**os.environ, "JAX_PLATFORMS": "cpu"}
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    """Print a table: CPU time of a step, and the median of the ratios to the plain one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--as", dest="way", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        print(train(options.steps, options.width, debug_nans=options.way == "jax_debug_nans"))
        return
    rounds = [{way: measure(way, options) for way in WAYS} for _ in range(options.rounds)]
    print(f"{Path(sys.executable)}: {options.rounds} rounds of {options.steps} steps")
    for way in WAYS:
        ratios = sorted(each[way] / each["plain"] for each in rounds)
        spent_ms = statistics.median(each[way] for each in rounds)
        print(f"{way:16} {spent_ms:9.3f} ms CPU a step  x{statistics.median(ratios):.3f}")


if __name__ == "__main__":
    main()
