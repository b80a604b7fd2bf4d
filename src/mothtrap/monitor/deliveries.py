"""Messages to targets: each is recorded, retried until it is delivered, and confirmed."""

from __future__ import annotations

import hashlib
import heapq
import itertools
import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from mothtrap.core.actions import Action, Job
from mothtrap.core.errors import ActionError, DeliveryError
from mothtrap.core.events import Event
from mothtrap.store.journal import Entry, Journal, unconfirmed

FIRST_WAIT_S, LONGEST_WAIT_S = 2.0, 300.0
"""Pause before a message is retried, which doubles each time, and its maximum; chosen by hand."""


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A message to one target of a reaction."""

    id: str
    reaction: str
    action: str
    sender: Action
    event: Event


def delivery_id(run: str, event: Event, reaction: str, action: str, target: str) -> str:
    """Return the id of a message, which is the same for every attempt and process."""
    parts = (run, event.key, reaction, action, target)
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=16).hexdigest()


class Deliveries:
    """Sends messages, using one thread per target.

    Args:
        journal: journal of the run; if another process holds the journal, nothing is recorded.
        job: the job that the messages are about.
        say: prints one line for the user.
        clock: returns seconds.
    """

    def __init__(
        self,
        journal: Journal,
        job: Job,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._journal, self._job, self._say, self._clock = journal, job, say, clock
        entries = journal.entries()
        self._known = {entry.id for entry in entries}
        self._left = list(unconfirmed(entries))
        self._queues: dict[tuple[str, str, str], _TargetQueue] = {}

    def resend(self, senders: Sequence[tuple[str, str, Action]]) -> int:
        """Resend recorded messages that were never confirmed; return their number.

        Args:
            senders: targets of the configuration, by names of reaction and action.
        """
        known = {(reaction, action, each.target): each for reaction, action, each in senders}
        left, self._left = self._left, []
        for entry in left:
            sender = known.get((entry.reaction, entry.action, entry.target))
            if sender is None or entry.event is None:
                self._left.append(entry)
                continue
            self._put(
                Outgoing(
                    id=entry.id,
                    reaction=entry.reaction,
                    action=entry.action,
                    sender=sender,
                    event=entry.event,
                )
            )
        return len(left) - len(self._left)

    def send(self, reaction: str, action: str, sender: Action, event: Event, run: str) -> None:
        """Record a message and send it, unless it was recorded before."""
        name = delivery_id(run, event, reaction, action, sender.target)
        if name in self._known:
            return
        self._known.add(name)
        self._note(name, "noted", reaction, action, sender.target, event)
        self._put(Outgoing(id=name, reaction=reaction, action=action, sender=sender, event=event))

    def once(self, reaction: str, action: str, target: str, event: Event, run: str) -> bool:
        """Record an action on the job; return False if it was recorded before.

        Unlike a message, an action is not repeated once it is recorded.
        """
        name = delivery_id(run, event, reaction, action, target)
        if name in self._known:
            return False
        self._known.add(name)
        self._note(name, "sent", reaction, action, target)
        return True

    def close(self, timeout_s: float) -> int:
        """Wait for pending messages; return the number of undelivered ones.

        Remaining messages stay in the journal, and the next process that opens the journal sends
        them again.
        """
        until_s = self._clock() + timeout_s
        for queue in self._queues.values():
            queue.close(until_s)
        return sum(queue.left for queue in self._queues.values())

    def _put(self, item: Outgoing) -> None:
        key = (item.reaction, item.action, item.sender.target)
        if key not in self._queues:
            self._queues[key] = _TargetQueue(self._deliver, self._clock, item.sender.label)
        self._queues[key].put(item)

    def _deliver(self, item: Outgoing) -> bool:
        """Try to deliver a message; return whether it needs no further attempt."""
        try:
            item.sender.run(item.event, self._job, item.id)
        except DeliveryError:
            return False
        except ActionError as err:
            self._note(item.id, "failed", why=str(err))
            self._say(f"mothtrap: {item.sender.label} ({item.reaction}) failed: {err}")
            return True
        except Exception as err:  # its text may contain a secret
            self._note(item.id, "failed", why=type(err).__name__)
            self._say(f"mothtrap: {item.sender.label} failed with {type(err).__name__}")
            return True
        self._note(item.id, "sent")
        return True

    def _note(
        self,
        name: str,
        state: str,
        reaction: str = "",
        action: str = "",
        target: str = "",
        event: Event | None = None,
        why: str = "",
    ) -> None:
        fields = {"reaction": reaction, "action": action, "target": target, "why": why}
        entry = Entry(id=name, state=state, time_s=time.time(), event=event, **fields)  # type: ignore[arg-type]
        try:
            self._journal.note(entry)
        except OSError:
            return  # delivering a message matters more than recording it


class _TargetQueue:
    """Messages to one target, in order; a message that cannot be delivered yet waits."""

    def __init__(
        self, deliver: Callable[[Outgoing], bool], clock: Callable[[], float], label: str
    ) -> None:
        self._deliver, self._clock = deliver, clock
        self._due: list[tuple[float, int, float, Outgoing]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._until_s: float | None = None
        self.left = 0
        self._thread = threading.Thread(target=self._run, name=f"mothtrap {label}", daemon=True)
        self._thread.start()

    def put(self, item: Outgoing) -> None:
        """Queue a message, and return immediately."""
        with self._changed:
            self.left += 1
            heapq.heappush(self._due, (self._clock(), next(self._numbers), FIRST_WAIT_S, item))
            self._changed.notify()

    def close(self, until_s: float) -> None:
        """Send the remaining messages until a deadline, starting immediately with the oldest."""
        with self._changed:
            self._until_s = until_s
            self._due = [(self._clock(), n, FIRST_WAIT_S, item) for _, n, _, item in self._due]
            heapq.heapify(self._due)
            self._changed.notify()
        self._thread.join(max(0.0, until_s - self._clock()) + 0.5)

    def _run(self) -> None:
        while (item := self._next()) is not None:
            number, wait_s, message = item
            if self._deliver(message):
                with self._changed:
                    self.left -= 1
            else:
                again_s = self._clock() + wait_s
                with self._changed:
                    heapq.heappush(
                        self._due, (again_s, number, min(2 * wait_s, LONGEST_WAIT_S), message)
                    )

    def _next(self) -> tuple[int, float, Outgoing] | None:
        """Wait for the next message that is due; None if the queue is closed."""
        with self._changed:
            while True:
                now_s = self._clock()
                if self._until_s is not None and (not self._due or now_s >= self._until_s):
                    return None
                if self._due and self._due[0][0] <= now_s:
                    _, number, wait_s, message = heapq.heappop(self._due)
                    return number, wait_s, message
                due_s = self._due[0][0] - now_s if self._due else None
                if self._until_s is not None and due_s is not None:
                    due_s = min(due_s, self._until_s - now_s)
                self._changed.wait(due_s)
