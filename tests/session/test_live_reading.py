"""A job and a reader in two processes: the reader gets the values of the job."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

from tests.harness.running import MOTHTRAP, environment, start

from mothtrap.core.errors import RunNotFoundError
from mothtrap.reader.run import Run, open_run

PROGRAM = """
import hashlib, json
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
model.to(torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    if step == 10:
        input()  # until the reader has seen all steps that are closed: 0 to 8
    loss = model(torch.randn(16, 4, dtype=torch.bfloat16)).pow(2).mean()
    loss.backward()
    bits = model[0].weight.grad.view(torch.int16).numpy().tobytes()
    with open("digests.jsonl", "a") as file:
        print(json.dumps(hashlib.sha256(bits).hexdigest()), file=file)
    optimizer.step()
    optimizer.zero_grad()
"""
CONFIG = """
overhead = 0
on_full = "block"
[collections.gradients]
raw = true
"""


def test_the_values_of_a_running_job_are_its_own_bit_by_bit(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "mothtrap.toml").write_text(CONFIG)
    command = [*MOTHTRAP, "run", "--name", "live", "train.py"]
    env = environment(OMP_NUM_THREADS="1")
    with start(command, cwd=tmp_path, env=env, stdin=subprocess.PIPE) as job:
        assert job.stdin
        assert job.stderr
        try:
            read, states = _follow(_opened(tmp_path, job), job)
        finally:
            job.stdin.close()
        said = job.stderr.read()
    assert job.returncode == 0, said
    digests = [json.loads(line) for line in (tmp_path / "digests.jsonl").read_text().splitlines()]
    assert read == digests
    assert states == ["running"] * 9


def _opened(folder: Path, job: subprocess.Popen[str]) -> Run:
    while job.poll() is None:
        try:
            return open_run("live", folder / "runs")
        except RunNotFoundError:
            continue
    raise AssertionError(f"the job ended at once: {job.stderr.read() if job.stderr else ''}")


def _follow(run: Run, job: subprocess.Popen[str]) -> tuple[list[str], list[str]]:
    """Return digests of the gradient at each step, and the state of the run at the first nine."""
    read, states = [], []
    for status in run.follow("train"):
        values = run.tensor("gradient:0.weight").at(status.key.step)
        assert values.dtype.name == "bfloat16"
        read.append(hashlib.sha256(values.tobytes()).hexdigest())
        if len(read) <= 9:
            states.append(run.state)
        if len(read) == 9 and job.stdin:
            job.stdin.write("\n")
            job.stdin.flush()
    assert run.state == "finished"
    return read, states
