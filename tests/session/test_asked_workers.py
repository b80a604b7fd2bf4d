"""Requests to a job of several workers: each answers separately, at its own step."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.reader.runs import info, write_worker
from tests.store.records import record

from mothtrap.core.control_requests import CaptureRequest
from mothtrap.core.errors import ControlError
from mothtrap.core.facts.captures import CaptureChanged
from mothtrap.reader.run import open_run
from mothtrap.session import control_client
from mothtrap.session.control_client import ask, common_step
from mothtrap.store import layout

REQUEST = CaptureRequest(id="1", attempt=1)


class Clock:
    """Time passes by sleeping; at each sleep a worker may answer."""

    def __init__(self, *acts: Callable[[], None]) -> None:
        self.now_s = 0.0
        self._acts = iter(acts)

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, pause_s: float) -> None:
        self.now_s += pause_s
        next(self._acts, lambda: None)()


@pytest.fixture
def workers(tmp_path: Path) -> list[Callable[..., Callable[[], None]]]:
    """Return functions that make each of two workers of a running job answer."""
    attempt = layout.create_run(tmp_path / "x", info())

    def answering(rank: int) -> Callable[..., Callable[[], None]]:
        log = write_worker(attempt, record(0), seal=False)
        steps = itertools.count(1)

        def answer(from_step: int, error: str = "") -> Callable[[], None]:
            said = CaptureChanged(
                step=from_step, request=REQUEST.id, from_step=from_step, error=error
            )
            return lambda: log.append([record(next(steps), observations=(said,))])

        return answer

    return [answering(rank) for rank in range(2)]


def asked(
    path: Path, monkeypatch: pytest.MonkeyPatch, *acts: Callable[[], None]
) -> tuple[Clock, tuple[CaptureChanged, ...]]:
    clock = Clock(*acts)
    monkeypatch.setattr(control_client, "time", clock)
    return clock, ask(path, REQUEST, 60.0)


def test_every_worker_is_waited_for(
    workers: list[Callable[..., Callable[[], None]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    acts = (workers[1](7), lambda: None, workers[0](9))
    clock, answers = asked(tmp_path / "x", monkeypatch, *acts)
    assert sorted(answer.from_step for answer in answers) == [7, 9]
    assert clock.now_s == pytest.approx(3 * control_client.ANSWER_POLL_S)


def test_a_worker_that_stands_still_holds_no_one_up_for_long(
    workers: list[Callable[..., Callable[[], None]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, answers = asked(tmp_path / "x", monkeypatch, workers[0](7))
    assert [answer.from_step for answer in answers] == [7]
    assert clock.now_s == pytest.approx(control_client.ALL_WORKERS_S, abs=0.3)


def test_it_is_refused_where_all_workers_refuse(
    workers: list[Callable[..., Callable[[], None]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    acts = [worker(3, "no such collection") for worker in workers]
    with pytest.raises(ControlError, match="digits refuses: no such collection"):
        asked(tmp_path / "x", monkeypatch, *acts)


@pytest.mark.parametrize(("ranks", "begin"), [(1, 0), (2, 21 + 8 * (6 + 3))])
def test_several_workers_are_given_a_step_that_none_has_reached_when_all_know_of_it(
    tmp_path: Path, ranks: int, begin: int
) -> None:
    """Steps take an eighth of a second; unread steps are counted for six seconds at most."""
    attempt = layout.create_run(tmp_path / "x", info())
    for _ in range(ranks):
        write_worker(attempt, *(record(step) for step in range(21)), seal=False)
    assert common_step(open_run(tmp_path / "x")) == begin


def test_before_it_is_known_how_long_a_step_takes_each_worker_begins_at_its_next(
    tmp_path: Path,
) -> None:
    attempt = layout.create_run(tmp_path / "x", info())
    for _ in range(2):
        write_worker(attempt, record(0), seal=False)
    assert common_step(open_run(tmp_path / "x")) == 0
