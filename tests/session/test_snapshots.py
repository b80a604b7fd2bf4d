"""Snapshots on their way to the disk."""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import numpy as np
import pytest
from tests.snapshot import samples
from tests.store.test_layout import info

from mothtrap.core.config import Config
from mothtrap.core.facts.snapshots import SnapshotKept
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.snapshot_orders import SnapshotDraft, SnapshotOrder, StateCopy
from mothtrap.core.snapshots import KeptStep
from mothtrap.monitor.catalogue import load_rules
from mothtrap.session.snapshots import Snapshots, SnapshotWriter, onset_needs
from mothtrap.session.worker import Worker
from mothtrap.snapshot import format as files
from mothtrap.store import layout


def taken(step: int, reason: str = "request", **changes: Any) -> SnapshotDraft:
    values: dict[str, Any] = {
        "order": SnapshotOrder(reason=reason, request="x"),
        "step": step,
        "state_step": step,
        "note": "",
        "steps": (
            KeptStep(recorded=samples.recorded(step), arrays={f"{step}/0": samples.array([step])}),
        ),
        "truth": None,
        "state": StateCopy(
            make=lambda: (samples.snapshot().state, ("a thing",)), arrays=samples.STATE
        ),
    }
    return SnapshotDraft(**(values | changes))


class Writing:
    def __init__(
        self, tmp_path: Path, command: tuple[str, ...] = ("python", "train.py"), **settings: Any
    ) -> None:
        made = info(config={}, command=command)
        self.attempt = layout.create_run(tmp_path / "runs" / "x", made)
        self.run = self.attempt.parent
        self.said: list[str] = []
        self.told: list[SnapshotKept] = []
        self.errors: list[BaseException] = []
        self.writer = SnapshotWriter(
            self.attempt,
            0,
            Config(**settings),
            "torch",
            {"torch": "2"},
            self.said.append,
            self.told.append,
            self.errors.append,
        )

    def put(self, *every: SnapshotDraft) -> None:
        for each in every:
            self.writer.put(each)
        assert self.writer.close()

    @property
    def steps(self) -> list[int]:
        return [each.step for each in files.stored(self.run)]


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Callable[..., Writing]]:
    made: list[Writing] = []

    def make(**settings: Any) -> Writing:
        made.append(Writing(tmp_path, **settings))
        return made[-1]

    yield make
    for each in made:
        each.writer.close()
        assert each.errors == []


def test_a_snapshot_is_written_and_told(writing: Callable[..., Writing]) -> None:
    own = writing()
    own.put(taken(7))
    loaded = files.load(files.folder_of(own.run, 7, 0))
    about = loaded.snapshot
    assert (about.run, about.attempt, about.step, about.reason) == ("x", 1, 7, "request")
    assert about.command == ("python", "train.py")
    assert about.note == "not kept: a thing; not kept: the global rng of CuPy"
    assert list(loaded.steps) == ["7/0"]
    (told,) = own.told
    assert (told.step, told.folder, told.request) == (7, "snapshots/00000007/w0", "x")
    (said,) = own.said
    assert said.startswith(
        "mothtrap: step 7 kept, but not the global rng of CuPy: mothtrap replay "
    )
    assert said.endswith("--step 7")


def test_a_later_state_is_said_at_once_of_what_was_asked_for(
    writing: Callable[..., Writing],
) -> None:
    own = writing()
    own.put(taken(6, "finding STR701", state_step=9), taken(7, state_step=9))
    assert own.steps == [6, 7]
    (said,) = own.said
    later = ", with the state of step 9 (a replay has nothing to compare with): mothtrap replay "
    assert later in said


@pytest.mark.parametrize("words", [("",), ("-",), ("-c",), ("/x/ipykernel_launcher.py", "-f", "k")])
def test_without_a_script_a_replay_needs_a_function(
    writing: Callable[..., Writing], words: tuple[str, ...]
) -> None:
    own = writing(command=("/usr/bin/python3", *words))
    own.put(taken(7))
    (said,) = own.said
    assert said.endswith("--step 7 --build MODULE:FUNCTION")


def test_what_the_step_was_fed_with_and_is_not_kept_is_said(
    writing: Callable[..., Writing],
) -> None:
    missing = ("the variable log: Logger", "the batch of loader 0 at t.py:3: float32 is too large")
    recorded = msgspec.structs.replace(samples.recorded(7), missing=missing)
    own = writing()
    arrays = {"7/0": samples.array([7])}
    own.put(taken(7, steps=(KeptStep(recorded=recorded, arrays=arrays),)))
    (said,) = own.said
    assert said.startswith(f"mothtrap: step 7 kept, but not {missing[1]}: mothtrap replay ")
    assert own.told[0].note == f"not kept: a thing; not kept: {missing[1]}"


