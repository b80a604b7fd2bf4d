"""A replay executes the command of the run, but not while the run is still going."""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

import msgspec
import pytest
from tests.session.test_replay import keep, snapshot
from tests.store.test_layout import info

from mothtrap.core.errors import ReplayError
from mothtrap.session import own_runs
from mothtrap.session.replay import ReplayOptions, replay
from mothtrap.session.replay_start import Start, start_of
from mothtrap.store import layout


@pytest.fixture(autouse=True)
def user(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a secret so far."""
    monkeypatch.setenv("MOTHTRAP_CACHE", str(tmp_path_factory.mktemp("cache")))


def begun(folder: Path, **changes: object) -> Path:
    """A run of this user that lasts as long as this process, with a snapshot of step 3."""
    here: dict[str, object] = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "created_s": time.time(),
        "config": {},
        "cwd": str(folder),
    }
    made = own_runs.signed(info(**(here | changes)))
    run = layout.create_run(folder / "runs" / "x", made).parent
    keep(run, snapshot(3, cwd=str(folder)))
    return run


def test_the_command_is_that_of_the_run(tmp_path: Path) -> None:
    run = begun(tmp_path, command=("python", "train.py", "--token", "abc"))
    masked = snapshot(3, command=("python", "train.py", "--token", "***"), cwd=str(tmp_path))
    start = start_of(run, masked)
    assert start.command[1:] == ("train.py", "--token", "abc")
    assert start.words.endswith(f"train.py --token '***'` in {tmp_path}")
    assert start.foreign == ""


def test_a_working_folder_that_was_deleted_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, gone = begun(tmp_path), tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    started = start_of(run, snapshot(3, cwd=str(tmp_path)))
    assert started.folder == str(tmp_path)
    assert start_of(run, snapshot(3, cwd=str(tmp_path / "none"))).folder


def test_a_snapshot_alone_does_not_know_a_secret(tmp_path: Path) -> None:
    masked = snapshot(3, command=("python", "train.py", "--token", "***"))
    with pytest.raises(ReplayError, match=r"secret.*`python train.py --token \*\*\*`; .* -- COMM"):
        start_of(tmp_path, masked)
    assert start_of(tmp_path, masked, ("python", "x.py")).command == ("python", "x.py")


def test_a_session_has_no_script_to_start(tmp_path: Path) -> None:
    typed = snapshot(3, command=("/usr/bin/python", ""))
    with pytest.raises(ReplayError, match=r"session without a script .* pass --build module:func"):
        start_of(tmp_path, typed)


@pytest.mark.parametrize("words", [("train.py",), ("-c", "import x"), ("-m", "x"), ("-u", "t.py")])
def test_a_command_that_was_given_whole_can_be_started_again(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    command = (sys.executable, *words)
    assert start_of(tmp_path, snapshot(3, command=command)).command == command


def test_a_command_of_another_machine_is_told_from_ones_own(tmp_path: Path) -> None:
    run = begun(tmp_path, host="elsewhere")
    assert start_of(run, snapshot(3)).foreign == "another machine (elsewhere)"
    assert start_of(run, snapshot(3, cwd="/absent"), ("python", "x.py")).foreign == ""


@pytest.mark.parametrize("host", ["", "localhost", "127.0.0.1", socket.gethostname()])
@pytest.mark.parametrize("changed", ["command", "cwd"])
def test_what_a_run_says_of_itself_is_no_evidence(tmp_path: Path, host: str, changed: str) -> None:
    run = begun(tmp_path)
    attempt = layout.attempt_folder(run, 1)
    honest = layout.read_info(attempt)
    assert honest is not None
    values = {"command": ("sh", "-c", "evil"), "cwd": str(tmp_path / "runs")}
    forged = msgspec.structs.replace(honest, host=host, **{changed: values[changed]})
    layout.write_info(attempt, forged)
    start = start_of(run, snapshot(3, cwd=forged.cwd))
    assert start.foreign.startswith(("an unknown machine", "another machine"))


def test_a_run_of_another_user_or_of_an_earlier_version_is_foreign(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, of_run = begun(tmp_path), snapshot(3, cwd=str(tmp_path))
    assert start_of(run, of_run).foreign == ""
    monkeypatch.setenv("MOTHTRAP_CACHE", str(tmp_path_factory.mktemp("other")))
    assert start_of(run, of_run).foreign == "an unknown machine"
    (layout.attempt_folder(run, 1) / "run.json").unlink()
    assert start_of(run, of_run).foreign == "an unknown machine"


def test_a_folder_that_only_the_snapshot_names_is_foreign(tmp_path: Path) -> None:
    """Python imports from the folder in which it starts, also with the user's own command."""
    planted = tmp_path / "runs" / "planted"
    planted.mkdir(parents=True)
    run, moved = begun(tmp_path), snapshot(3, cwd=str(planted))
    assert start_of(run, moved).foreign == "an unknown machine"
    assert start_of(run, moved, ("python", "x.py")).foreign == "an unknown machine"
    assert start_of(run, moved, build=True).foreign == "an unknown machine"
    assert start_of(run, moved, ("python", "x.py"), str(tmp_path)).foreign == ""
    assert start_of(run, moved, build=True, folder=str(tmp_path)).foreign == ""


def test_a_foreign_command_is_shown_whole_and_cannot_steer_the_terminal(tmp_path: Path) -> None:
    words = ("sh", "-c", "token=evil1x2y3z\x1b[2K\u202e")
    run = begun(tmp_path, host="", command=words)
    start = start_of(run, snapshot(3, cwd=str(tmp_path)))
    assert "token=evil1x2y3z" in start.words
    assert start.words.isprintable()


def test_a_run_that_goes_on_is_not_started_a_second_time_in_its_folder(tmp_path: Path) -> None:
    run, started = begun(tmp_path), list[Start]()
    writes = (sys.executable, "-c", "open('out.txt', 'w')")
    with pytest.raises(ReplayError, match=r"x is still running: .*--cwd .*--anyway"):
        replay(run, ReplayOptions(step=3, command=writes), starting=started.append)
    assert not started
    assert not (tmp_path / "out.txt").exists()
    copied = tmp_path / "copied"
    copied.mkdir()
    with pytest.raises(ReplayError, match="never reached step 3"):
        replay(run, ReplayOptions(step=3, command=writes, cwd=str(copied)), starting=started.append)
    assert (copied / "out.txt").exists()
    assert not (tmp_path / "out.txt").exists()
    assert [start.folder for start in started] == [str(copied)]


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=r"--cwd /absent is not a folder"):
        start_of(tmp_path, snapshot(3), ("true",), "/absent")
