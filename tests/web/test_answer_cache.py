"""Answers about an ended run come from the cache until the run is changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.web.conftest import Site
from tests.web.made_runs import MadeRun, exploding

from mothtrap.core.marks import Mark
from mothtrap.store.marks import put_mark
from mothtrap.web import answer_cache, opened
from mothtrap.web.answer_cache import AnswerCache, traces_of

OF_THE_RUN = ("run?", "findings?", "names?", "series?name=train/lr:SGD&px=300&")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A server over an ended run and a running job, with a separate cache."""
    monkeypatch.setenv("MOTHTRAP_CACHE", str(tmp_path / "cache"))
    ended, living = (MadeRun(tmp_path / "runs" / name) for name in ("ended", "living"))
    for run in (ended, living):
        run.train([1.0, 0.5])
        run.find(exploding(1))
    ended.end()
    served = Site(tmp_path / "runs")
    served.start()
    yield served
    served.stop()
    living.close()


def answers(site: Site, run: str = "ended") -> list[bytes]:
    """Return the answers about a run; the time of the server is left out."""
    found = [site.ask(f"/api/{path}run={run}") for path in OF_THE_RUN]
    assert [status for status, _, _ in found] == [200] * len(OF_THE_RUN)
    return [body.partition(b'"now_s"')[0] for _, _, body in found]


def restarted(site: Site, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Start the server again; return the names of the runs that it opens from then on."""
    site.stop()
    names: list[str] = []
    real = opened.open_run
    monkeypatch.setattr(opened, "open_run", lambda path: (names.append(path.name), real(path))[1])
    site.start()
    return names


def test_an_ended_run_is_not_opened_for_what_was_answered_before(
    own: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = answers(own)
    names = restarted(own, monkeypatch)
    assert answers(own) == before
    assert names == []


def test_a_running_job_is_read_each_time(own: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(own, "living")
    names = restarted(own, monkeypatch)
    answers(own, "living")
    assert names == ["living"]


@pytest.mark.parametrize("what", ["a mark", "a snapshot", "a worker's file"])
def test_a_run_that_was_changed_is_read_again(
    own: Site, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    answers(own)
    names = restarted(own, monkeypatch)
    run = own.runs / "ended"
    if what == "a mark":
        mark = Mark(fingerprint=exploding(1).fingerprint, kind="muted", at_s=1.0)
        put_mark(run, mark)
        assert mark.fingerprint in own.json("/api/findings?run=ended")["marks"]
    elif what == "a snapshot":
        (run / "snapshots" / "s1").mkdir(parents=True)
        own.json("/api/run?run=ended")
    else:
        with max((run / "1" / "w0").glob("events-*")).open("ab") as file:
            file.write(b"\0")
        own.json("/api/run?run=ended")
    assert names == ["ended"]


def test_the_oldest_answers_give_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTHTRAP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(answer_cache, "MOST", 3)
    (tmp_path / "run").mkdir()
    cache, traces = AnswerCache(), traces_of(tmp_path / "run")
    for number in range(5):
        cache.write(tmp_path / "run", f"{number}", traces, b"%d" % number)
    held = [cache.read(tmp_path / "run", f"{number}", traces) for number in range(5)]
    assert held == [None, None, b"2", b"3", b"4"]
    assert cache.read(tmp_path / "run", "4", traces[::-1]) is None
    assert traces_of(tmp_path / "gone") == b""
