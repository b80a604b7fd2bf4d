"""A job and a reader in two processes, with an object store between them."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from tests.harness.running import (
    ITSELF,
    MOTHTRAP,
    PYTHON,
    environment,
    finish,
    run,
    script_of,
    start,
)
from tests.s3_server import S3Server

from mothtrap.core.errors import ConfigError
from mothtrap.reader.run import Run, open_run
from mothtrap.reader.series.steps import StepStatus
from mothtrap.session.uploading import folder_for
from mothtrap.store.remote import cache_folder

SCRIPT = Path(__file__).parent / "remote_training.py"
WEIGHTS = '{"w": {"tensors": ["weights:0.*"], "raw": true}}'


class Job:
    """A training under `mothtrap run` that makes steps on request."""

    def __init__(self, url: str, cwd: Path, python: Sequence[str], **settings: str) -> None:
        words = ["--runs-dir", url, "--name", "seen", "--", *PYTHON, str(SCRIPT)]
        command = [*python, "-m", "mothtrap", "run", *words]
        self.process = start(command, cwd=cwd, env=here(**settings), stdin=subprocess.PIPE)
        assert self._line() == "ready"
        self.losses: list[float] = []
        self.weights: list[bytes] = []

    def train(self, steps: int) -> None:
        """Make steps; return when they are made."""
        self._say(f"{steps}")
        for _ in range(steps):
            loss, weight = self._line().split()
            self.losses.append(float(loss))
            self.weights.append(bytes.fromhex(weight))

    def end(self) -> None:
        """Make no more steps."""
        self._say("end")

    def _say(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            assert self.process.stderr is not None
            raise AssertionError(self.process.stderr.read())
        return line.rstrip("\n")


def here(**changes: str) -> dict[str, str]:
    """Return this environment as a job of the same user has it."""
    own = {
        "MOTHTRAP_CACHE": str(cache_folder()),
        "MOTHTRAP_UPLOAD_EVERY_S": "0.1",
        "MOTHTRAP_OVERHEAD": "0",
    }
    return environment(MOTHTRAP_COLLECTIONS=WEIGHTS, OMP_NUM_THREADS="1", **(own | changes))


def losses_of(run: Run) -> list[float]:
    (series,) = run.scalars("loss")
    assert series.steps_S.tolist() == list(range(len(series)))
    return series.values_S.tolist()


def told_of(run: Run, status: StepStatus) -> tuple[int, float, bytes]:
    """Return the step, its loss and the bits of a weight as soon as a follower gets them."""
    step = status.key.step
    assert status.complete
    (losses,) = run.range(step, step + 1).scalars("loss")
    return step, losses.values_S.item(), run.tensor("weight:0.weight").at(step).tobytes()


def stored(url: str, step: int) -> Run:
    """Return the run as a reader of the store sees it, once it has a step."""
    found = open_run(url)
    found.wait_for(step, timeout_s=60)
    return found


@pytest.fixture
def begin(s3_url: str, tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """Start jobs, and terminate those that a failed test leaves running."""
    jobs: list[Job] = []

    def start_job(python: Sequence[str] = PYTHON, **settings: str) -> Job:
        jobs.append(Job(s3_url, tmp_path, python, **settings))
        return jobs[-1]

    yield start_job
    for job in jobs:
        if job.process.poll() is None:
            os.killpg(job.process.pid, signal.SIGKILL)
            job.process.wait()
        for pipe in (job.process.stdin, job.process.stdout, job.process.stderr):
            assert pipe is not None
            pipe.close()


def test_a_reader_of_the_store_sees_the_jobs_own_values_while_it_runs(
    s3_url: str, begin: Callable[..., Job]
) -> None:
    job = begin()
    job.train(30)
    live = stored(f"{s3_url}/seen", 19)
    assert live.state == "running"
    assert losses_of(live) == job.losses[: live.steps]
    weight = live.tensor("weight:0.weight")
    for step in range(20):
        values = weight.at(step)
        assert (values.dtype, values.shape) == (np.dtype(np.float32), (16, 8))
        assert values.tobytes() == job.weights[step]

    followed = live.follow("train")
    got = [told_of(live, next(followed)) for _ in range(20)]
    job.train(30)
    job.end()
    got += [told_of(live, status) for status in followed]  # ends when the run has ended
    assert got == [(step, job.losses[step], job.weights[step]) for step in range(60)]
    assert live.state == "finished"

    outcome = finish(job.process)
    assert outcome.returncode == 0, outcome.stderr
    assert "obstore" not in outcome.stdout.split()  # none of it is in the training process
    assert f"mothtrap show {s3_url}/seen" in outcome.stderr
    assert not list((cache_folder() / "spool").glob("*/seen"))
    done = open_run(f"{s3_url}/seen")
    assert (done.state, done.steps, done.damage) == ("finished", 60, ())
    assert losses_of(done) == job.losses
    assert [done.tensor("weight:0.weight").at(s).tobytes() for s in range(60)] == job.weights
    mirrored = {path.name.partition("-")[0] for path in done.path.rglob("*.arrow")}
    assert mirrored >= {"events", "stats", "scalars", "index"}
    assert "raw" not in mirrored  # a tensor is read by its byte range


def test_an_outage_costs_neither_the_training_nor_a_step(
    s3_url: str, s3_server: S3Server, begin: Callable[..., Job]
) -> None:
    job = begin()
    job.train(10)
    before = stored(f"{s3_url}/seen", 8)
    s3_server.stop()
    try:
        job.train(40)  # succeeds although nothing can be sent
        assert job.process.stderr is not None
        said = job.process.stderr.readline()
    finally:
        s3_server.start()
    job.train(10)
    job.end()
    outcome = finish(job.process)
    assert outcome.returncode == 0
    assert f"{s3_url}/seen" in said
    assert "the job continues; its data is stored in" in said
    assert "answers again" in outcome.stderr
    before.refresh()
    after = open_run(f"{s3_url}/seen")
    assert (after.state, after.steps, after.damage) == ("finished", 60, ())
    assert losses_of(after) == job.losses
    assert [after.tensor("weight:0.weight").at(s).tobytes() for s in range(60)] == job.weights


@pytest.mark.parametrize(
    "launcher",
    [pytest.param(False, id="the job", marks=pytest.mark.full), pytest.param(True, id="both")],
)
def test_kill_9_loses_nothing_that_was_written(
    launcher: bool, s3_url: str, tmp_path: Path, begin: Callable[..., Job]
) -> None:
    job = begin(python=ITSELF)
    job.train(20)
    script = script_of(stored(f"{s3_url}/seen", 18))
    for victim in (job.process.pid, script) if launcher else (script,):
        os.kill(victim, signal.SIGKILL)
    assert finish(job.process).returncode == -signal.SIGKILL
    if launcher:
        outcome = run([*MOTHTRAP, "upload"], cwd=tmp_path, env=here())
        assert (outcome.returncode, outcome.stderr) == (0, "")
        assert outcome.stdout == f"seen was uploaded to {s3_url}/seen\n"
    found = open_run(f"{s3_url}/seen")
    assert (found.state, found.damage) == ("crashed", ())
    assert found.steps in (19, 20)  # the next one closes the last one
    assert losses_of(found) == job.losses[: found.steps]
    assert not list((cache_folder() / "spool").glob("*/seen"))


WATCHED = """
import sys, torch, mothtrap
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with mothtrap.watch(model, optimizer, name="watched", overhead=0.0) as dbg:
    for step in range(20):
        loss = model(torch.ones(2, 4)).square().mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        dbg.step(loss=loss)
        print(loss.item())
