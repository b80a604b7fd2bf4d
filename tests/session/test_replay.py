"""A snapshot is chosen; if it cannot be replayed, the user is told why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.report.faulty_run import HandMadeRun, exploding

from mothtrap.core.errors import DamagedSnapshotError, ReplayError, StepUnavailableError
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.snapshots import RecordedStep, Snapshot
from mothtrap.session import replay as replays
from mothtrap.session.record.packages import lock_lines
from mothtrap.session.replay import ReplayOptions, choose, replay
from mothtrap.session.sameness import changed_sources, differences_here
from mothtrap.snapshot import format as files

STATE = {"dict": []}


def snapshot(step: int, reason: str = "step", **parts: object) -> Snapshot:
    plain = Snapshot(
        run="seen",
        attempt=1,
        worker=0,
        step=step,
        state_step=step,
        reason=reason,
        created_s=0.0,
        command=("/absent/program", "train.py"),
        cwd="/",
        python="3.11.7",
        framework="torch",
        versions={},
        steps=(RecordedStep(step=step, events=()),),
        state=STATE,
    )
    return msgspec.structs.replace(plain, **parts)


def keep(run: Path, *snapshots: Snapshot) -> None:
    for one in snapshots:
        files.write(files.folder_of(run, one.step, one.worker), one, {}, {})


def test_the_first_bad_step_is_meant_unless_another_is_named(tmp_path: Path) -> None:
    bad = "unsound step: the loss is NaN"
    keep(tmp_path, snapshot(4, "base"), snapshot(7, bad), snapshot(9, bad), snapshot(11))
    assert [one.step for one in choose(tmp_path, None)] == [7]
    assert [one.step for one in choose(tmp_path, 11)] == [11]
    with pytest.raises(StepUnavailableError, match="no snapshot of step 5; there are: 4, 7, 9, 11"):
        choose(tmp_path, 5)


def test_the_last_one_is_meant_where_none_is_bad(tmp_path: Path) -> None:
    keep(tmp_path, snapshot(3), snapshot(6), snapshot(8, "base"))
    assert [one.step for one in choose(tmp_path, None)] == [6]


def test_the_step_that_is_meant_is_the_one_that_the_verdict_offers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(
        tmp_path,
        snapshot(0, "finding STR701"),
        snapshot(71, "finding GRD101"),
        snapshot(80, "step"),
    )
    assert [one.step for one in choose(tmp_path, None)] == [0]
    found: Any = HandMadeRun(findings=(exploding(step=71),))
    monkeypatch.setattr(replays, "open_run", lambda _: found)
    assert [one.step for one in choose(tmp_path, None)] == [71]


def test_all_workers_of_a_step_are_played(tmp_path: Path) -> None:
    keep(tmp_path, snapshot(3), snapshot(3, worker=1))
    assert [one.worker for one in choose(tmp_path, 3)] == [0, 1]


def test_a_run_without_snapshots_says_when_they_are_taken(tmp_path: Path) -> None:
    with pytest.raises(StepUnavailableError, match="mothtrap snapshot RUN"):
        choose(tmp_path, None)


def test_a_run_that_ended_before_the_inputs_of_a_step_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = WorkerEnded(step=9, steps=9, own_s=0.0, wall_s=1.0, exception="KeyError: 'x'")
    found: Any = HandMadeRun(observed=(end,), state="crashed")
    monkeypatch.setattr(replays, "open_run", lambda _: found)
    with pytest.raises(StepUnavailableError, match=r"it ended with KeyError.* no step to replay"):
        choose(tmp_path, None)


def test_a_damaged_snapshot_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    keep(tmp_path, snapshot(3))
    (files.folder_of(tmp_path, 3, 0) / files.STATE).write_bytes(b"torn")
    with pytest.raises(DamagedSnapshotError, match="cannot be used"):
        replay(tmp_path, ReplayOptions(step=3))


def test_a_command_that_cannot_be_started_says_what_to_do(tmp_path: Path) -> None:
    keep(tmp_path, snapshot(3))
    with pytest.raises(ReplayError, match=r"cannot start .*mothtrap replay RUN -- COMMAND"):
        replay(tmp_path, ReplayOptions(step=3))


def test_a_program_that_ends_without_the_step_is_told_of(tmp_path: Path) -> None:
    keep(tmp_path, snapshot(3))
    with pytest.raises(ReplayError, match=r"never reached step 3: it ended with exit code 0"):
        replay(tmp_path, ReplayOptions(step=3, command=("true",)))


def test_a_script_that_is_younger_than_the_run_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("pass")
    one = snapshot(3, cwd=str(tmp_path), python="2.7.18")
    assert changed_sources(tmp_path / "run", one) == ["train.py"]
    told = list(differences_here(tmp_path / "run", one))
    assert told == ["train.py was changed after the run began", "the run used Python 2.7.18"]


def test_installed_packages_that_differ_are_told_of(tmp_path: Path) -> None:
    worker = tmp_path / "run" / "1" / "w0"
    worker.mkdir(parents=True)
    lines = [*lock_lines(), "lost-package==1.2"]
    (worker / "packages.txt").write_text("\n".join(lines))
    one = snapshot(3, cwd=str(tmp_path))
    [told] = list(differences_here(tmp_path / "run", one))
    assert told == "installed packages differ: lost-package 1.2 (here none)"


def test_files_are_looked_at_in_the_folder_in_which_the_script_is_started(tmp_path: Path) -> None:
    home, copy = tmp_path / "home", tmp_path / "copy"
    home.mkdir()
    copy.mkdir()
    (copy / "train.py").write_text("pass")
    one = snapshot(3, cwd=str(home))
    assert changed_sources(tmp_path / "run", one) == []
    assert changed_sources(tmp_path / "run", one, str(copy)) == ["train.py"]


def test_a_step_that_is_not_found_is_told_with_what_was_changed(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("pass")
    keep(tmp_path, snapshot(3, cwd=str(tmp_path)))
    with pytest.raises(ReplayError, match=r"never reached step 3(.|\n)*train.py was changed after"):
        replay(tmp_path, ReplayOptions(step=3, command=("true",)))
