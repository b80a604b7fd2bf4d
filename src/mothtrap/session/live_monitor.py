"""Evaluate rules in the background, and report and store their findings."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from mothtrap.core.findings import Finding, Severity
from mothtrap.core.records import StepRecord
from mothtrap.core.runs import RuleStatus
from mothtrap.monitor.joined import stall_record
from mothtrap.monitor.monitor import Monitor
from mothtrap.report.live_line import live_line
from mothtrap.report.style import Style
from mothtrap.store.durability import Durability
from mothtrap.store.stalls import StallReader

LOOK_EVERY_S = 1.0
"""Seconds between two evaluations of rules about waiting, while no step ends."""

REVISE_EVERY_S = 60.0
"""Interval at which a lasting finding is stored again; chosen by hand: one line a minute."""

KEEP_EVERY_S = 1.0
"""Seconds between two updates of the rules' stored states without a finding."""


class LiveMonitor:
    """Evaluates the rules on incoming records; reports and stores findings.

    Args:
        monitor: the rules.
        say: prints one line for the user; None = print nothing.
        on_error: called at the end with the reason why findings could not be stored; until then,
            storing is retried with the next findings.
        on_finding: called with each finding that is new or has become worse.
        counts: numbers of captured steps for which a finding must last before an action reacts to
            it.
    """

    def __init__(
        self,
        monitor: Monitor,
        say: Callable[[str], None] | None,
        on_error: Callable[[OSError], None],
        on_finding: Callable[[Finding], None] = lambda _: None,
        counts: Collection[int] = (),
    ) -> None:
        self._monitor, self._say, self._on_error = monitor, say, on_error
        self._on_finding, self._counts = on_finding, counts
        self._revised_s = time.monotonic()
        self._unsaved: list[Finding] = []
        self._trouble: OSError | None = None
        self._log: Any = None
        self._said: dict[str, Severity] = {}
        self._failures = 0
        self._kept: dict[str, RuleStatus] = {}
        self._kept_s = -KEEP_EVERY_S
        self._looked_s = time.time()
        self._stalls: StallReader | None = None

    def keep_in(
        self,
        attempt: Path,
        rank: int,
        durability: Durability = "crash",
        roll_s: float | None = None,
    ) -> None:
        """Store findings and the states of rules next to the worker's record."""
        from mothtrap.store.finding_log import FindingLog
        from mothtrap.store.layout import monitor_folder, worker_folder

        self._stalls = StallReader(worker_folder(attempt, rank))
        folder = monitor_folder(attempt, rank)
        folder.mkdir(exist_ok=True)
        self._log = FindingLog(folder, durability=durability, roll_s=roll_s)

    def consume(self, records: Sequence[StepRecord]) -> None:
        """Evaluate some records."""
        for record in records:
            self._report(self._monitor.feed(record))
        self._keep_grown()

    def tend(self) -> None:
        """Evaluate waiting rules, and send stored findings; called while no record arrives."""
        now_s = time.time()
        if now_s - self._looked_s >= LOOK_EVERY_S:
            self._looked_s = now_s
            state = self._stalls.poll() if self._stalls is not None else None
            if state is not None:
                self._report(self._monitor.feed(stall_record(state)))
            self._report(self._monitor.idle(now_s))
        if self._log is not None:
            try:
                self._log.tend()
            except OSError as err:
                self._trouble = err

    def close(self) -> None:
        """Evaluate for the last time."""
        self._report(self._monitor.finish(), last=True)
        if self._trouble is None and self._log is not None:
            try:
                self._log.close()
            except OSError as err:
                self._trouble = err
        if self._trouble is not None:
            self._on_error(self._trouble)

    def _keep_grown(self) -> None:
        """Store that findings last: when their step counts double, and once a minute."""
        if self._log is not None:
            now_s = time.monotonic()
            is_time = now_s - self._revised_s >= REVISE_EVERY_S
            grown = self._monitor.grown(self._counts, all_changed=is_time)
            if is_time:
                self._revised_s = now_s
            if grown:
                self._unsaved += grown
                self._keep()

    def _report(self, findings: Sequence[Finding], *, last: bool = False) -> None:
        for finding in findings:
            self._on_finding(finding)
            said = self._said.get(finding.fingerprint)
            if self._say is not None and (said is None or finding.severity.rank < said.rank):
                self._said[finding.fingerprint] = finding.severity
                self._say(live_line(finding, Style.of(sys.stderr)))
        for failure in self._monitor.failures[self._failures :]:
            self._failures += 1
            if self._say is not None:
                self._say(
                    f"mothtrap: {failure.part} failed and is switched off; training and the other "
                    f"rules continue ({failure.error})"
                )
        if self._log is not None:
            self._unsaved += findings
            now_s = time.monotonic()
            if findings or last or now_s - self._kept_s >= KEEP_EVERY_S:
                self._kept_s = now_s
                self._keep()

    def _keep(self) -> None:
        statuses = [s for s in self._monitor.statuses() if self._kept.get(s.code) != s]
        if not self._unsaved and not statuses:
            return
        try:
            self._log.append(self._unsaved, statuses)
        except OSError as err:  # with a full disk, the rules continue
            self._trouble = err
            return
        self._trouble = None
        self._unsaved.clear()
        self._kept.update({s.code: s for s in statuses})