"""


def test_a_watched_model_is_sent_by_a_thread(s3_url: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(WATCHED, encoding="utf-8")
    outcome = run([*PYTHON, script], cwd=tmp_path, env=here(MOTHTRAP_RUNS_DIR=s3_url))
    assert outcome.returncode == 0, outcome.stderr
    found = open_run(f"{s3_url}/watched")
    assert (found.state, found.steps, found.damage) == ("finished", 20, ())
    assert losses_of(found) == [float(line) for line in outcome.stdout.split()]
    ledger = found.ledger()
    assert ledger is not None
    assert ledger.facts["versions"]["torch"]
    assert found.packages()["torch"].startswith(ledger.facts["versions"]["torch"].partition("+")[0])
    assert f"mothtrap show {s3_url}/watched" in outcome.stderr
    assert not list((cache_folder() / "spool").glob("*/watched"))


def test_a_writer_process_seals_in_time_too(s3_url: str, begin: Callable[..., Job]) -> None:
    job = begin(MOTHTRAP_WRITER="process")
    job.train(30)
    assert stored(f"{s3_url}/seen", 28).state == "running"
    job.end()
    assert finish(job.process).returncode == 0
    done = open_run(f"{s3_url}/seen")
    assert (done.steps, done.damage, losses_of(done)) == (30, (), job.losses)


def test_a_job_is_asked_by_its_url(s3_url: str, tmp_path: Path, begin: Callable[..., Job]) -> None:
    job = begin(MOTHTRAP_ON_FULL="block")  # no value is dropped on a busy machine
    job.train(10)
    stored(f"{s3_url}/seen", 8)
    elsewhere = here(MOTHTRAP_CACHE=str(tmp_path / "another machine"))
    command = [*MOTHTRAP, "capture", f"{s3_url}/seen"]
    asking = start([*command, "--add", "gradients:0.*", "--raw"], cwd=tmp_path, env=elsewhere)
    while asking.poll() is None:
        job.train(1)
        with suppress(subprocess.TimeoutExpired):
            asking.wait(0.05)  # it needs the machine, too
    answer = finish(asking)
    assert answer.returncode == 0, answer.stderr
    first = int(answer.stdout.partition("active from step ")[2].partition(" ")[0])
    for environ in (elsewhere, here()):
        listed = run([*command, "--list"], cwd=tmp_path, env=environ)
        assert listed.stdout.startswith('w: {"tensors":["weights:0.*"]'), listed.stderr
        assert 'gradients:0.*: {"tensors":["gradients:0.*"]' in listed.stdout
    job.train(1)
    job.end()
    assert finish(job.process).returncode == 0
    done = open_run(f"{s3_url}/seen")
    steps = [key.step for key in done.tensor("gradient:0.weight").raw_keys()]
    assert steps == list(range(first, len(job.losses)))


LARGE = """
import hashlib, torch
torch.manual_seed(0)
model = torch.nn.Linear(2400, 2400)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    print(hashlib.sha256(model.weight.detach().numpy().tobytes()).hexdigest())
    optimizer.zero_grad(); model(torch.randn(2, 2400)).square().mean().backward(); optimizer.step()
