"""Rules on many stored runs, serially and on executors."""

from __future__ import annotations

from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.cli.stored_run import store_run

import mothtrap
from mothtrap.core.errors import ConfigError, RunNotFoundError
from mothtrap.monitor.stored.unit import StoredVerdict
from mothtrap.store import layout

RULES = '''
import os
import mothtrap

@mothtrap.rule("ZZZ901", severity="error")
def low_loss(window: mothtrap.Window, *, limit: float = 0.5):
    """A loss is low."""
    if os.path.exists("forbidden"):
        raise AssertionError("evaluated again")
    for series in window.scalars("loss"):
        low_S = series.values_S < limit
        if low_S.any():
            step = int(series.steps_S[low_S][0])
            yield mothtrap.Found(step=step, message="low", evidence={"worst": float("inf")})
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Store three runs: the loss of `low` falls below the limit first, that of `high` never."""
    monkeypatch.chdir(tmp_path)
    for name, loss in (("low", 1.0), ("middle", 3.0), ("high", 100.0)):
        store_run(tmp_path / "runs" / name, first_loss=loss)
    (tmp_path / "mine.py").write_text(RULES)
    return tmp_path


def by_name(verdicts: mothtrap.Analysis) -> dict[str, StoredVerdict]:
    return {verdict.name: verdict for verdict in verdicts}


def steps(verdicts: mothtrap.Analysis) -> dict[str, list[int]]:
    return {v.name: [f.step for f in v.findings if f.code == "ZZZ901"] for v in verdicts}


def test_each_run_has_its_findings() -> None:
    found = mothtrap.analyze("runs", rules=["mine.py"], select=["ZZZ"])
    assert len(found) == 3
    assert steps(found) == {"low": [2], "middle": [6], "high": []}
    assert steps(found) == {"low": [2], "middle": [6], "high": []}, "can be read again"
    low = by_name(found)["low"]
    assert low.findings[0].evidence["worst"] == float("inf")
    assert low.verdict.startswith("Low loss since step 2")
    assert (low.error, low.failed) == ("", ())
    assert low.seconds > 0


def test_processes_find_the_same() -> None:
    here = by_name(mothtrap.analyze("runs", rules=["mine.py"]))
    there = by_name(mothtrap.analyze("runs", "processes", rules=["mine.py"], workers=2))
    for name, verdict in here.items():
        assert there[name].findings == verdict.findings
        assert there[name].rules == verdict.rules
        assert there[name].options == verdict.options


def test_any_executor_is_used_and_left_open() -> None:
    with ThreadPoolExecutor(2) as pool:
        assert len(list(mothtrap.analyze(["runs/low", "runs/high"], pool))) == 2
        assert pool.submit(int, "3").result() == 3


def test_a_run_that_cannot_be_read_fails_alone(folder: Path) -> None:
    (folder / "runs" / "middle" / "remote.json").write_text("no")
    found = list(mothtrap.analyze("runs", rules=["mine.py"], select=["ZZZ"]))
    errors = {Path(verdict.run).name: verdict.error for verdict in found}
    assert "remote.json cannot be read" in errors.pop("middle")
    assert errors == {"low": "", "high": ""}


def test_a_worker_that_dies_is_an_error_of_its_run() -> None:
    class Killed(Executor):
        def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
            future: Future[bytes] = Future()
            future.set_exception(ConnectionError("killed"))
            return future

    found = list(mothtrap.analyze("runs", Killed()))
    assert {verdict.error for verdict in found} == {"its worker failed: ConnectionError: killed"}
    assert len(found) == 3


def test_stored_results_are_used_until_rules_or_data_change(folder: Path) -> None:
    def again() -> dict[str, bool]:
        found = mothtrap.analyze("runs", rules=["mine.py"], select=["ZZZ"], skip_done=True)
        assert steps(found) == {"low": [2], "middle": [6], "high": []}
        return {verdict.name: verdict.is_stored for verdict in found}

    assert again() == dict.fromkeys(("low", "middle", "high"), False)
    assert again() == dict.fromkeys(("low", "middle", "high"), True)
    (folder / "mine.py").write_text(RULES + "\n")
    assert not any(again().values()), "the rule file is another one"
    attempt = folder / "runs" / "low" / "1"
    segment = attempt / "w0" / "events-00000000.arrow"
    (attempt / "w0" / "events-00000001.arrow").write_bytes(segment.read_bytes())
    assert again() == {"low": False, "middle": True, "high": True}


def test_without_skip_done_rules_are_evaluated_again(folder: Path) -> None:
    def failed() -> int:
        found = mothtrap.analyze("runs/low", rules=["mine.py"], select=["ZZZ"])
        return sum(len(verdict.failed) for verdict in found)

    assert failed() == 0
    (folder / "forbidden").touch()
    assert failed() == 1


def test_runs_are_named_by_path_glob_name_and_object(folder: Path) -> None:
    def names(*runs: object) -> set[str]:
        return {verdict.name for verdict in mothtrap.analyze(runs, select=["NUM001"])}  # type: ignore[arg-type]

    assert names("runs/low") == names("low") == names(Path("runs") / "low") == {"low"}
    assert names("runs/*w", folder / "runs" / "low") == {"low"}
    assert names(mothtrap.open_run("runs/high"), "runs/m*") == {"high", "middle"}
    for wrong in ("runs/no*", "nothing"):
        with pytest.raises(RunNotFoundError):
            names(wrong)


def test_wrong_names_are_refused_before_anything_is_evaluated() -> None:
    with pytest.raises(ConfigError, match="ZZZ"):
        mothtrap.analyze("runs", select=["ZZZ"])
    with pytest.raises(ConfigError, match=r"no executor 'proceses' .did you mean 'processes'"):
        list(mothtrap.analyze("runs", "proceses"))
    with pytest.raises(ConfigError, match="has no address"):
        list(mothtrap.analyze("runs", "processes://host:1"))


def test_results_lie_in_the_run_and_change_nothing_else(folder: Path) -> None:
    before = mothtrap.open_run("runs/low").findings
    list(mothtrap.analyze("runs/low", rules=["mine.py"], select=["ZZZ"]))
    run = folder / "runs" / "low"
    assert len(list((run / "analyses").glob("*.json"))) == 1
    assert layout.attempts(run) == [1]
    assert mothtrap.open_run(run).findings == before
    assert mothtrap.open_run(run).damage == ()
