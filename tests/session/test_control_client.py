"""Another process requests further captures from a running job."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.running import MOTHTRAP, TIMEOUT_S, environment, finish, observed, start
from tests.reader.runs import DEAD_PID, info, write_worker
from tests.store.records import record

import mothtrap
from mothtrap.core.collections import Collection
from mothtrap.core.config import given
from mothtrap.core.control_requests import CaptureRequest
from mothtrap.core.errors import ControlError
from mothtrap.core.facts.captures import CaptureChanged
from mothtrap.core.steps import Mode
from mothtrap.reader.run import Run
from mothtrap.session.control_client import ask, in_force, when
from mothtrap.store import layout

PROGRAM = Path(__file__).with_name("endless_training.py")


class Job:
    """A training that continues until `end`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "runs" / "job"
        self._stop, self._kept = folder / "stop", folder / "kept.json"
        target = [PROGRAM, self._stop, self._kept]
        command = observed(target, runs_dir=folder / "runs", name="job")
        self._process = start(command, cwd=folder, env=environment(MOTHTRAP_OVERHEAD="0"))

    def opened(self) -> Run:
        """Return the run, once its first step is written."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while self._process.poll() is None and time.monotonic() < deadline_s:
            if layout.attempts(self.path) and (found := mothtrap.open_run(self.path)).steps:
                return found
        raise AssertionError(finish(self._process).stderr)

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [*MOTHTRAP, "capture", str(self.path), "--timeout", "120", *words]
        return subprocess.run(command, capture_output=True, text=True, cwd=self.folder)

    def end(self) -> list[str]:
        """Let it end; return the digests of its gradients by step."""
        self._stop.touch()
        outcome = finish(self._process)
        assert outcome.returncode == 0, outcome.stderr
        digests: list[str] = json.loads(self._kept.read_text())
        return digests

    def kill(self) -> None:
        self._stop.touch()
        self._process.communicate(timeout=TIMEOUT_S)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    made = Job(tmp_path)
    yield made
    made.kill()


def first_step(answer: subprocess.CompletedProcess[str]) -> int:
    """Return the step at which a change took effect, as the command prints it."""
    assert answer.returncode == 0, answer.stderr
    # Its steps may be over when the answer is read.
    said = re.match(r"job: (?:active from step|steps) (\d+) ", answer.stdout)
    assert said, answer.stdout
    return int(said[1])


def test_what_is_asked_for_is_captured_from_the_next_step_on(job: Job) -> None:
    assert job.opened().info is not None
    added = job.ask("--add", "gradients:0.*", "--every", "2", "--for", "20", "--raw")
    first = first_step(added)
    listed_then = added.stdout.splitlines()[1:]
    for line in listed_then:
        name, _, given = line.partition(": ")
        assert name == "gradients:0.*"
        assert json.loads(given)["tensors"] == ["gradients:0.*"]
    assert bool(listed_then) != (f"steps {first} to {first + 19}, done" in added.stdout)
    assert added.stderr == ""
    again = job.ask("--add", "weights", "--name", "mine", "--raw", "--every", "100")
    later = first_step(again)
    assert later > first
    removed = job.ask("--remove", "mine")
    gone = first_step(removed)
    listed = job.ask("--list")
    assert listed.stdout.splitlines() in ([], listed_then), (
        "it is listed until its 20 steps are over"
    )
    refused = job.ask("--remove", "mien")
    assert refused.returncode == 2
    assert "no collection 'mien' is active" in refused.stderr
    digests = job.end()
    stored = mothtrap.open_run(job.path)
    tensor = stored.tensor("gradient:0.weight")
    steps = [key.step for key in tensor.raw_keys()]
    assert steps == list(range(first, first + 20, 2))
    found = [hashlib.sha1(tensor.at(step).tobytes()).hexdigest() for step in steps]
    assert found == [digests[step] for step in steps]
    weights = [key.step for key in stored.tensor("weight:0.weight").raw_keys()]
    assert weights == list(range(later, gone, 100))
    changes = stored.observations(CaptureChanged)
    assert ("", first + 20) in [(change.request, change.from_step) for change in changes]
    answers = [change for change in changes if change.request]
    assert [answer.from_step for answer in answers[:3]] == [first, later, gone]
    assert [bool(answer.error) for answer in answers] == [False, False, False, True]
    assert stored.tool_errors == ()


def test_what_makes_no_sense_is_refused_before_it_is_sent(job: Job) -> None:
    job.opened()
    for words, complaint in (
        (("--add", "gradiens"), "not a built-in collection"),
        (("--add", "weights", "--every", "0"), "every must be 1 step or more"),
        (("--add", "weights", "--list"), "--list cannot be combined"),
        ((), "nothing to do; pass --add"),
    ):
        refused = job.ask(*words)
        assert (refused.returncode, complaint in refused.stderr) == (2, True), refused.stderr
    job.end()
    assert not (job.path / "control").exists()


def test_a_job_that_has_ended_cannot_be_asked(tmp_path: Path) -> None:
    path = tmp_path / "digits"
    layout.create_run(path, info(pid=DEAD_PID))
    with pytest.raises(ControlError, match="digits has crashed, so it takes no requests"):
        ask(path, CaptureRequest(id="1", attempt=1), 1.0)
    assert in_force(path) == {}
    assert not (path / "control").exists()


def test_what_was_asked_for_some_steps_is_not_in_force_when_they_are_over(
    tmp_path: Path,
) -> None:
    path = tmp_path / "digits"
    attempt = layout.create_run(path, info(pid=DEAD_PID))
    asked = {name: Collection(tensors=("gradients",)) for name in ("short", "long")}
    added = {name: given(each) for name, each in asked.items()}
    came = CaptureChanged(
        step=2, request="1", from_step=3, collections=("short", "long"), added=added
    )
    log = write_worker(attempt, record(2, observations=(came,)), seal=False)
    assert in_force(path) == asked
    went = CaptureChanged(step=5, request="", from_step=5, collections=("long",))
    log.append([record(5, observations=(went,))])
    assert list(in_force(path)) == ["long"]


@pytest.mark.parametrize(
    ("steps", "for_steps", "modes", "over", "said"),
    [
        ((225,), None, ("train",), False, "active from step 225 on"),
        ((225,), 20, ("train",), False, "active from step 225 on, until step 244"),
        ((225,), 20, ("train",), True, "steps 225 to 244, done"),
        ((225,), 1, ("train",), True, "step 225, done"),
        ((225, 227), 20, ("train",), False, "active from steps 225 to 227 on, until step 246"),
        ((225, 227), 20, ("train",), True, "steps 225 to 246, done"),
        ((225,), 20, ("eval",), False, "active from step 225 on"),
        ((225,), 20, ("train", "eval"), True, "from step 225 on, done"),
    ],
)
def test_it_is_said_when_a_request_counts_and_whether_it_is_done(
    steps: tuple[int, ...],
    for_steps: int | None,
    modes: tuple[Mode, ...],
    over: bool,
    said: str,
) -> None:
    added = {"mine": Collection(tensors=("gradients",), modes=modes)}
    request = CaptureRequest(id="1", attempt=1, add=added, for_steps=for_steps)
    answers = [
        CaptureChanged(step=step - 1, request="1", from_step=step, collections=("mine",))
        for step in steps
    ]
    assert when(request, answers, () if over else ("mine",)) == said


def test_a_job_that_makes_no_step_gives_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "digits"
    layout.create_run(path, info())
    with pytest.raises(
        ControlError, match=r"no answer from digits within 0\.1 s: .* the job will handle"
    ):
        ask(path, CaptureRequest(id="1", attempt=1), 0.1)
    assert (path / "control" / "1.json").is_file()
