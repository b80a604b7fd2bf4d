"""Requests to a running job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from mothtrap.core.collections import Collection, complaint
from mothtrap.core.errors import nearest
from mothtrap.core.events import Event


class CaptureRequest(
    msgspec.Struct, frozen=True, kw_only=True, tag="capture", forbid_unknown_fields=True
):
    """Request to change what is captured from the next step on.

    `id` is the name under which the answer is stored, and `attempt` is the attempt concerned. The
    collections in `add` become active, for `for_steps` steps of each of their modes if given.
    Steps, also in schedules, are counted from the next step of the mode. The collections in
    `remove` become inactive. Training steps count from `from_step`, if it is still ahead, so that
    several workers begin at the same step.
    """

    id: str
    attempt: int
    add: dict[str, Collection] = {}
    remove: tuple[str, ...] = ()
    for_steps: int | None = None
    from_step: int = 0


class SnapshotRequest(
    msgspec.Struct, frozen=True, kw_only=True, tag="snapshot", forbid_unknown_fields=True
):
    """Request for a snapshot of the next step; `id` and `attempt` as in `CaptureRequest`."""

    id: str
    attempt: int


class StopRequest(
    msgspec.Struct, frozen=True, kw_only=True, tag="stop", forbid_unknown_fields=True
):
    """Request to stop at a step boundary that all workers agree on; `id`, `attempt` as above.

    `prunes` is the library whose trial is pruned; the process then continues with the next trial.
    """

    id: str
    attempt: int
    reason: str = ""
    prunes: Literal["", "optuna", "ray"] = ""


class CallRequest(
    msgspec.Struct, frozen=True, kw_only=True, tag="call", forbid_unknown_fields=True
):
    """Request to call a function, named in the job's configuration, at a step boundary."""

    id: str
    attempt: int
    function: str
    event: Event


class DetailsRequest(
    msgspec.Struct, frozen=True, kw_only=True, tag="details", forbid_unknown_fields=True
):
    """Request for the complete logs of some workers; for launchers that send only merged logs."""

    id: str
    attempt: int
    workers: tuple[int, ...]


Request = CaptureRequest | SnapshotRequest | StopRequest | CallRequest
"""Requests to the workers of a job, distinguished by their tag."""
AnyRequest = Request | DetailsRequest
"""All requests, including requests to launchers."""


def objection(request: CaptureRequest, in_force: Iterable[str]) -> str | None:
    """Return why a request cannot be carried out; None if it can.

    Args:
        request: the request.
        in_force: names of the active collections.
    """
    known = tuple(in_force)
    for name in request.remove:
        if name not in known:
            have = ", ".join(known) or "none"
            return f"no collection {name!r} is active{nearest(name, known)}; active: {have}"
    if request.for_steps is not None and request.for_steps < 1:
        return f"for_steps must be 1 step or more, not {request.for_steps}"
    return _objection_to(request.add)


def _objection_to(collections: Mapping[str, Collection]) -> str | None:
    for name, collection in collections.items():
        found = complaint(name, collection)
        if found:
            return f"collection {name!r}: {found}"
    return None
