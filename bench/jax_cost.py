"""CPU time of a JAX step under mothtrap and other tools, relative to the same step alone.

Each way trains the same network in separate processes, in turns. The spread of the plain runs shows
the effect of other load on the machine.

Run: .venv-jax/bin/python bench/jax_cost.py [--steps 200] [--width 1024] [--rounds 5]
     [--ways "donated;guard_copies"]
`wandb`, where it is installed, logs the loss of each step, offline.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Way(NamedTuple):
    """A way to train, and the way with which it is compared."""

    beside: str
    settings: dict[str, str]
    watched: bool = False
    donates: bool = False


GUARDED = {"MOTHTRAP_ON_NONFINITE": "skip", "MOTHTRAP_GUARD_COPIES": "true"}
WAYS = {
    "plain": Way("plain", {}),
    "mothtrap": Way("plain", {}, watched=True),
    "jax_debug_nans": Way("plain", {"JAX_DEBUG_NANS": "true"}),
    "wandb": Way("plain", {"WANDB_MODE": "offline", "WANDB_SILENT": "true"}),
    "donated": Way("donated", {}, donates=True),
    "mothtrap, donated": Way("donated", {}, watched=True, donates=True),
    "guard_copies": Way("donated", GUARDED, watched=True, donates=True),
}
WARM_UP = 100
"""Number of steps that are not counted, because programs and shadows are compiled in them, and the
first inspections ignore the budget."""


def train(steps: int, width: int, *, donates: bool, log: Callable[[Any], None]) -> float:
    """Train four layers with Adam; return the mean CPU time of a step, in milliseconds."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    import optax

    keys = jax.random.split(jax.random.key(0), 4)
    params = [jax.random.normal(key, (width, width)) / width**0.5 for key in keys]
    optimizer = optax.adam(1e-4)

    def loss_fn(params: Any, x: Any, y: Any) -> Any:
        for weight in params[:-1]:
            x = jax.nn.relu(x @ weight)
        return jnp.mean((x @ params[-1] - y) ** 2)

    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state, loss

    step = jax.jit(step, donate_argnums=(0, 1) if donates else ())
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(64, width)).astype(np.float32) for _ in range(2))
    state, spent_s = optimizer.init(params), []
    for _ in range(steps + WARM_UP):
        began_s = time.process_time()
        params, state, loss = step(params, state, x, y)
        loss.block_until_ready()
        log(loss)
        spent_s.append(time.process_time() - began_s)
    return 1e3 * statistics.fmean(spent_s[WARM_UP:])


def log_of(way: str) -> Callable[[Any], None]:
    """Return a function to call with the loss of each step."""
    if way != "wandb":
        return lambda _: None
    import wandb

    run = wandb.init(project="bench")
    return lambda loss: run.log({"loss": loss.item()})


def measure(name: str, options: argparse.Namespace) -> float:
    """Train in a separate process; return the result of `train`."""
    way = WAYS[name]
    own = [__file__, "--as", name, "--steps", str(options.steps), "--width", str(options.width)]
    with tempfile.TemporaryDirectory() as folder:
        mothtrap = ["-m", "mothtrap", "run", "--quiet", "--runs-dir", folder]
        words = [sys.executable, *(mothtrap if way.watched else []), *own]
        env = {**os.environ, "JAX_PLATFORMS": "cpu", "WANDB_DIR": folder, **way.settings}
        done = subprocess.run(words, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    """Print a table: CPU time of a step, and the median of the ratios, with the extremes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ways", default=";".join(WAYS), help="with those that they are beside")
    parser.add_argument("--as", dest="way", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        donates = WAYS[options.way].donates
        print(train(options.steps, options.width, donates=donates, log=log_of(options.way)))
        return
    ways = [name for name in WAYS if name in options.ways.split(";")]
    if not importlib.util.find_spec("wandb"):
        ways = [name for name in ways if name != "wandb"]
    rounds = [{name: measure(name, options) for name in ways} for _ in range(options.rounds)]
    print(f"{Path(sys.executable)}: {options.rounds} rounds of {options.steps} steps")
    for name in ways:
        ratios = sorted(each[name] / each[WAYS[name].beside] for each in rounds)
        spent_ms = statistics.median(each[name] for each in rounds)
        spread = f"[{ratios[0]:.3f}, {ratios[-1]:.3f}]"
        print(f"{name:18} {spent_ms:8.3f} ms CPU a step  x{statistics.median(ratios):.3f} {spread}")


if __name__ == "__main__":
    main()
