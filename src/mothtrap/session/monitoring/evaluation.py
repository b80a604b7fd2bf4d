"""Evaluate the rules on one attempt of a run while it grows, outside of its job."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from mothtrap.core.config import Config
from mothtrap.core.control_requests import DetailsRequest
from mothtrap.core.errors import ObjectExistsError, StoreError
from mothtrap.core.findings import Finding, Severity, has_passed
from mothtrap.core.quiet import Quiet
from mothtrap.core.records import StepRecord
from mothtrap.core.runs import Evaluated, RuleStatus
from mothtrap.core.steps import Mode
from mothtrap.monitor.afterwards import EVERY, without_numbers
from mothtrap.monitor.catalogue import load_rules, switched_off
from mothtrap.monitor.joined import JoinedWindows, stall_record
from mothtrap.monitor.joined_nodes import JoinedNodes
from mothtrap.monitor.monitor import Monitor
from mothtrap.reader.merging import merge_findings, merge_statuses
from mothtrap.store import control_inbox, layout
from mothtrap.store.finding_log import FindingLog, FindingReader
from mothtrap.store.run_objects import is_mirror, store_of
from mothtrap.store.sealing import is_sealed
from mothtrap.store.stalls import StallReader
from mothtrap.store.worker_reading import ReadState

PENDING_S = 2.0
"""Time after which a few new steps are evaluated; chosen by hand, for steps that take seconds."""
KEEP_EVERY_S = 1.0
"""Seconds between two updates of the rules' stored states without a finding."""
MOST_DETAILED = 8
"""Maximum number of workers whose complete logs one finding requests; chosen by hand."""
ROLL_S = 2.0
"""Interval at which results for an object store are sent."""


