"""A worker records its position when no step arrives, and later that steps have resumed."""

from __future__ import annotations

import threading
from pathlib import Path
from types import FrameType

import pytest

from mothtrap.core.facts.stalls import CollectiveCall, InputState, WorkerStalled
from mothtrap.session import stall_observer
from mothtrap.session.stall_observer import StallObserver
from mothtrap.store.stalls import StallReader, sign_s


class Job:
    """A job whose steps, clock and work the test sets; the test's thread is its training thread."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s, self.steps, self.work, self.reads = 0.0, 1, (0.0, 0.0), ""
        self.is_blocked = True
        monkeypatch.setattr(stall_observer, "_work", lambda: self.work)
        self.watch = StallObserver(
            folder,
            3,
            lambda: self.steps,
            self.call,
            lambda: InputState(self.reads, is_blocked=self.is_blocked),
            lambda: self.now_s,
            begins=False,
        )
        self._reader = StallReader(folder)

    def call(self, frame: FrameType) -> CollectiveCall:
        return CollectiveCall(name="all_reduce", number=7)

    def train(self, seconds: float, count: int = 5) -> None:
        for _ in range(count):
            self.now_s += seconds
            self.steps += 1
            self.watch.look()

    def wait(self, seconds: int, cpu: float = 0.0) -> WorkerStalled | None:
        def look() -> None:
            begun.wait()
            for _ in range(seconds):
                self.now_s += 1
                self.work = self.work[0] + cpu, self.work[1]
                self.watch.look()

        begun = threading.Event()
        thread = threading.Thread(target=look)
        thread.start()
        begun.set(), thread.join()  # one line, in which this thread stays
        return self._reader.poll()


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    return Job(tmp_path, monkeypatch)


def test_an_idle_worker_says_where_it_is(job: Job) -> None:
    job.train(0.5)
    assert job.wait(9) is None
    state = job.wait(1)
    assert state is not None
    assert (state.rank, state.step, state.waited_s, state.is_idle) == (3, 5, 10.0, True)
    assert state.function == "wait"
    assert (state.location or "").startswith("tests/session/test_stall_observer.py:")
    assert state.collective == CollectiveCall(name="all_reduce", number=7)
    assert any("test_an_idle_worker" in line for line in state.stack)


def test_a_worker_that_computes_is_not_idle(job: Job) -> None:
    job.train(0.5)
    state = job.wait(20, cpu=0.8)
    assert state is not None
    assert not state.is_idle
    state = job.wait(10)
    assert state is not None
    assert state.is_idle


def test_the_limit_grows_with_steps_and_waits_of_before(job: Job) -> None:
    job.train(4.0)
    assert job.wait(39) is None, "ten times a step"
    job.steps += 1
    job.wait(1)
    assert job.wait(79) is None, "twice the longest wait so far"
    assert job.wait(2) is not None


def test_steps_that_come_again_are_reported(job: Job) -> None:
    job.train(0.5)
    assert job.wait(12) is not None
    job.steps += 1
    state = job.wait(1)
    assert state is not None
    assert state.has_resumed
    assert job.wait(5) is None


def test_a_damaged_state_is_none(job: Job, tmp_path: Path) -> None:
    (tmp_path / "stalled.json").write_text("no")
    assert StallReader(tmp_path).poll() is None


def test_the_record_that_is_read_is_stored_and_since_when(job: Job) -> None:
    job.train(0.5)
    job.reads = "record 1"
    job.wait(9)
    job.reads = "record 2"
    state = job.wait(4)
    assert state is not None
    assert (state.waited_s, state.reading, state.reading_s) == (13.0, "record 2", 3.0)
    job.is_blocked = False
    state = job.wait(2)
    assert state is not None
    assert (state.reading, state.reading_s) == ("record 2", 0.0)
    job.steps += 1
    state = job.wait(1)
    assert state is not None
    assert (state.has_resumed, state.reading, state.reading_s) == (True, "", 0.0)


@pytest.mark.parametrize("gives_signs", [True, False])
def test_signs_of_life_are_written_if_asked_for(tmp_path: Path, gives_signs: bool) -> None:
    collective = CollectiveCall(name="all_reduce")
    watch = StallObserver(
        tmp_path, 0, lambda: 1, lambda _: collective, begins=False, gives_signs=gives_signs
    )
    assert sign_s(tmp_path) == 0
    watch.look()
    assert (sign_s(tmp_path) > 0) == gives_signs


def test_a_worker_that_an_exception_ends_keeps_where_it_was(job: Job) -> None:
    job.train(0.1)
    before = job.wait(30)
    assert before is not None
    assert not before.has_resumed
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        job.watch.close()
    assert job.wait(0) is None, "nothing was written"


def test_a_worker_that_ends_as_usual_is_not_stalled(job: Job) -> None:
    job.train(0.1)
    assert job.wait(30) is not None
    job.watch.close()
    after = job.wait(0)
    assert after is not None
    assert after.has_resumed