"""


def test_a_large_tensor_goes_in_parts_and_comes_back(
    s3_url: str, s3_server: S3Server, tmp_path: Path
) -> None:
    """A weight of 23 MB, in parts of the default size."""
    (tmp_path / "large.py").write_text(LARGE)
    collections = '{"w": {"tensors": ["weight:weight"], "raw": true}}'
    env = here() | {"MOTHTRAP_COLLECTIONS": collections, "MOTHTRAP_QUEUE_MB": "256"}
    s3_server.log.clear()
    words = ["--runs-dir", s3_url, "--name", "large", "large.py"]
    outcome = run([*MOTHTRAP, "run", *words], cwd=tmp_path, env=env)
    assert outcome.returncode == 0, outcome.stderr
    sent = [line.partition("?")[2] for line in s3_server.log if "/raw-00000000.arrow?" in line]
    asked = [query for query in sent if query.startswith(("uploads", "partNumber", "uploadId"))]
    assert asked[0].startswith("uploads")
    assert {query.partition("&")[0] for query in asked[1:-1]} >= {"partNumber=1", "partNumber=2"}
    assert asked[-1].startswith("uploadId")
    found = open_run(f"{s3_url}/large")
    weight = found.tensor("weight:weight")
    read = [hashlib.sha256(weight.at(step).tobytes()).hexdigest() for step in range(2)]
    assert read == outcome.stdout.split()
    assert found.damage == ()


@pytest.mark.parametrize(
    ("runs_dir", "meant"), [("s3:/bucket/runs", "s3://bucket/runs"), ("file:/data", "file:///data")]
)
def test_a_url_that_lacks_a_slash_makes_no_folder(runs_dir: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"a URL has two slashes: {meant}"):
        folder_for(runs_dir)
    with pytest.raises(ConfigError, match="names no bucket"):
        folder_for("s3://")
    assert folder_for("s3/x") == Path("s3/x")
