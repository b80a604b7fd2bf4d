"""Select the steps of which an adapter takes a snapshot."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import numpy as np

from mothtrap.core.adapters import Job
from mothtrap.core.snapshot_orders import SnapshotDraft, SnapshotOrder, SnapshotSink
from mothtrap.core.snapshots import BASE
from mothtrap.snapshot.retention import is_onset
from mothtrap.snapshot.spare_memory import spare_bytes
from mothtrap.statistics.digest import digest_bytes

MAX_ORDERS: Final = 16
STILL_WRITING: Final = "earlier snapshots are still being written"

Draw = Callable[[SnapshotOrder], SnapshotDraft | str]
"""Function that drafts a snapshot of the latest step, or returns the reason why this is impossible.
"""


class SnapshotsOfSteps:
    """Accepts snapshot requests, and carries them out on the training thread.

    Args:
        job: job of the training.

    Attributes:
        active: whether any snapshots are taken in this job.
    """

    def __init__(self, job: Job) -> None:
        config = job.config
        wanted = config.snapshots > 0 and config.ring_mb > 0 and config.capture != "off"
        self.active = wanted and not config.redact  # which is unknown here for all values
        self._job = job
        self._every, self._at = config.snapshot_every, frozenset(config.snapshot_at)
        self._limit_bytes = config.snapshot_mb * 2**20
        self._automatic = 2 * config.snapshots
        self._orders: deque[SnapshotOrder] = deque()
        self._sink: SnapshotSink | None = None
        self._waiting: list[SnapshotDraft] = []
        self._taken, self._taken_for = -1, ""

    def order(self, order: SnapshotOrder) -> bool:
        """Request a snapshot as soon as possible; any thread may call this."""
        if not self.active or len(self._orders) >= MAX_ORDERS:
            return False
        self._orders.append(order)
        return True

    def connect(self, sink: SnapshotSink) -> None:
        """Start delivering snapshots, beginning with those already taken."""
        self._sink = sink
        waiting, self._waiting = self._waiting, []
        for taken in waiting:
            sink.put(taken)

    def onset(self, reason: str, draw: Draw) -> None:
        """Take a snapshot of the first bad step."""
        if self.active and self._automatic > 0:
            self._automatic -= 1
            self._take(SnapshotOrder(reason=f"unsound step: {reason}"), draw)

    @property
    def is_awaited(self) -> bool:
        """Return whether a snapshot is requested."""
        return bool(self._orders)

    def is_due(self, step: int) -> bool:
        """Return whether a snapshot of a step is due even if the step is good."""
        return self.active and (self._is_named(step) or self.is_awaited)

    def _is_named(self, step: int) -> bool:
        return bool(self._every and step % self._every == 0) or step in self._at

    def made(self, draw: Draw) -> None:
        """Take a snapshot of a good step if it is due or requested."""
        if not self.active:
            return
        step = self._job.now.step
        if self._is_named(step):
            self._take(SnapshotOrder(reason="step" if step in self._at else BASE), draw)
        if self._orders:
            self._grant(self._orders.popleft(), step, draw)

    def why_too_large(self, size_bytes: float) -> str:
        """Return why a state is too large to store; empty if it is not."""
        if size_bytes > min(self._limit_bytes, spare_bytes()):
            return f"the state is larger than snapshot_mb ({self._limit_bytes / 2**20:g} MB)"
        return ""

    def _grant(self, order: SnapshotOrder, step: int, draw: Draw) -> None:
        if order.reason.startswith("finding"):
            if self._automatic <= 0 or is_onset(self._taken_for):
                return
            self._automatic -= 1
        if order.step is not None and order.step < step:
            note = f"{order.reason} is about step {order.step}, which is no longer in memory"
            order = SnapshotOrder(reason=f"{order.reason} ({note})", request=order.request)
        self._take(order, draw)

    def _take(self, order: SnapshotOrder, draw: Draw) -> None:
        step = self._job.now.step
        if self._taken == step and is_onset(self._taken_for):
            return
        has_room = self._sink is None or self._sink.has_room()
        draft = draw(order) if has_room else STILL_WRITING
        if isinstance(draft, str):
            if self._sink is not None:
                self._sink.refused(order, step, draft)
            return
        self._taken, self._taken_for = draft.step, order.reason
        if self._sink is not None:
            self._sink.put(draft)
        else:
            self._waiting.append(draft)


def digest(value: np.ndarray | np.generic) -> str:
    """Return the digest of an array, in hex."""
    array = np.ascontiguousarray(value)
    data = array.reshape(-1).view(np.uint8)
    return f"{digest_bytes(data, array.dtype.name, np.shape(value)):016x}"
