"""`mothtrap show --follow`: a job is followed by another process, in a pipe."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.stored_run import store_run
from tests.harness.running import ITSELF, TIMEOUT_S, environment, finish, observed, start
from tests.report.faulty_run import exploding

from mothtrap.cli import main
from mothtrap.reader.run import open_run
from mothtrap.store import layout

COST = "mothtrap added "
"""The beginning of the last line of a verdict."""
PROGRAM = Path(__file__).with_name("going_wrong.py")


class Job:
    """A training run that goes wrong, and ends, on request."""

    def __init__(self, folder: Path) -> None:
        self._bad, self._stop = folder / "bad", folder / "stop"
        self._folder, self._path = folder, folder / "runs" / "job"
        target = [PROGRAM, self._bad, self._stop]
        command = observed(target, runs_dir=folder / "runs", name="job")
        self._process = start(command, cwd=folder, env=environment(MOTHTRAP_OVERHEAD="0"))
        self._wait_for_a_step()

    def _wait_for_a_step(self) -> None:
        deadline_s = time.monotonic() + TIMEOUT_S
        while self._process.poll() is None and time.monotonic() < deadline_s:
            if layout.attempts(self._path) and open_run(self._path).steps:
                return
        raise AssertionError(finish(self._process).stderr)

    def followed(self) -> subprocess.Popen[str]:
        return start([*ITSELF, "-m", "mothtrap", "show", "job", "--follow"], cwd=self._folder)

    def go_wrong(self) -> None:
        self._bad.touch()

    def end(self) -> None:
        self._stop.touch()
        if self._process.poll() is None:
            outcome = finish(self._process)
            assert outcome.returncode == 0, outcome.stderr


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    made = Job(tmp_path)
    yield made
    made.end()


def lines_until(process: subprocess.Popen[str], text: str) -> list[str]:
    """The lines of a pipe up to the line that contains a text."""
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or text not in lines[-1]:
        line = process.stdout.readline()
        assert line, f"{text!r} did not come; what came: {lines}"
        lines.append(line)
    return lines


def test_a_job_is_followed_to_its_end(job: Job) -> None:
    following = job.followed()
    so_far = "".join(lines_until(following, COST))
    assert "the job is still running" in " ".join(so_far.split())
    assert "NUM001" not in so_far
    job.go_wrong()
    live = lines_until(following, "NUM001 non-finite loss at step ")[-1]
    assert live.startswith("mothtrap: ")
    assert following.poll() is None  # the line came while both go on
    job.end()
    rest = finish(following)
    assert rest.returncode == 0, rest.stderr
    assert rest.stdout.count("NUM001 non-finite loss at step ") == 0  # each is told once
    verdict = rest.stdout.rpartition("\n\n")[2]
    assert COST in verdict
    assert "still running" not in verdict


def test_ctrl_c_ends_the_following_and_not_the_job(job: Job) -> None:
    following = job.followed()
    lines_until(following, COST)
    following.send_signal(signal.SIGINT)
    ended = finish(following)
    assert ended.returncode == 130
    assert "Traceback" not in ended.stderr


def test_a_run_that_has_ended_is_shown_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store_run(tmp_path / "runs" / "faulty", findings=(exploding(),))
    done = CliRunner().invoke(main, ["show", "faulty", "--follow"])
    assert done.exit_code == 0, done.output
    assert done.stdout.count("Exploding gradient") == 1
    assert done.stdout.count(COST) == 1
    failing = CliRunner().invoke(main, ["show", "faulty", "--follow", "--fail-on", "error"])
    assert failing.exit_code == 1


@pytest.mark.parametrize("other", [("--format", "json"), ("--save-baseline",)])
def test_what_cannot_be_followed_is_refused(tmp_path: Path, other: tuple[str, ...]) -> None:
    store_run(tmp_path / "x")
    done = CliRunner().invoke(main, ["show", str(tmp_path / "x"), "--follow", *other])
    assert done.exit_code == 2
    assert "cannot be combined with --format or --save-baseline" in done.stderr
