"""Requests of the page: mark findings, label or delete runs, and control a running job."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from mothtrap.core.collections import Collection, complaint
from mothtrap.core.control_requests import CaptureRequest, SnapshotRequest, StopRequest
from mothtrap.core.errors import ConfigError, UnknownNameError, nearest
from mothtrap.core.labels import LABEL_KINDS
from mothtrap.core.marks import Mark
from mothtrap.reader.run import open_run
from mothtrap.reader.stored_run import remove_stored
from mothtrap.session.control_client import (
    ask,
    ask_for_snapshot,
    ask_to_stop,
    check_running,
    common_step,
    in_force,
    when,
)
from mothtrap.store.control_inbox import new_id
from mothtrap.store.layout import attempts
from mothtrap.store.marks import put_mark
from mothtrap.store.remarks import user_name
from mothtrap.web.record_api import labeling

ANSWER_S = 20.0
"""Longest wait of the page for the job's answer; chosen by hand: a click should not hang."""
MAX_BYTES = 1 << 16
MAX_NOTE = 1000
T = TypeVar("T")


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a request, in a sentence."""

    message: str


class CaptureCommand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tensors to capture from the next step on, see `core.collections.Collection`."""

    tensors: str
    every: int = 1
    for_steps: int | None = None


class SnapshotCommand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Request for a snapshot of the next step."""


class StopCommand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Request to stop the job, with a reason."""

    reason: str = "requested in the browser"


class MarkCommand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Request to mark a finding, with a remark and the hours of muting (None: without end)."""

    finding: str
    note: str = ""
    hours: float | None = None


def capture(path: Path, body: bytes) -> Done:
    """Request more captures of a running job."""
    command = _read(body, CaptureCommand)
    collection = Collection(tensors=(command.tensors,), every=command.every)
    if found := complaint(command.tensors, collection):
        raise ConfigError(found)
    job = check_running(path)
    request = CaptureRequest(
        id=new_id(),
        attempt=attempts(path)[-1],
        add={command.tensors: collection},
        for_steps=command.for_steps,
        from_step=common_step(job),
    )
    answers = ask(path, request, ANSWER_S)
    return Done(message=f"{command.tensors}: {when(request, answers, in_force(path))}")


def snapshot(path: Path, body: bytes) -> Done:
    """Request a snapshot of a running job's next step."""
    _read(body, SnapshotCommand)
    request = SnapshotRequest(id=new_id(), attempt=attempts(path)[-1])
    kept = ask_for_snapshot(path, request, ANSWER_S)
    steps = ", ".join(str(step) for step in sorted({answer.step for answer in kept}))
    return Done(message=f"step {steps} was stored and can be replayed")


def stop(path: Path, body: bytes) -> Done:
    """Stop a running job at a step that all ranks agree on."""
    command = _read(body, StopCommand)
    request = StopRequest(id=new_id(), attempt=attempts(path)[-1], reason=command.reason[:MAX_NOTE])
    answers = [answer for answer in ask_to_stop(path, request, ANSWER_S) if not answer.error]
    steps = ", ".join(str(step) for step in sorted({answer.step for answer in answers}))
    return Done(message=f"{path.name} stops before step {steps}")


class DeleteCommand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Request to delete a run; it repeats the run's name, so that no request deletes by mistake."""

    name: str


def delete(path: Path, body: bytes) -> Done:
    """Delete a run that is not in progress, with all its files."""
    command = _read(body, DeleteCommand)
    if command.name != path.name:
        raise ConfigError(f"to delete {path.name}, the request must repeat its name")
    remove_stored(path)
    return Done(message=f"{path.name} was deleted")


def acknowledge(path: Path, body: bytes) -> Done:
    """Mark a finding as known."""
    return _mark(path, body, "acknowledged")


def mute(path: Path, body: bytes) -> Done:
    """Mute a finding."""
    return _mark(path, body, "muted")


def unmute(path: Path, body: bytes) -> Done:
    """Unmute a finding."""
    return _mark(path, body, "unmuted")


def _labels(act: Callable[[Path, bytes], str]) -> Callable[[Path, bytes], Done]:
    return lambda path, body: Done(message=act(path, body))


OF_FINDINGS: dict[str, Callable[[Path, bytes], Done]] = {
    "ack": acknowledge,
    "mute": mute,
    "unmute": unmute,
}
OF_RUNS: dict[str, Callable[[Path, bytes], Done]] = {
    kind: _labels(labeling(kind)) for kind in LABEL_KINDS
}
OF_ENDED: dict[str, Callable[[Path, bytes], Done]] = {"delete": delete}
OF_JOBS: dict[str, Callable[[Path, bytes], Done]] = {
    "capture": capture,
    "snapshot": snapshot,
    "stop": stop,
}
"""Requests by the last part of their address; the page shows the requests that a run supports."""


def controls(running: bool) -> tuple[str, ...]:
    """Return the requests that a run accepts."""
    return (*OF_FINDINGS, *OF_RUNS, *(OF_JOBS if running else OF_ENDED))


def carry_out(name: str, path: Path, body: bytes) -> Done:
    """Carry out a request to a run.

    Raises:
        UnknownNameError: there is no such request, or no such finding.
        ConfigError: the request cannot be read.
        ControlError: the job does not run, refuses, or gives no answer.
        OSError: the run cannot be written.
    """
    known = OF_FINDINGS | OF_RUNS | OF_ENDED | OF_JOBS
    if name not in known:
        raise UnknownNameError(f"there is no request {name!r}{nearest(name, known)}")
    if len(body) > MAX_BYTES:
        raise ConfigError(f"the request has more than {MAX_BYTES:,} bytes")
    return known[name](path, body)


def _mark(path: Path, body: bytes, kind: Literal["acknowledged", "muted", "unmuted"]) -> Done:
    command = _read(body, MarkCommand)
    finding = next((f for f in open_run(path).findings if f.fingerprint == command.finding), None)
    if finding is None:
        raise UnknownNameError(f"{path.name} has no finding {command.finding!r}")
    now_s = time.time()
    mark = Mark(
        fingerprint=finding.fingerprint,
        kind=kind,
        at_s=now_s,
        by=user_name(),
        note=command.note[:MAX_NOTE],
        until_s=now_s + 3600 * command.hours if command.hours is not None else None,
    )
    put_mark(path, mark)
    return Done(message=f"{finding.code} {finding.name} {kind}")


def _read(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as err:
        raise ConfigError(f"the request cannot be read: {err}") from err
