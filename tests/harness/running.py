"""Run a program as its user would: plainly, or under `mothtrap run`."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from click.testing import CliRunner
from tests.harness.preloaded import Preloaded

from mothtrap.cli import main
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.reader.run import Run

FULL = os.environ.get("HARNESS") == "full"
"""True to run families of programs in full, which takes minutes, each by Python itself."""
_preloaded = None if FULL else Preloaded()
ITSELF = (sys.executable,)
"""Python, for tests of its start or its end."""
PYTHON = (_preloaded.python,) if _preloaded else ITSELF
"""Python, or its replacement with torch imported."""
MOTHTRAP = (*PYTHON, "-m", "mothtrap")
TORCHRUN = _preloaded.torchrun if _preloaded else str(Path(sys.executable).parent / "torchrun")
TIMEOUT_S = 300
"""Far above what any program needs: a hang becomes a failure, not a stuck suite."""
_folders: dict[int, Path] = {}
"""The folder where each command was started, by its process."""


@dataclass(frozen=True)
class Outcome:
    """A finished program as its user sees it; `returncode` is negative for a signal."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def digests(self) -> dict[str, str]:
        """The digests of the last line; empty for a program that was skipped."""
        last = self.stdout.splitlines()[-1] if self.stdout.strip() else ""
        return json.loads(last)["digest"] if last.startswith("{") else {}


def environment(**variables: str) -> dict[str, str]:
    """Return the environment without mothtrap's own variables, plus `variables`."""
    # Unbuffered, a script's print is two writes, and another's line may come between;
    # without byte code, every process compiles all of mothtrap again.
    ours = ("MOTHTRAP_", "COV_", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    return kept | variables


def ready() -> str:
    """Start the replacement of Python unless it is running; return its path."""
    if _preloaded:
        _preloaded.begin(environment())
    return PYTHON[0]


def preloaded_pids() -> list[int]:
    """Return the processes from which programs are forked; none before they were started."""
    return _preloaded.pids if _preloaded else []


def start(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
) -> subprocess.Popen[str]:
    """Start a command as the leader of a process group of its own."""
    ready()
    process = subprocess.Popen(
        [str(word) for word in command],
        cwd=cwd,
        env=environment() if env is None else dict(env),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    _folders[process.pid] = cwd
    return process


def finish(process: subprocess.Popen[str], text: str | None = None) -> Outcome:
    """Wait for a started command, giving it `text` as standard input."""
    try:
        stdout, stderr = process.communicate(text, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as late:
        os.killpg(process.pid, signal.SIGKILL)
        told = [(part or b"").decode(errors="replace") for part in (late.stdout, late.stderr)]
        _kill_all_in(_folders[process.pid])
        raise AssertionError(
            f"{process.args} did not end within {TIMEOUT_S} s\n{told[0][-2000:]}\n{told[1][-2000:]}"
        ) from None
    return Outcome(process.returncode, stdout, stderr)


def _kill_all_in(folder: Path) -> None:
    """End the commands that a command started in their own groups: they hold its pipes."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and Path(process.cwd()).is_relative_to(folder):
                process.kill()


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    text: str | None = None,
) -> Outcome:
    """Run a command to its end."""
    stdin = subprocess.DEVNULL if text is None else subprocess.PIPE
    return finish(start(command, cwd=cwd, env=env, stdin=stdin), text)


def observed(
    target: Sequence[str | Path], *, runs_dir: Path, name: str, python: Sequence[str] = PYTHON
) -> list[str]:
    """Return the command that observes `target`: words as they follow `mothtrap run`."""
    words = [*python, "-m", "mothtrap", "run", "--runs-dir", runs_dir, "--name", name, *target]
    return [str(word) for word in words]


def script_of(run: Run) -> int:
    """Return the process of a run's only worker, whoever forked it."""
    (started,) = run.observations(WorkerStarted)
    return started.pid


def show(run_path: Path, *, cwd: Path) -> dict:
    """Return the output of `mothtrap show --format json` for a run."""
    with chdir(cwd):
        outcome = CliRunner().invoke(main, ["show", str(run_path), "--format", "json", "--all"])
    assert outcome.exit_code == 0, outcome.output
    return json.loads(outcome.stdout)


@dataclass(frozen=True)
class Cache:
    """Outcomes by key, shared by the processes of one test session."""

    folder: Path

    def get(self, key: str, make: Callable[[], Outcome]) -> Outcome:
        """Return the outcome of `key`, made by the first process that asks."""
        path = self.folder / f"{key}.json"
        with _lock(self.folder / f"{key}.lock"):
            if not path.exists():
                path.write_text(json.dumps(asdict(make())), encoding="utf-8")
            return Outcome(**json.loads(path.read_text(encoding="utf-8")))


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
