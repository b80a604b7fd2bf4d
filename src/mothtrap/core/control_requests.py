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
    """Capture something else from the next step on.

    `id` is the name under which the answer is looked for, `attempt` the attempt that is
    meant. Collections of `add` come into force, for `for_steps` steps of each of their modes
    where that is given; steps, those of their schedules too, are counted from the first that
    the mode has then. Those of `remove` go. Train steps count from `from_step` on, where that
    is still to come: so several workers begin at the same one.
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
    """Take a snapshot of the next step; `id` and `attempt` as in `CaptureRequest`."""

    id: str
    attempt: int


class StopRequest(
    msgspec.Struct, frozen=True, kw_only=True, tag="stop", forbid_unknown_fields=True
):
    """End the training at a step boundary that all workers agree on; `id`, `attempt` as above.

    `prunes`: the library whose trial this is, which is told that the trial is not worth going
    on with; the process goes on with the next one.
    """

    id: str
    attempt: int
    reason: str = ""
    prunes: Literal["", "optuna", "ray"] = ""


class CallRequest(
    msgspec.Struct, frozen=True, kw_only=True, tag="call", forbid_unknown_fields=True
):
    """Call a function at a step boundary: one that the configuration of the job names itself."""

    id: str
    attempt: int
    function: str
    event: Event


class DetailsRequest(
    msgspec.Struct, frozen=True, kw_only=True, tag="details", forbid_unknown_fields=True
):
    """Send the complete logs of some workers; for launchers that send merged logs only."""

    id: str
    attempt: int
    workers: tuple[int, ...]


Request = CaptureRequest | SnapshotRequest | StopRequest | CallRequest
"""Requests to the workers of a job, told apart by their tag."""
AnyRequest = Request | DetailsRequest
"""All requests: also those to launchers."""


def objection(request: CaptureRequest, in_force: Iterable[str]) -> str | None:
    """Return why a request cannot be done, in words; None when it can.

    Args:
        request: what is asked for.
        in_force: names of the collections in force.
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
