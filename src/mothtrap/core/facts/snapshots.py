"""Facts about snapshots that were written."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class SnapshotKept(Fact, frozen=True, kw_only=True, tag=True):
    """A snapshot of `step` was written, or failed with `error`.

    `state_step`, `reason` and `note` are as in `core.snapshots.Snapshot`, `folder` is relative to
    the folder of the run. `request` is the id of the request that it answers.
    """

    state_step: int = 0
    reason: str = ""
    note: str = ""
    folder: str = ""
    size_bytes: int = 0
    request: str = ""
    error: str = ""
