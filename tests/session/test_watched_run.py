"""Each process of a job watches its own model: all write to one run and are compared."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import msgspec
import pytest
from tests.harness.programs import FOLDER
from tests.harness.running import TORCHRUN, Outcome, environment, run
from tests.reader.runs import closing, started, write_worker
from tests.store.records import record

from mothtrap.core.config import Config
from mothtrap.core.errors import RunExistsError
from mothtrap.reader.run import Run, open_run
from mothtrap.session import uploading, watched_run
from mothtrap.session.watched_run import WatchedRun
from mothtrap.store import layout
from mothtrap.store.layout import list_runs


def watched(folder: Path, variant: str, workers: int = 2) -> tuple[Outcome, list[Run]]:
    """Start the program with torchrun alone; return its runs, the latest first."""
    script = [TORCHRUN, "--standalone", "--nproc-per-node", str(workers)]
    command = [*script, str(FOLDER / "watched_ranks.py"), variant]
    outcome = run(command, cwd=folder, env=environment(OMP_NUM_THREADS="1"))
    return outcome, [open_run(path) for path in list_runs(folder / "runs")]


@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.full)])
def test_all_processes_of_a_job_are_workers_of_one_run(tmp_path: Path, workers: int) -> None:
    outcome, (found,) = watched(tmp_path, "healthy", workers)
    assert outcome.returncode == 0, outcome.stderr
    assert (found.workers, found.steps, found.state) == (tuple(range(workers)), 10, "finished")
    assert found.findings == ()
    assert found.tool_errors == ()
    states = {rule.code: rule.state for rule in found.rules}
    assert (states["DST951"], states["DST953"]) == ("ok", "ok")
    losses = [found.scalars("loss", worker=rank)[0].values_S for rank in range(workers)]
    merged = found.scalars("loss", worker="merged")[0].values_S
    assert merged == pytest.approx(sum(losses) / workers)
    assert outcome.stderr.count("Nothing wrong was found in 10 steps") == 1


def test_workers_that_drift_apart_are_told_as_under_mothtrap_run(tmp_path: Path) -> None:
    outcome, (found,) = watched(tmp_path, "drifting")
    assert outcome.returncode == 0, outcome.stderr
    (finding,) = found.findings
    assert (finding.code, finding.step, finding.workers) == ("DST951", 4, (1,))
    assert "DST951 diverging ranks" in outcome.stderr


def test_what_the_others_recorded_is_there_when_one_dies(tmp_path: Path) -> None:
    outcome, (found,) = watched(tmp_path, "dying")
    assert outcome.returncode != 0
    assert (found.workers, found.state) == ((0, 1), "crashed")
    assert [found.scalars("loss", worker=rank)[0].steps_S[0] for rank in (0, 1)] == [0, 0]


def test_ranks_that_name_their_runs_have_runs_of_their_own(tmp_path: Path) -> None:
    outcome, runs = watched(tmp_path, "named")
    assert outcome.returncode == 0, outcome.stderr
    assert sorted(found.id for found in runs) == ["rank-0", "rank-1"]
    assert [found.steps for found in runs] == [10, 10]


class Board:
    """The store of a job in one process."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def count(self, what: str) -> int:
        return 0

    def leave(self, key: str, text: str) -> None:
        self.texts[key] = text

    def find(self, key: str) -> str | None:
        return self.texts.get(key)


def made(folder: Path, board: Board, rank: int, name: str | None = None) -> WatchedRun:
    config = Config(runs_dir=str(folder))
    return WatchedRun(name, "job", ["job"], config, lambda: board, lambda: rank, lambda _: None)


def test_a_process_that_hears_nothing_of_the_first_one_makes_its_own_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_run, "WORD_S", 0.0)
    alone = made(tmp_path, Board(), 1)
    assert alone.open() == tmp_path / "job" / "1"
    assert not alone.is_shared


def test_where_the_first_process_has_no_run_no_one_waits_for_it(tmp_path: Path) -> None:
    (tmp_path / "taken" / "another's").mkdir(parents=True)
    board = Board()
    with pytest.raises(RunExistsError):
        made(tmp_path, board, 0, "taken").open()
    assert made(tmp_path, board, 1).open() == tmp_path / "job" / "1"


def test_a_run_of_another_machine_under_the_same_path_is_not_taken_for_it(tmp_path: Path) -> None:
    board = Board()
    first = made(tmp_path, board, 0)
    attempt = first.open()
    joined = made(tmp_path, board, 1)
    assert joined.open() == attempt
    info = layout.read_info(attempt)
    assert info is not None
    layout.write_info(attempt, msgspec.structs.replace(info, created_s=1.0))
    assert made(tmp_path, board, 2).open().parent.name == "job-2"
    first.last_word(attempt.parent, Config())


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_run_of_a_store_that_others_still_write_to_is_not_removed_from_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_closed: bool
) -> None:
    monkeypatch.setenv("MOTHTRAP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(uploading, "GIVE_UP_S", 0.0)
    said: list[str] = []
    config = Config(runs_dir=(tmp_path / "store").as_uri())
    first = WatchedRun("job", "job", ["job"], config, Board, lambda: 0, said.append)
    attempt = first.open()
    here = msgspec.structs.replace(started(os.getpid()), host=socket.gethostname())
    end = (closing(1),) if is_closed else ()
    write_worker(attempt, record(0, observations=(here,)), *end)
    first.last_word(attempt.parent, config)
    first.close()
    assert attempt.exists() != is_closed
    assert any("workers still write to it" in line for line in said) != is_closed
