"""A job that the guard stops ends with exit code 3, whatever the script does then."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.harness.running import TORCHRUN, Outcome, environment, observed, run, show

from mothtrap.reader.run import open_run

SCRIPT = """
import atexit, math, sys, threading
import torch
from torch import nn

kind = sys.argv[1]
atexit.register(lambda: print("atexit ran", flush=True))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def step(number):
    x = torch.randn(4, 6)
    if number == 3:
        x[1, 2] = math.nan
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), torch.arange(4) % 3).backward()
    optimizer.step()


def train():
    try:
        for number in range(8):
            if kind != "bare":
                step(number)
                continue
            try:
                step(number)
            except:
                print("swallowed", number, flush=True)
    finally:
        print("finally ran", flush=True)


if kind == "thread":
    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
else:
    train()
print("steps", int(optimizer.state[model[0].weight]["step"]), flush=True)
"""


def job(folder: Path, kind: str, policy: str) -> tuple[Outcome, dict]:
    script = folder / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    command = observed(["--on-nonfinite", policy, script, kind], runs_dir=folder, name="job")
    outcome = run(command, cwd=folder, env=environment())
    return outcome, show(folder / "job", cwd=folder)


@pytest.mark.parametrize(
    ("kind", "printed"),
    [
        ("plain", ["finally ran", "atexit ran"]),
        (
            "bare",
            [*[f"swallowed {n}" for n in range(3, 8)], "finally ran", "steps 3", "atexit ran"],
        ),
        ("thread", ["finally ran", "steps 3", "atexit ran"]),
    ],
)
def test_a_stopped_job_ends_with_3(tmp_path: Path, kind: str, printed: list[str]) -> None:
    outcome, record = job(tmp_path, kind, "stop")
    assert outcome.returncode == 3
    assert outcome.stdout.splitlines() == printed
    assert "mothtrap: stopped at step 3 (on_nonfinite = stop): the loss is NaN" in outcome.stderr
    assert "The job was stopped at step 3 by on_nonfinite." in outcome.stderr
    assert "Traceback" not in outcome.stderr
    (found,) = record["guarded"]
    assert (found["action"], found["steps"], found["faults"]) == ("stopped", [3], {"loss": 1})


def test_an_error_that_was_asked_for_ends_the_script_as_any_other(tmp_path: Path) -> None:
    outcome, record = job(tmp_path, "plain", "raise")
    assert outcome.returncode == 1
    assert outcome.stdout.splitlines() == ["finally ran", "atexit ran"]
    trace = outcome.stderr[outcome.stderr.index("Traceback") :].splitlines()
    last = next(line for line in trace if line.startswith("mothtrap."))
    assert last.startswith(
        "mothtrap.core.errors.NonFiniteStepError: step 3 was not applied: the loss is NaN ("
    )
    assert sum(line.startswith('  File "') for line in trace) == 3
    assert record["guarded"][0]["action"] == "raised"


TORCH = """
import math, torch
import mothtrap
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
mothtrap.on_stop(lambda: print("saved", torch.isfinite(model.weight).all().item(), flush=True))
for number in range(6):
    x = torch.randn(4, 3) * (math.nan if number == BAD else 1.0)
    optimizer.zero_grad()
    model(x).pow(2).mean().backward()
    optimizer.step()
"""
TORCH_CLOSURE = """
import math, torch
import mothtrap
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.LBFGS(model.parameters())
mothtrap.on_stop(lambda: print("saved", torch.isfinite(model.weight).all().item(), flush=True))
for number in range(6):
    def closure():
        optimizer.zero_grad()
        loss = model(torch.ones(4, 3) * (math.nan if number == BAD else 1.0)).pow(2).mean()
        loss.backward()
        return loss
    optimizer.step(closure)
"""
JAX = """
import jax, jax.numpy as jnp, optax
import mothtrap
optimizer = optax.sgd(0.1)

