"""Follow a run from the launcher's process, and run actions for its events."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from mothtrap.capture.containment import Containment
from mothtrap.core.collections import Collection
from mothtrap.core.config import Config
from mothtrap.core.control_requests import CallRequest, CaptureRequest, SnapshotRequest, StopRequest
from mothtrap.core.errors import ActionError
from mothtrap.core.events import Event
from mothtrap.core.facts.guards import TrainingStopped
from mothtrap.monitor.alerts import glance
from mothtrap.monitor.catalogue import explains, load_rules
from mothtrap.monitor.deliveries import Deliveries
from mothtrap.monitor.reactions import Reactions
from mothtrap.reader.run import Run, open_run
from mothtrap.session.control_client import common_step
from mothtrap.store import control_inbox, layout
from mothtrap.store.journal import Journal

LOOK_EVERY_S = 0.5
"""Interval between reads of the run; chosen by hand."""
CLOSE_S = 10.0
"""Time for which messages are still retried after the job has ended; chosen by hand."""
NO_ANSWER_S, NO_END_S = 120.0, 600.0
"""Time for a job to reach the step at which it stops, and time to save and end after that, before
it receives SIGTERM. After the same time again, it receives SIGKILL. Chosen by hand: checkpoints
take minutes.
"""


class RunningJob:
    """One run's job, as actions use it; requests go through its control files.

    Args:
        run: the followed run.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.path: Path = run.path
        self.stop_asked_s: float | None = None
        self.has_ended = False

    @property
    def is_running(self) -> bool:
        """Return whether the job still trains."""
        return not self.has_ended and self._run.state == "running"

    def stop(self, reason: str, prunes: Literal["", "optuna", "ray"] = "") -> bool:
        """Stop the job at a step that all ranks agree on; once per job."""
        if self.stop_asked_s is not None and not prunes:
            return False
        if not prunes:
            self.stop_asked_s = time.monotonic()
        self._ask(
            StopRequest(
                id=control_inbox.new_id(), attempt=self._attempt, reason=reason, prunes=prunes
            )
        )
        return True

    def snapshot(self) -> None:
        """Request a snapshot of the next step."""
        self._ask(SnapshotRequest(id=control_inbox.new_id(), attempt=self._attempt))

    def capture(self, add: Mapping[str, Collection], for_steps: int | None) -> None:
        """Capture more data from the next step on."""
        self._ask(
            CaptureRequest(
                id=control_inbox.new_id(),
                attempt=self._attempt,
                add=dict(add),
                for_steps=for_steps,
                from_step=common_step(self._run),
            )
        )

    def call(self, function: str, event: Event) -> None:
        """Call a configured function in the job, between two steps."""
        self._ask(
            CallRequest(
                id=control_inbox.new_id(), attempt=self._attempt, function=function, event=event
            )
        )

    @property
    def _attempt(self) -> int:
        return layout.attempts(self.path)[-1]

    def _ask(self, request: CaptureRequest | SnapshotRequest | StopRequest | CallRequest) -> None:
        try:
            control_inbox.send(self.path, request)
        except OSError as err:
            raise ActionError(f"the request cannot be written ({err.strerror or err})") from err


class Executor:
    """Runs the actions of one job on its own thread until the job has ended.

    It is started before the job and closed after it, even if the job crashes. Failures in it are
    reported once, and the job continues.

    Args:
        attempt: the folder of the attempt that this process opened.
        config: configuration of the actions.
        say: prints one line for the user.
        pid: returns the process to end with signals if a stop has no effect; None = no such
            process.
    """

    def __init__(
        self,
        attempt: Path,
        config: Config,
        say: Callable[[str], None],
        pid: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._attempt, self._config, self._say, self._pid = attempt, config, say, pid
        self._ended = threading.Event()
        self._containment = Containment(say)
        self._parts: tuple[Run, RunningJob, Journal, Deliveries, Reactions] | None = None
        self._signalled = 0
        self._thread = threading.Thread(target=self._watch, name="mothtrap actions", daemon=True)
        self._thread.start()

    @property
    def was_killed(self) -> bool:
        """Return whether a signal had to end the job because it ignored a stop request."""
        return self._signalled > 0

    def close(self) -> None:
        """Process the last events after the job has ended, and send the remaining messages."""
        self._ended.set()
        self._thread.join()
        self._contained(self._look)
        self._contained(self._close)

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            self._contained(self._look)

    def _contained(self, act: Callable[[], None]) -> None:
        if self._containment.is_off("actions"):
            return
        try:
            act()
        except Exception as err:  # errors here must not affect the job
            self._containment.report("actions", err)

    def _open(self) -> tuple[Run, RunningJob, Journal, Deliveries, Reactions]:
        run = open_run(self._attempt.parent)
        job, journal = RunningJob(run), Journal(run.path)
        try:
            if not journal.hold():
                self._say("mothtrap: actions: another process sends the messages of this run, too")
        except OSError as err:
            self._say(f"mothtrap: actions: cannot record which messages were sent ({err.strerror})")
        deliveries = Deliveries(journal, job, self._say)
        reactions = Reactions(
            self._config, explains(load_rules(self._config)), job, deliveries, self._say
        )
        deliveries.resend(reactions.senders)
        first = layout.FIRST_ATTEMPT
        if int(self._attempt.name) > first:  # reported now, although the reaction was earlier
            reactions.look(glance(run, time.time()), acts=False)
        return run, job, journal, deliveries, reactions

    def _look(self) -> None:
        if self._parts is None:
            self._parts = self._open()
        run, job, _, _, reactions = self._parts
        job.has_ended = self._ended.is_set()
        run.refresh()
        reactions.look(glance(run, time.time()))
        if job.stop_asked_s is not None and not self._ended.is_set():
            self._enforce(run, time.monotonic() - job.stop_asked_s)

    def _enforce(self, run: Run, since_s: float) -> None:
        """Send signals to a job that ignores a stop request."""
        obeyed = bool(run.observations(TrainingStopped))
        limit_s = (NO_END_S if obeyed else NO_ANSWER_S) * (1 + self._signalled)
        pid = self._pid()
        if pid is None or since_s < limit_s or self._signalled > 1:
            return
        number = (signal.SIGTERM, signal.SIGKILL)[self._signalled]
        self._signalled += 1
        self._say(f"mothtrap: the job did not stop within {limit_s:.0f} s; sent {number.name}")
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return

    def _close(self) -> None:
        if self._parts is None:
            return
        _, _, journal, deliveries, _ = self._parts
        left = deliveries.close(CLOSE_S)
        journal.close()
        if left:
            plural = "s are" if left > 1 else " is"
            self._say(
                f"mothtrap: {left} message{plural} not delivered; to send again: "
                f"mothtrap actions {self._attempt.parent} --send"
            )


def begin(
    attempt: Path,
    config: Config,
    say: Callable[[str], None],
    pid: Callable[[], int | None] = lambda: None,
) -> Executor | None:
    """Start an executor for the actions of a configuration.

    None if there are none, or if a separate monitor runs them.
    """
    here = bool(config.actions) and config.evaluate == "job"
    return Executor(attempt, config, say, pid) if here else None
