"""`mothtrap gc`."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.stored_run import store_run
from tests.reader.runs import DEAD_PID, info, started, write_worker
from tests.store.records import record

from mothtrap.cli import main
from mothtrap.store import layout


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three finished runs, `run0` the oldest."""
    monkeypatch.chdir(tmp_path)
    for number in range(3):
        path = tmp_path / "runs" / f"run{number}"
        store_run(path, created_s=1e9 + number)
        aged(path, days=30 * (3 - number))
    return tmp_path / "runs"


def aged(path: Path, *, days: float) -> None:
    """Make all files of a run look older."""
    when = time.time() - days * 86400
    for part in (path, *path.rglob("*")):
        os.utime(part, (when, when))


def gc(*args: str, answer: str = "") -> Result:
    return CliRunner().invoke(main, ["gc", *args], input=answer)


def names(runs: Path) -> list[str]:
    return sorted(path.name for path in runs.iterdir())


def test_the_latest_are_kept(runs: Path) -> None:
    done = gc("--keep", "1", "--yes")
    assert done.exit_code == 0
    assert "2 of 3 runs to remove" in done.stdout
    assert names(runs) == ["run2"]


def test_what_is_older_goes_but_never_the_latest(runs: Path) -> None:
    gc("--older-than", "10d", "--keep", "2", "-y")
    assert names(runs) == ["run1", "run2"]


def test_the_oldest_go_until_the_rest_fits(runs: Path) -> None:
    size = sum(path.stat().st_size for path in runs.rglob("*") if path.is_file())
    gc("--max-size", f"{size / 1e3 - 0.1:.1f}KB", "-y")
    assert names(runs) == ["run1", "run2"]


def test_a_dry_run_removes_nothing(runs: Path) -> None:
    done = gc("--keep", "0", "--dry-run")
    assert [line.split()[4] for line in done.stdout.splitlines()[:3]] == ["run0", "run1", "run2"]
    assert len(names(runs)) == 3


@pytest.mark.parametrize(("answer", "left"), [("n\n", 3), ("", 3), ("y\n", 1)])
def test_it_asks_first(runs: Path, answer: str, left: int) -> None:
    done = gc("--keep", "1", answer=answer)
    assert "Remove 2 runs?" in done.output
    assert len(names(runs)) == left


def live_run(path: Path, **changes: object) -> None:
    attempt = layout.create_run(path, info(id=path.name, **changes))
    write_worker(attempt, record(0, observations=(started(DEAD_PID),)))


def test_a_run_that_goes_on_is_never_touched(runs: Path) -> None:
    live_run(runs / "live", pid=os.getpid())
    aged(runs / "live", days=100)
    done = gc("--keep", "0", "--yes")
    assert names(runs) == ["live"]
    assert "kept live: it is running" in done.stderr


def test_a_run_whose_worker_outlived_its_launcher_is_not_touched(runs: Path) -> None:
    attempt = layout.create_run(runs / "orphan", info(id="orphan", pid=DEAD_PID))
    worker = started(os.getpid())
    own = type(worker)(**{f: getattr(worker, f) for f in worker.__struct_fields__} | {"host": host})
    write_worker(attempt, record(0, observations=(own,)))
    gc("--keep", "0", "--yes")
    assert names(runs) == ["orphan"]


host = socket.gethostname()


def test_a_run_of_another_computer_that_has_just_been_written_is_not_touched(runs: Path) -> None:
    live_run(runs / "far", host="another-computer")
    done = gc("--keep", "0", "--yes")
    assert names(runs) == ["far"]
    assert "it may be running on another-computer" in done.stderr
    aged(runs / "far", days=2)
    gc("--keep", "0", "--yes")
    assert names(runs) == []


def test_a_crashed_run_goes(runs: Path) -> None:
    live_run(runs / "crashed", pid=DEAD_PID)
    gc("--keep", "0", "--yes")
    assert names(runs) == []


def test_links_and_what_is_no_run_stay(runs: Path, tmp_path: Path) -> None:
    store_run(tmp_path / "elsewhere")
    (runs / "link").symlink_to(tmp_path / "elsewhere")
    (runs / "notes").mkdir()
    done = gc("--keep", "0", "--yes")
    assert "kept link: it is a symbolic link" in done.stderr
    assert names(runs) == ["link", "notes"]
    assert (tmp_path / "elsewhere" / "1" / "run.json").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "select the runs to remove: --keep N"),
        (("--older-than", "30"), "'30' cannot be read; expected a number with one of m, h, d, w"),
        (("--max-size", "3 parsecs"), "e.g. 20GB"),
        (("--keep", "1", "--runs-dir", "s3://bucket/runs"), "lifecycle rules"),
        (("--keep", "1", "--runs-dir", "nope"), "the folder nope does not exist in"),
    ],
)
def test_limits_that_mean_nothing_are_refused(
    runs: Path, args: tuple[str, ...], message: str
) -> None:
    done = gc(*args)
    assert done.exit_code == 2
    assert message in done.stderr
    assert len(names(runs)) == 3
