"""The last collective that a process called, from its stack and from the flight recorder."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest
import torch

from mothtrap.adapters.torch.job import collectives
from mothtrap.core.facts.stalls import CollectiveCall

FOLDER = Path(torch.__file__).parent
C10D = str(FOLDER / "distributed" / "distributed_c10d.py")
DDP = str(FOLDER / "nn" / "parallel" / "distributed.py")


@pytest.fixture(autouse=True)
def group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(collectives, "_recorded", lambda: None)


def called(name: str, filename: str, inner: Callable[[], object]) -> Callable[[], object]:
    """Return a function with the given name and file that calls another one."""
    names: dict[str, object] = {"inner": inner}
    exec(compile(f"def {name}():\n    return inner()\n", filename, "exec"), names)
    return names[name]  # type: ignore[return-value]


def frame_within(*calls: tuple[str, str]) -> FrameType:
    """Return the innermost frame of a stack that this function has called."""
    found: Callable[[], object] = sys._getframe
    for name, filename in reversed(calls):
        found = called(name, filename, found)
    return found()  # type: ignore[return-value]


def test_the_function_that_the_user_has_called_is_named() -> None:
    frame = frame_within(("wrapper", C10D), ("barrier", C10D), ("_wait", C10D))
    assert collectives.last_call(frame) == CollectiveCall(name="barrier", waits=True)


def test_a_wrapper_waits_in_a_collective_without_a_name() -> None:
    for calls in ([("forward", DDP)], [("_engine_run_backward", str(FOLDER / "autograd.py"))]):
        call = collectives.last_call(frame_within(*calls))
        assert call == CollectiveCall(name=collectives.UNNAMED, waits=True)


def test_the_recorder_gives_name_and_number(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = collectives._Entry(14, "gloo:all_reduce", ("3", "default"))
    monkeypatch.setattr(collectives, "_recorded", lambda: entry)
    call = collectives.last_call(frame_within(("forward", DDP)))
    assert call == CollectiveCall(name="all_reduce", number=14, group="3", waits=True)
    call = collectives.last_call(sys._getframe())
    assert call == CollectiveCall(name="all_reduce", number=14, group="3", waits=False)


class Work:
    """An operation that was started earlier."""

    def __init__(self) -> None:
        self.begun, self.done = threading.Event(), threading.Event()


@pytest.fixture
def waiting() -> Iterator[FrameType]:
    work = Work()
    frames: list[FrameType] = []

    def wait_for_it() -> None:
        frames.append(sys._getframe())
        work.begun.set()
        lock.acquire()  # imitates `work.wait()`, which is not a Python function

    lock = threading.Lock()
    lock.acquire()
    thread = threading.Thread(target=wait_for_it)
    thread.start()
    work.begun.wait()
    yield frames[0]
    lock.release()
    thread.join()


def test_a_line_that_waits_for_an_operation(waiting: FrameType) -> None:
    assert "work.wait()" in Path(__file__).read_text().splitlines()[waiting.f_lineno - 1]
    call = collectives.last_call(waiting)
    assert call == CollectiveCall(name=collectives.UNNAMED, waits=True)


def test_no_group_and_no_call() -> None:
    assert collectives.last_call(sys._getframe()) is None


def test_without_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: False)
    assert collectives.last_call(frame_within(("barrier", C10D))) is None


def test_a_changed_recorder_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    module = sys.modules["torch._C._distributed_c10d"]
    for answer in (b"no", b"{}", b'{"entries": []}'):
        monkeypatch.setattr(module, "_dump_fr_trace_json", lambda a=answer: a, raising=False)
        assert collectives._recorded() is None
    entries = b'{"entries": [{"collective_seq_id": 2, "profiling_name": "gloo:barrier"}]}'
    monkeypatch.setattr(module, "_dump_fr_trace_json", lambda: entries, raising=False)
    assert collectives._recorded() == collectives._Entry(2, "gloo:barrier")
    monkeypatch.delattr(module, "_dump_fr_trace_json")
    assert collectives._recorded() is None