def test_a_secret_of_the_command_does_not_go_into_a_snapshot(tmp_path: Path) -> None:
    own = Writing(tmp_path, command=("python", "train.py", "--api-key", "abc"))
    own.put(taken(7))
    head = files.folder_of(own.run, 7, 0) / "snapshot.json"
    assert b"abc" not in head.read_bytes()
    command = files.read_head(head.parent).command
    assert command == ("python", "train.py", "--api-key", "***")


def test_memory_is_given_back(writing: Callable[..., Writing]) -> None:
    given: list[int] = []
    state = StateCopy(
        make=lambda: (None, ()), arrays=samples.STATE, give_back=lambda: given.append(1)
    )
    own = writing()
    own.put(taken(1, state=state))
    assert given == [1]
    assert own.writer.has_room()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads have no priority")
def test_the_thread_holds_the_interpreter_with_the_priority_of_the_training(
    writing: Callable[..., Writing],
) -> None:
    found: list[int] = []

    def make() -> tuple[None, tuple[str, ...]]:
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return None, ()

    writing().put(taken(1, state=StateCopy(make=make, arrays={})))
    assert found == [os.getpriority(os.PRIO_PROCESS, threading.get_native_id())]


def test_what_lies_there_is_read_once(
    writing: Callable[..., Writing], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = writing(snapshots=3)
    own.put(taken(1))
    reads: list[Path] = []
    stored = files.stored

    def counted(run: Path) -> list[files.Stored]:
        reads.append(run)
        return stored(run)

    again = SnapshotWriter(
        *(own.attempt, 0, Config(snapshots=3), "torch", {}),
        *(own.said.append, own.told.append, own.errors.append),
    )
    monkeypatch.setattr(files, "stored", counted)
    for step in range(2, 6):
        again.put(taken(step))
    assert again.close()
    assert len(reads) == 1
    assert [each.step for each in stored(own.run)] == [3, 4, 5]


def test_so_many_are_kept_and_few_are_said(writing: Callable[..., Writing]) -> None:
    own = writing(snapshots=3)
    own.put(*(taken(step) for step in range(6)))
    assert own.steps == [3, 4, 5]
    assert len(own.said) == 3


def test_they_take_so_much_and_no_more(writing: Callable[..., Writing]) -> None:
    own = writing(snapshots=100, snapshot_mb=0.1)
    array = samples.array(np.zeros(30_000, np.uint8))
    state = StateCopy(make=lambda: (None, ()), arrays={"a": array})
    own.put(*(taken(step, state=state) for step in range(6)))
    assert own.steps == [3, 4, 5]


def test_the_state_of_a_base_serves_later_steps_and_goes_with_the_next(
    writing: Callable[..., Writing],
) -> None:
    own = writing()
    own.put(
        taken(4, "base"),
        taken(6, state=None, state_step=4, steps=taken(6).steps),
        *(taken(step, "base") for step in (8, 12, 16, 20)),
    )
    assert own.writer.base_steps == (8, 12, 16, 20)
    assert own.steps == [6, 8, 12, 16, 20]
    loaded = files.load(files.folder_of(own.run, 6, 0))
    assert loaded.snapshot.state_step == 4
    assert loaded.snapshot.state == samples.snapshot().state
    assert bytes(loaded.state["weight:w"].data) == bytes(samples.STATE["weight:w"].data)
    assert len(own.said) == 1  # bases are not reported in a line


def test_a_base_that_was_removed_for_its_size_is_offered_no_more(
    writing: Callable[..., Writing],
) -> None:
    own = writing(snapshot_mb=0.15)
    array = samples.array(np.zeros(60_000, np.uint8))
    state = StateCopy(make=lambda: (None, ()), arrays={"a": array})
    own.put(*(taken(step, "base", state=state) for step in (0, 4, 8)))
    assert own.steps == [4, 8]
    assert own.writer.base_steps == (4, 8)


def test_a_base_becomes_an_onset_without_a_second_copy_of_its_state(
    writing: Callable[..., Writing],
) -> None:
    own = writing()
    own.put(taken(4, "base"), taken(4, "unsound step: x", state=None))
    (stored,) = files.stored(own.run)
    loaded = files.load(stored.folder)
    assert (loaded.snapshot.reason, loaded.snapshot.state_step) == ("unsound step: x", 4)
    assert loaded.snapshot.note.count("not kept: a thing") == 1
    assert bytes(loaded.state["weight:w"].data) == bytes(samples.STATE["weight:w"].data)
    assert own.writer.base_steps == (4,)


def test_a_step_that_is_kept_once_more_is_said_once(writing: Callable[..., Writing]) -> None:
    own = writing()
    own.put(taken(4, "step"), taken(4, "unsound step: x", state=None))
    assert len(own.said) == 1


def test_a_base_that_became_another_goes_only_when_it_was_used(
    writing: Callable[..., Writing],
) -> None:
    own = writing(snapshots=1)
    own.put(
        taken(4, "base"),
        taken(4, "finding A", state=None),
        taken(6, "finding A", state=None, state_step=4),
    )
    assert own.steps == [6]
    assert own.writer.base_steps == ()


def test_a_snapshot_whose_base_is_gone_is_refused_in_words(
    writing: Callable[..., Writing],
) -> None:
    own = writing()
    own.put(taken(6, state=None, state_step=4))
    why = "the state of step 4, from which its replay starts, is gone; training continues"
    assert [told.error for told in own.told] == [why]


def test_a_full_disk_is_said_once_and_leaves_nothing(
    writing: Callable[..., Writing], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "sync_file", full)
    own = writing()
    own.put(*(taken(s, order=SnapshotOrder(reason="step")) for s in range(3)))
    assert own.said == [
        "mothtrap: no snapshot of step 0 (step): No space left on device; training continues"
    ]
    assert [told.error for told in own.told] == ["No space left on device; training continues"] * 3
    assert list((own.run / "snapshots").iterdir()) == []


@pytest.mark.parametrize("reason", ["unsound step: x", "finding NUM001", "exception", "base"])
def test_a_snapshot_that_no_one_asked_for_is_not_missed_aloud(
    reason: str, writing: Callable[..., Writing], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "sync_file", Mock(side_effect=OSError(errno.ENOSPC, "No space")))
    own = writing()
    own.put(taken(1, order=SnapshotOrder(reason=reason)))
    assert own.said == []
    assert [told.error for told in own.told] == ["No space; training continues"]


def test_a_folder_that_cannot_be_written_is_no_end(writing: Callable[..., Writing]) -> None:
    own = writing()
    (own.run / "snapshots").write_text("a file in the way")
    own.put(taken(1))
    assert own.told[0].error
    assert (own.run / "snapshots").read_text() == "a file in the way"


class BusyTaker:
    active = True

    def __init__(self, full: bool = False) -> None:
        self.orders: list[SnapshotOrder] = []
        self.full = full

    def order(self, order: SnapshotOrder) -> bool:
        self.orders.append(order)
        return not self.full

    def connect(self, sink: Any) -> None:
        raise AssertionError("nothing to write to")


def finding(code: str, severity: Severity, step: int = 5) -> Finding:
    return Finding(
        code=code, name="n", severity=severity, step=step, detected_step=step, message="m"
    )


def test_the_first_finding_of_an_error_is_worth_one() -> None:
    told: list[SnapshotKept] = []
    own = Snapshots(Config(), told.append, print, print)
    own.found(finding("LOS101", Severity.ERROR))  # none is taken yet
    own.taking = taking = BusyTaker()
    for code, severity in (
        ("GRD101", Severity.ERROR),
        ("GRD101", Severity.ERROR),
        ("GRD102", Severity.WARNING),
        ("GRD103", Severity.INFO),
    ):
        own.found(finding(code, severity))
    assert [(order.reason, order.step) for order in taking.orders] == [("finding GRD101", 5)]
    assert told == []


def test_gradients_are_looked_at_for_onsets_whatever_rules_are_in_force() -> None:
    def is_due(config: Config) -> bool:
        worker = Worker(lambda: None, config, "numpy", print)
        try:
            return worker.recorder.due.is_due("gradient")
        finally:
            worker.close()

    assert is_due(Config(select=("LOS402",)))
    assert not is_due(Config(select=("LOS402",), snapshots=0))
    in_force = [need for rule in load_rules(Config()) for need in rule.needs]
    assert set(onset_needs(Config())) <= set(in_force)  # by default it costs nothing


def test_a_request_that_cannot_be_done_is_answered() -> None:
    from mothtrap.core.control_requests import CaptureRequest, SnapshotRequest

    told: list[SnapshotKept] = []
    others: list[CaptureRequest] = []
    own = Snapshots(Config(), told.append, print, print)
    own.taking = BusyTaker(full=True)
    own.ask(SnapshotRequest(id="x", attempt=1), others.append)
    own.ask(CaptureRequest(id="y", attempt=1), others.append)
    assert [(answer.request, bool(answer.error)) for answer in told] == [("x", True)]
    assert [request.id for request in others] == ["y"]


def test_a_thread_that_writes_is_no_reason_to_wait(writing: Callable[..., Writing]) -> None:
    own = writing()
    gate = threading.Event()

    def make() -> tuple[None, tuple[str, ...]]:
        assert gate.wait(30)
        return None, ()

    slow = StateCopy(make=make, arrays={})
    own.writer.put(taken(1, state=slow))
    own.writer.put(taken(2, state=slow))
    assert not own.writer.has_room()
    gate.set()
    assert own.writer.close()
    assert own.writer.has_room()