class AttemptEvaluation:
    """Evaluates the rules on the records of all workers, and stores findings as they change.

    Results are in one monitor folder of the attempt. A process that takes over evaluates all
    records again, and writes only results that differ from the stored results.

    Args:
        attempt: folder of the attempt.
        config: configuration of the active rules.
        monitor: number of the monitor, the same for every process that evaluates these rules.
        counts: numbers of steps for which a finding must last before an action reacts to it.

    Raises:
        StoreError: the object store of the run cannot be reached, or rejects the request.
    """

    def __init__(
        self, attempt: Path, config: Config, monitor: int, counts: Collection[int] = ()
    ) -> None:
        self._attempt, self._config = attempt, config
        self._rules, self._counts = load_rules(config), counts
        self._alone = [rule for rule in self._rules if not rule.compares]
        self._windows = JoinedWindows()
        self._quiet = Quiet.of(config)
        comparing = [rule for rule in self._rules if rule.compares]
        self._joined = Monitor(comparing, builder=self._windows, quiet=self._quiet, every=1)
        self._nodes = JoinedNodes(attempt, self._rules, self._quiet)
        self._asked: set[int] = set()
        self._readers: dict[int, ReadState] = {}
        self._stalls: dict[int, StallReader] = {}
        self._monitors: dict[int, Monitor] = {}
        self._folder = layout.monitor_folder(attempt, monitor)
        self._sender = _Sender(attempt.parent, self._folder) if is_mirror(attempt.parent) else None
        if self._sender is not None:
            self._sender.drop_unsent()
        stored = FindingReader(self._folder)
        stored.poll()
        self.past = tuple(stored.findings)
        """Revisions that an earlier monitor has stored, in order."""
        self._stored = {finding.fingerprint: finding for finding in stored.findings}
        self._states = {status.code: status for status in stored.statuses}
        self._evaluated = stored.evaluated
        self._log: FindingLog | None = None
        self._steps = 0
        self._judged_s, self._kept_s = time.monotonic(), float("-inf")
        self._has_new = False
        self.has_unsent = False
        """True while results wait for the object store of the run."""

    @property
    def is_complete(self) -> bool:
        """Return whether the attempt has ended and all of it was evaluated."""
        return self._evaluated is not None and self._evaluated.is_complete

    @property
    def rules(self) -> tuple[RuleStatus, ...]:
        """State of each rule, as stored."""
        return tuple(self._states[code] for code in sorted(self._states))

    def look(self, *, last: bool, ended_s: float | None = None) -> list[Finding]:
        """Evaluate new records, and store changed results.

        Args:
            last: the attempt has ended, and no more data will follow.
            ended_s: Unix time of its end, if known.

        Returns:
            Stored revisions of findings, in order.

        Raises:
            OSError: the results cannot be stored; the next call tries again.
        """
        if self.is_complete:
            if self.has_unsent:
                self._send()
            return []
        grew = self._feed()
        if self._nodes.feed():
            self._nodes.evaluate()
            self._steps = max(self._steps, self._nodes.steps)
            grew = True
        now_s = time.monotonic()
        if last or (self._has_new and now_s - self._judged_s >= PENDING_S):
            self._finish(ended_s if last else None)
            self._judged_s, self._has_new = now_s, False
        elif not grew:
            for monitor in self._all_monitors():
                monitor.idle(time.time())
        return self._keep(last=last)

    def close(self) -> None:
        """Seal the written segments, and send them."""
        self._send(seal=True)

    def _feed(self) -> bool:
        grew = False
        for rank in layout.workers(self._attempt):
            if rank not in self._readers:
                folder = layout.worker_folder(self._attempt, rank)
                self._readers[rank], self._stalls[rank] = ReadState(folder), StallReader(folder)
                self._monitors[rank] = Monitor(self._alone, rank, quiet=self._quiet, every=EVERY)
            for record in self._readers[rank].poll():
                grew = self._has_new = True
                self._monitors[rank].feed(record)
                self._steps = max(self._steps, record.key.step + (record.key.mode is Mode.TRAIN))
                if record.observations and not self._nodes:
                    self._join(rank, without_numbers(record))
            if not self._nodes and (state := self._stalls[rank].poll()) is not None:
                self._join(rank, stall_record(state))
        return grew

    def _join(self, rank: int, facts: StepRecord) -> None:
        self._windows.add(rank, facts)
        self._joined.feed(facts)

    def _all_monitors(self) -> tuple[Monitor, ...]:
        joined = self._nodes.monitors if self._nodes else (self._joined,)
        return (*self._monitors.values(), *joined)

    def _finish(self, ended_s: float | None) -> None:
        for monitor in self._all_monitors():
            monitor.finish()
            if ended_s is not None:
                monitor.idle(ended_s)

    def _keep(self, *, last: bool) -> list[Finding]:
        monitors = self._all_monitors()
        found = merge_findings(monitor.findings for monitor in monitors)
        changed = [finding for finding in found if self._is_news(finding, last=last)]
        now_s = time.monotonic()
        if not (changed or last or now_s - self._kept_s >= KEEP_EVERY_S):
            return []
        self._kept_s = now_s
        statuses = merge_statuses(
            (*(monitor.statuses() for monitor in monitors), switched_off(self._config))
        )
        news = [status for status in statuses if self._states.get(status.code) != status]
        evaluated = Evaluated(steps=self._steps, is_complete=last)
        if changed or news or evaluated != self._evaluated:
            self._append(changed, news, evaluated)
        self._send(seal=last)
        self._ask_for_details(changed)
        return changed

    def _ask_for_details(self, found: Sequence[Finding]) -> None:
        """Ask the launchers for the complete logs of workers with findings."""
        workers = {rank for f in found if f.severity is not Severity.INFO for rank in f.workers}
        wanted = sorted(workers - self._readers.keys() - self._asked)[:MOST_DETAILED]
        if not self._nodes or not wanted:
            return
        request = DetailsRequest(
            id=control_inbox.new_id(), attempt=int(self._attempt.name), workers=tuple(wanted)
        )
        with suppress(StoreError, OSError):  # the findings exist without these logs
            control_inbox.send(self._attempt.parent, request)
            self._asked.update(wanted)

    def _append(
        self, changed: Sequence[Finding], news: Sequence[RuleStatus], evaluated: Evaluated
    ) -> None:
        if self._log is None:
            roll_s = ROLL_S if self._sender is not None else None
            self._log = FindingLog(self._folder, roll_s=roll_s)
        self._log.append(changed, news, evaluated)
        self._stored |= {finding.fingerprint: finding for finding in changed}
        self._states |= {status.code: status for status in news}
        self._evaluated = evaluated

    def _send(self, *, seal: bool = False) -> None:
        if self._log is not None:
            if seal:
                self._log.close()
            self._log.tend()
        if self._sender is not None:
            try:
                self._sender.send()
            except StoreError:  # sent later, because findings do not depend on it
                self.has_unsent = True
            else:
                self.has_unsent = False

    def _is_news(self, finding: Finding, *, last: bool) -> bool:
        """Return whether a revision is stored; growth alone counts only if it doubles."""
        old = self._stored.get(finding.fingerprint)
        if old is None or (old.severity, has_passed(old)) != (
            finding.severity,
            has_passed(finding),
        ):
            return True
        if last:
            return old != finding
        reached = any(old.count < count <= finding.count for count in self._counts)
        return reached or finding.count >= 2 * max(1, old.count)


class _Sender:
    """Sends the sealed segments of a monitor to the object store of the run, in order."""

    def __init__(self, run: Path, folder: Path) -> None:
        self._store = store_of(run)
        self._folder, self._key = folder, folder.relative_to(run).as_posix()
        self._next: int | None = None

    def drop_unsent(self) -> None:
        """Remove segments that a killed monitor of this machine never sent.

        Raises:
            StoreError: the store cannot be reached, or rejects the request.
        """
        sent = self._sent()
        for number in layout.segments(self._folder, "findings"):
            if number not in sent:
                layout.segment_path(self._folder, "findings", number).unlink()

    def send(self) -> None:
        """Send sealed segments; raises `StoreError`, after which it must be called again."""
        known = layout.segments(self._folder, "findings")
        if self._next is None:
            self._next = max(self._sent(), default=-1) + 1
        for number in known:
            path = layout.segment_path(self._folder, "findings", number)
            if number >= self._next:
                if not (number < known[-1] or is_sealed(path)):
                    return
                with suppress(ObjectExistsError):  # the answer to an earlier attempt was lost
                    self._store.put_if_absent(f"{self._key}/{path.name}", path)
                self._next = number + 1

    def _sent(self) -> set[int]:
        names = [info.key.rpartition("/")[2] for info in self._store.list(self._key)]
        return {int(name[len("findings-") : -len(".arrow")]) for name in names}
