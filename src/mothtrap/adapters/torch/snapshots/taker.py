"""Takes snapshots: combines the state, the recorded steps, and the reference values.

This happens just before an optimizer applies a step, when the state is still the one before the
step: at the onset of an unsound step, or if a snapshot was requested.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from torch.optim import Optimizer

from mothtrap.adapters.torch.snapshots.reference_digests import StepDigests
from mothtrap.adapters.torch.snapshots.state import StateTaker
from mothtrap.core.snapshot_orders import SnapshotDraft, SnapshotOrder, SnapshotSink, StateCopy
from mothtrap.core.snapshots import BASE, KeptStep, ReferenceDigests
from mothtrap.snapshot.retention import is_onset
from mothtrap.snapshot.spare_memory import spare_bytes

if TYPE_CHECKING:
    from mothtrap.adapters.torch.optimization.optimizers import Known
    from mothtrap.adapters.torch.snapshots.parts import Parts

MAX_ORDERS = 16
"""Maximum number of requests that wait for a step; further requests are rejected."""
HALF_SEEN = (
    "it was not watched from its beginning, because the steps are too short to watch every one "
    "within the budget; `overhead = 0` watches every step"
)
STILL_WRITING = "earlier snapshots are still being written"
MAX_CARRIED = 8
"""Maximum number of earlier steps that are added because inputs have graphs of the previous step.
"""


class TorchSnapshotTaker:
    """Takes snapshots for a job's observers, on the training thread.

    Attributes:
        truth: results of the step in progress.
    """

    def __init__(self, tracer: Parts) -> None:
        config = tracer.config
        self.active = config.snapshots > 0 and config.ring_mb > 0 and config.capture != "off"
        self.truth = StepDigests(tracer.optimizers, remembers=config.snapshot_every > 0)
        self._tracer = tracer
        self._every, self._at = config.snapshot_every, frozenset(config.snapshot_at)
        self._limit_bytes = config.snapshot_mb * 2**20
        self._automatic = self._most = 2 * config.snapshots
        self._taker = StateTaker(tracer.known, keeps_memory=config.snapshot_every > 0)
        self._orders: deque[SnapshotOrder] = deque()
        self._ended = False
        self._sink: SnapshotSink | None = None
        self._waiting: list[SnapshotDraft] = []
        self._joined: list[weakref.ref[Optimizer]] = []
        self._joined_step = self._begun = self._applied = self._taken = -1
        self._taken_for = ""

    @property
    def awaited(self) -> bool:
        """Return whether a snapshot is requested."""
        return bool(self._orders)

    # Requests from other threads

    def order(self, order: SnapshotOrder) -> bool:
        """Request a snapshot as soon as possible; return False if too many already wait.

        May be called on any thread.
        """
        if not self.active or len(self._orders) >= MAX_ORDERS:
            return False
        if self._ended:
            self._tracer.contain_part("snapshots", self._grant_afterwards, order)
            return True
        self._orders.append(order)
        return True

    def connect(self, sink: SnapshotSink) -> None:
        """Start delivering snapshots, beginning with those already taken."""
        self._sink = sink
        waiting, self._waiting = self._waiting, []
        for taken in waiting:
            sink.put(taken)

    # Events of the observers

    def joined(self, _: Known, optimizer: Optimizer) -> None:
        """Handle an optimizer about to step, or a closure that has computed gradients."""
        step = self._tracer.grouper.step
        if self._joined_step != step:
            self._joined_step = step
            self._joined.clear()
        elif any(other() is optimizer for other in self._joined):
            self._applied = step  # by a closure that is called again
            return
        self._joined.append(weakref.ref(optimizer))

    def applied(self, *_: Any) -> None:
        """Handle the end of an optimizer step, or its omission by a scaler."""
        self._applied = self._tracer.grouper.step

    def take(self, reason: str) -> None:
        """Take a snapshot at the onset of a bad step, before any part of it is applied."""
        if self.active:
            self._take_onset(SnapshotOrder(reason=f"unsound step: {reason}"))

    def fulfil(self, *_: Any) -> None:
        """Take due or requested snapshots before any part of the step is applied."""
        step = self._tracer.grouper.step
        if not self.active or self._begun == step or self._applied == step:
            return
        self._begun = step
        due = (self._every and step % self._every == 0) or step in self._at
        if due and self._taken != step:
            self._scheduled(step)
        if self._orders and self._has_room(self._orders[0]):
            self._grant(self._orders.popleft(), step)

    def ended(self, error: BaseException | None) -> None:
        """Handle the end of the job; `error` is the uncaught exception that ended the script."""
        if not self.active:
            return
        if isinstance(error, Exception) and self._tracer.recording.has_begun():
            text = f"{type(error).__name__}: {error}"
            self._take_onset(
                SnapshotOrder(reason="exception"), self.truth.report((), exception=text)
            )
        self._ended = True
        while self._orders:
            self._grant_afterwards(self._orders.popleft())

    # Details

    def _scheduled(self, step: int) -> None:
        order = SnapshotOrder(reason="step" if step in self._at else BASE)
        if self._has_room(order):
            self._take_now(order)
        else:
            self._refuse(order, STILL_WRITING)

    def _take_onset(self, order: SnapshotOrder, truth: ReferenceDigests | None = None) -> None:
        """Take a permanent snapshot of the step in progress, whatever it was taken for before."""
        again = self._taken == self._tracer.grouper.step
        if again and is_onset(self._taken_for):
            return
        if self._automatic <= 0:
            self._report_of_most(order)
        elif not (again or self._has_room(order)):
            self._refuse(order, STILL_WRITING)
        else:
            self._automatic -= 1
            self._take_now(order, truth=truth, has_state=again)

    def _grant(self, order: SnapshotOrder, step: int) -> None:
        if order.reason.startswith("finding"):
            if self._automatic <= 0 or self._is_kept(order.step):
                return
            if self._tracer.guard.unsound_step == step:  # its onset is already stored
                return
            self._automatic -= 1
        if order.step is None or order.step >= step:
            if self._taken == step:  # that snapshot was not taken for this request
                self._orders.append(order)
            else:
                self._take_now(order)
        elif not self._from_base(order, order.step):
            self._take_late(order, order.step, step)

    def _grant_afterwards(self, order: SnapshotOrder) -> None:
        """Take a snapshot of an earlier step at the end, when rules run for the last time."""
        step, now = order.step, self._tracer.grouper.step
        if order.reason.startswith("finding") and self._is_kept(step):
            return
        if step is None or self._tracer.recording.kept(step) is None:
            self._refuse(order, "the job ended before the next step")
            return
        worth = not self._is_kept(step) and self._tracer.guard.unsound_step < now - 1
        if worth and self._automatic > 0 and self._has_room(order):
            self._automatic -= 1
            if not self._from_base(order, step):
                self._take_late(order, step, now)

    def _report_of_most(self, order: SnapshotOrder) -> None:
        """Report once that the maximum number of automatic snapshots was taken."""
        if self._most:
            why = (
                f"this job already took the maximum of {self._most} automatic snapshots (2 x "
                "snapshots)"
            )
            self._refuse(order, f"{why}; no further snapshots are taken")
        self._most = 0

    def _is_kept(self, step: int | None) -> bool:
        """Return whether a step has the latest snapshot, and it is permanent."""
        return step == self._taken and self._taken_for != BASE

    def _take_now(
        self,
        order: SnapshotOrder,
        *,
        truth: ReferenceDigests | None = None,
        has_state: bool = False,
    ) -> None:
        """Take a snapshot of the step in progress.

        Args:
            order: order for which it is taken.
            truth: result of the step, if it is not computed as usual.
            has_state: its state was already copied and passed on.
        """
        tracer = self._tracer
        if not tracer.recording.whole:
            self._refuse(order, HALF_SEEN)
            return
        current = tracer.recording.current()
        step = current.recorded.step
        state = None if has_state else self._state(order, fed=tracer.recording.has_forward())
        if state is None and not has_state:
            return
        self._taken, self._taken_for = step, order.reason
        note = ""
        if self._applied == step and not has_state:
            note = "taken while the step was being applied: part of the state may be from after it"
        elif tracer.in_backward:
            note = (
                "optimizers step inside the backward pass, so only gradients up to there are "
                "recorded"
            )
        if truth is None and order.reason != BASE:
            alive = [optimizer() for optimizer in self._joined if self._joined_step == step]
            truth = self.truth.report(o for o in alive if o is not None)
        steps = (*self._carried(current), current)
        self._put(
            SnapshotDraft(
                order=order,
                step=step,
                state_step=step,
                note=note,
                steps=steps,
                truth=truth,
                state=state,
            )
        )

    def _from_base(self, order: SnapshotOrder, step: int) -> bool:
        """Take an exact snapshot of an earlier step: state of the base, and all steps after it."""
        bases = self._sink.base_steps if self._sink is not None else ()
        base = max((base for base in bases if base <= step), default=None)
        if base is None:
            return False
        found = [self._tracer.recording.kept(number) for number in range(base, step + 1)]
        steps = tuple(kept for kept in found if kept is not None)
        if len(steps) < len(found):
            return False
        self._put(
            SnapshotDraft(
                order=order,
                step=step,
                state_step=base,
                note="",
                steps=steps,
                truth=self.truth.told(step),
                state=None,
            )
        )
        return True

    def _take_late(self, order: SnapshotOrder, step: int, now: int) -> None:
        """Take a snapshot of an earlier step with the current state."""
        kept = self._tracer.recording.kept(step)
        if kept is None:
            if self._taken == now:
                return
            note = f"{order.reason} is about step {step}, which is no longer in memory"
            self._take_now(SnapshotOrder(reason=f"{order.reason} ({note})", request=order.request))
            return
        state = self._state(order, fed=self._tracer.recording.has_forward())
        if state is None:
            return
        self._put(
            SnapshotDraft(
                order=order,
                step=step,
                state_step=now,
                note=f"the state is from before step {now}: when step {step} was found "
                "to be bad, its own state was already gone (snapshot_every = N "
                "keeps it)",
                steps=(*self._carried(kept), kept),
                truth=None,
                state=state,
            )
        )

    def _state(self, order: SnapshotOrder, *, fed: bool) -> StateCopy | None:
        """Copy the state; None if it is too large.

        Args:
            order: order for which it is taken.
            fed: a model was called in this step, and may have changed its own state.
        """
        before = self._tracer.recording.before
        earlier = before.earlier() if fed else {}
        attributes = self._tracer.forwards.attributes if fed else None
        taken = self._taker.take(earlier, attributes, self._limit_bytes, spare_bytes)
        if taken is None:
            spare = spare_bytes() + self._taker.held_bytes
            most = f"snapshot_mb ({self._limit_bytes / 2**20:g} MB)"
            if spare < self._limit_bytes:
                most = (
                    f"the share of the free memory that a copy may use ({spare / 2**20:,.0f} MB: "
                    "half, shared by the workers of this machine)"
                )
            self._refuse(order, f"weights and optimizer state are larger than {most}")
            return None
        lost = (*before.lost(), *attributes.lost()) if attributes is not None else ()
        return dataclasses.replace(taken, missing=(*taken.missing, *lost, *self._unzeroed()))

    def _unzeroed(self) -> list[str]:
        """Return the optimizers whose gradients were left over from an earlier step."""
        return [
            f"gradients of {known.name} from before the step: they were not zeroed"
            for known, _ in self._tracer.optimizers.alive()
            if known.steps and known.backward and not known.clean
        ]

    def _carried(self, kept: KeptStep) -> list[KeptStep]:
        """Return the earlier steps whose graphs the inputs of a step have, oldest first."""
        found: list[KeptStep] = []
        while kept.recorded.carried and len(found) < MAX_CARRIED:
            before = self._tracer.recording.kept(kept.recorded.step - 1)
            if before is None:
                break
            found.insert(0, before)
            kept = before
        return found

    def _has_room(self, order: SnapshotOrder) -> bool:
        """Return whether there is room for another snapshot.

        Precautionary snapshots leave room for an onset.
        """
        if self._sink is None:
            return not self._waiting
        return self._sink.has_room(spare=int(order.reason == BASE))

    def _put(self, taken: SnapshotDraft) -> None:
        if self._sink is not None:
            self._sink.put(taken)
        else:
            self._waiting.append(taken)

    def _refuse(self, order: SnapshotOrder, why: str) -> None:
        if self._sink is not None:
            self._sink.refused(order, self._tracer.grouper.step, why)
