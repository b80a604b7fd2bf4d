from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mothtrap.core import jsonable
from mothtrap.core.errors import DamagedDataError, RunExistsError, RunNotFoundError
from mothtrap.core.runs import RunEnd, RunInfo
from mothtrap.store import layout


def info(**changes: object) -> RunInfo:
    values: dict[str, object] = {
        "id": "x",
        "attempt": 1,
        "command": ("python", "train.py"),
        "cwd": "/tmp",
        "created_s": 1e9,
        "pid": 1,
        "host": "h",
        "python": "3.11",
        "mothtrap": "0.1",
        "config": {"overhead": float("inf")},
    }
    return RunInfo(**(values | changes))  # type: ignore[arg-type]


def test_a_new_run_has_its_first_attempt(tmp_path: Path) -> None:
    attempt = layout.create_run(tmp_path / "runs" / "x", info(config={}))
    assert attempt == tmp_path / "runs" / "x" / "1"
    assert layout.read_info(attempt) == info(config={})
    assert layout.read_end(attempt) is None
    layout.write_end(attempt, RunEnd(exit_code=-9, ended_s=5.0))
    assert layout.read_end(attempt) == RunEnd(exit_code=-9, ended_s=5.0)
    assert [p.name for p in (tmp_path / "runs").iterdir()] == ["x"]


def test_an_existing_run_is_left_alone(tmp_path: Path) -> None:
    layout.create_run(tmp_path / "x", info())
    (tmp_path / "file").write_text("mine")
    for name in ("x", "file"):
        with pytest.raises(
            RunExistsError, match="with --name, continue the run with --resume, or remove"
        ):
            layout.create_run(tmp_path / name, info())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "x"]


def test_of_many_creators_of_one_name_one_wins(tmp_path: Path) -> None:
    def create(_: int) -> bool:
        try:
            layout.create_run(tmp_path / "x", info())
        except RunExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(create, range(16))).count(True) == 1


def test_attempts_are_counted(tmp_path: Path) -> None:
    layout.create_run(tmp_path / "x", info())
    layout.create_attempt(tmp_path / "x", info(attempt=2))
    (tmp_path / "x" / "3").mkdir()  # no run.json: not an attempt
    assert layout.attempts(tmp_path / "x") == [1, 2]
    with pytest.raises(RunExistsError, match=r"existing attempts: \[1, 2\]"):
        layout.create_attempt(tmp_path / "x", info(attempt=2))


def test_workers_never_share_a_folder(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        ranks = [rank for rank, _ in pool.map(lambda _: layout.claim_worker(tmp_path), range(20))]
    assert sorted(ranks) == list(range(20)) == layout.workers(tmp_path)
    assert layout.claim_worker(tmp_path, 30)[0] == 30
    assert layout.claim_worker(tmp_path, 3)[0] == 20


def test_a_run_is_found_by_path_name_or_as_the_latest(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    layout.create_run(runs / "late", info(created_s=2e9))
    layout.create_run(runs / "early", info(created_s=1e9))
    assert layout.find_run("early", runs) == runs / "early"
    assert layout.find_run(runs / "early", tmp_path) == runs / "early"
    assert layout.find_run(None, runs) == runs / "late"
    assert layout.list_runs(runs) == [runs / "late", runs / "early"]


def test_a_run_that_is_not_there_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError, match="record one with `mothtrap run"):
        layout.find_run(None, tmp_path / "nothing")
    layout.create_run(tmp_path / "digits-1", info())
    with pytest.raises(RunNotFoundError, match=r"did you mean 'digits-1'\?"):
        layout.find_run("digit-1", tmp_path)
    with pytest.raises(RunNotFoundError, match="no run found at"):
        layout.find_run("a\0b", tmp_path)


def test_a_folder_of_runs_and_a_part_of_a_run_are_told_from_a_run(tmp_path: Path) -> None:
    runs, other = tmp_path / "runs", tmp_path / "other"
    layout.create_run(runs / "digits-1", info())
    with pytest.raises(RunNotFoundError, match=r"it is a folder of runs, .*digits-1; name one"):
        layout.find_run(runs, other)
    with pytest.raises(RunNotFoundError, match=r"an attempt of .*digits-1; name the run"):
        layout.find_run(runs / "digits-1" / "1", other)
    with pytest.raises(RunNotFoundError, match=r"'digits-1'\?\): .*runs contains 1 run;"):
        layout.find_run(runs / "digit-1", other)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"id": 3}', "\xff"])
def test_a_damaged_description_is_an_error_of_ours(tmp_path: Path, text: str) -> None:
    attempt = layout.create_run(tmp_path / "x", info())
    (attempt / "run.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(DamagedDataError, match=r"run\.json cannot be read"):
        layout.read_info(attempt)
    assert layout.list_runs(tmp_path) == [tmp_path / "x"]


def test_a_description_whose_bytes_have_changed_is_not_believed(tmp_path: Path) -> None:
    attempt = layout.create_run(tmp_path / "x", info(config={}))
    path = attempt / "run.json"
    written = path.read_bytes()
    for position in range(len(written)):
        for bit in range(8):
            data = bytearray(written)
            data[position] ^= 1 << bit
            path.write_bytes(data)
            try:
                found = layout.read_info(attempt)
            except DamagedDataError:
                continue
            assert found == info(config={})
    path.write_bytes(written.replace(b'"id":"x"', b'"id":"y"'))
    with pytest.raises(DamagedDataError, match="do not match its checksum; remove the key"):
        layout.read_info(attempt)


def test_a_description_without_a_checksum_is_believed(tmp_path: Path) -> None:
    attempt = layout.create_run(tmp_path / "x", info(config={}))
    edited = jsonable.encode(info(config={}, command=("mine",)))
    (attempt / "run.json").write_bytes(edited)
    assert layout.read_info(attempt) == info(config={}, command=("mine",))