@jax.jit
def update(w, state, x):
    loss, gradient = jax.value_and_grad(lambda w: ((x @ w - 1) ** 2).mean())(w)
    change, state = optimizer.update(gradient, state)
    return optax.apply_updates(w, change), state, loss

w = jnp.full(3, 0.5)
state = optimizer.init(w)
mothtrap.on_stop(lambda: print("saved", bool(jnp.isfinite(w).all()), flush=True))
for number in range(6):
    w, state, loss = update(w, state, jnp.ones((4, 3)) * (jnp.nan if number == BAD else 1.0))
"""
KERAS = """
import keras, numpy
import mothtrap
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse")
data = numpy.ones((24, 3), "float32")
data[4 * BAD] = numpy.nan

@mothtrap.on_stop
def save():
    print("saved", all(bool(numpy.isfinite(w).all()) for w in model.get_weights()), flush=True)

model.fit(data, numpy.ones(24), batch_size=4, shuffle=False, verbose=0)
"""


@pytest.mark.parametrize("bad", [0, 3])
@pytest.mark.parametrize(
    ("program", "needs"),
    [
        (TORCH, "torch"),
        (TORCH_CLOSURE, "torch"),
        (JAX, "optax"),
        (KERAS, "keras"),
    ],
    ids=["torch", "closure", "jax", "keras"],
)
def test_a_checkpoint_is_saved_before_the_guard_stops(
    tmp_path: Path, program: str, needs: str, bad: int
) -> None:
    pytest.importorskip(needs)
    script = tmp_path / "train.py"
    script.write_text(f"BAD = {bad}\n{program}", encoding="utf-8")
    command = observed(["--on-nonfinite", "stop", script], runs_dir=tmp_path, name="job")
    outcome = run(command, cwd=tmp_path, env=environment())
    assert (outcome.stdout, outcome.returncode) == ("saved True\n", 3), outcome.stderr


RANKS = """
import math, torch
import mothtrap
from torch import distributed
distributed.init_process_group("gloo")
rank = distributed.get_rank()
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

@mothtrap.on_stop
def save():
    both = torch.ones(1)
    distributed.all_reduce(both)
    print(f"rank {rank}: {int(both)} saved\\n", end="", flush=True)

for number in range(6):
    optimizer.zero_grad()
    x = torch.randn(4, 3) * (math.nan if number == 3 and rank == 1 else 1.0)
    model(x).pow(2).mean().backward()
    optimizer.step()
"""


SPAWNING = """
import os, runpy
from torch import multiprocessing

def work(rank):
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ["PORT"])
    runpy.run_path("ranks.py")

if __name__ == "__main__":
    import socket
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ["PORT"] = str(free.getsockname()[1])
    multiprocessing.spawn(work, nprocs=2)
"""


@pytest.mark.parametrize("starts", ["torchrun", pytest.param("spawn", marks=pytest.mark.full)])
def test_ranks_that_the_guard_stops_save_together(tmp_path: Path, starts: str) -> None:
    (tmp_path / "ranks.py").write_text(RANKS, encoding="utf-8")
    spawning = tmp_path / "spawning.py"
    spawning.write_text(SPAWNING, encoding="utf-8")
    ranks = [TORCHRUN, "--standalone", "--nproc-per-node", "2", tmp_path / "ranks.py"]
    words = ["--", *ranks] if starts == "torchrun" else [spawning]
    command = observed(["--on-nonfinite", "stop", *words], runs_dir=tmp_path, name="job")
    outcome = run(command, cwd=tmp_path, env=environment(OMP_NUM_THREADS="1"))
    assert outcome.returncode == 3, outcome.stderr
    assert sorted(outcome.stdout.split("\n")) == ["", "rank 0: 2 saved", "rank 1: 2 saved"]
    seen = open_run(tmp_path / "job")
    assert (seen.state, list(seen.workers)) == ("finished", [0, 1])
