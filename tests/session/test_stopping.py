"""A job that the guard stops ends with exit code 3, whatever the script makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.harness.running import Outcome, environment, observed, run, show

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
    assert "The job was stopped at step 3 as on_nonfinite asks." in outcome.stderr
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
