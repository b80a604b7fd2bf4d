"""Record of an asserted predict function as a run of kind `serve`.

Shape suffixes: R = rows.
"""

from __future__ import annotations

import atexit
import os
import random
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from mothtrap.behavior.asserted import Broken
from mothtrap.behavior.assertion import Assertion
from mothtrap.behavior.failing_rows import described_rows
from mothtrap.behavior.probe import identity, percent
from mothtrap.capture.containment import say_on_stderr
from mothtrap.core.config import Config
from mothtrap.core.error_texts import in_one_line
from mothtrap.core.findings import ASSERTION, Finding, RuleState, Severity
from mothtrap.core.runs import RuleStatus, RunEnd, RunKind
from mothtrap.core.served import MODE, Served
from mothtrap.store import layout
from mothtrap.store.failing_rows import SAMPLED, FailingLog, FailingRow
from mothtrap.store.finding_log import FindingLog

if TYPE_CHECKING:
    from mothtrap.session.reacting import Executor

FLUSH_S = 1.0
"""Interval between two writes of the counts; chosen by hand. `kill -9` loses the counts since the
last write.
"""
MAX_ROWS_OF_CALL = 20
"""Maximum number of recorded failing rows per call and assertion; chosen by hand."""
WAIT_S = 0.05
"""Seconds that a call waits for a write by another thread; chosen by hand."""
GROWTH = 1.1
"""Factor by which a count must grow for its finding to be written again. Chosen by hand: a billion
failing predictions make 200 revisions.
"""
MAX_TIMES = 5
"""Maximum number of recorded rows per assertion, in multiples of `keep_rows`. Chosen by hand: with
decreasing probability, this is reached after a thousand times as many failing rows.
"""


class NoRecord:
    """Stores nothing, because mothtrap is disabled."""

    def close(self) -> None:
        """Do nothing."""

    def called(self, rows: int, added_s: float, broken: Sequence[Broken], X: Any, y: Any) -> None:
        """Do nothing."""

    def check_failed(self, assertion: Assertion, error: Exception, *, is_off: bool) -> None:
        """Do nothing."""


class _Counts:
    """Counts of one assertion."""

    def __init__(self) -> None:
        self.failing = self.replaced = self.calls = self.kept = self.written = 0
        self.state: RuleState | None = None
        self.error, self.is_off = "", False


class KeptRecord:
    """Writes the record of one process; safe to call from several threads.

    A failing row, and the first finding of an assertion, are written within the call. A thread
    writes the counts once a second, because replacing a file can take tens of milliseconds. A
    process that is forked after the first call begins its own run. A failure here is reported once
    and ends the record; predictions continue.

    Args:
        served: description of the function, with all counts 0.
        assertions: assertions of the function.
        config: settings of the run.
        name: name of the run.
        keep_rows: failing rows to record for each assertion.
        sample_rows: rows to record of all calls.
    """

    def __init__(
        self,
        served: Served,
        assertions: Sequence[Assertion],
        config: Config,
        name: str | None,
        keep_rows: int,
        sample_rows: int = 0,
    ) -> None:
        self._served, self._assertions, self._config = served, tuple(assertions), config
        self._name, self._keep_rows, self._sample_rows = name, keep_rows, sample_rows
        self._begin(os.getpid())

    def _begin(self, pid: int) -> None:
        """Reset everything that belongs to another process."""
        self._pid = pid
        self._counting, self._writing = threading.Lock(), threading.Lock()
        self._counts = {each.code: _Counts() for each in self._assertions}
        self._sampled = _Counts()
        self._calls = self._rows = self._errors = 0
        self._added_s, self._written = 0.0, Served(model="", on_fail="")
        self._run: _ServeRun | None = None
        self._is_off = self._is_closing = False
        self._ended = threading.Event()
        self._random = random.Random(0)  # the user's random generators are not affected

    def called(self, rows: int, added_s: float, broken: Sequence[Broken], X: Any, y: Any) -> None:
        """Count a call, and write pending data."""
        try:
            self._called(rows, added_s, broken, X, y)
        except Exception as err:  # failures here must not affect predictions
            self._fail(err)

    def _called(self, rows: int, added_s: float, broken: Sequence[Broken], X: Any, y: Any) -> None:
        kept: list[FailingRow] = []
        self._notice_fork()
        with self._counting:
            self._calls, self._rows = self._calls + 1, self._rows + rows
            self._added_s += added_s
            if self._sample_rows:
                every_R = np.arange(rows)
                kept += self._chosen(self._sampled, every_R, self._sample_rows, SAMPLED, X, y)
            for each in broken:
                kept += self._count(each, X, y)
        if self._run is None or kept or any(self._is_first(each) for each in broken):
            self._write(kept)

    def _is_first(self, broken: Broken) -> bool:
        return not self._counts[broken.assertion.code].written

    def check_failed(self, assertion: Assertion, error: Exception, *, is_off: bool) -> None:
        """Count an error of a check; report the first error, and an error that disables it."""
        self._notice_fork()
        with self._counting:
            counts = self._counts[assertion.code]
            self._errors += 1
            is_first, counts.is_off = not counts.error, is_off
            counts.error = f"the check raised {in_one_line(error)}"
        if is_first or is_off:
            rest = "is switched off" if is_off else "could not check a prediction"
            say_on_stderr(f"mothtrap: assertion {assertion.name} {rest} ({in_one_line(error)})")

    def _notice_fork(self) -> None:
        """Start over in a forked process, where a lock may be held by a missing thread."""
        if self._pid != os.getpid():
            self._begin(os.getpid())

    def _count(self, broken: Broken, X: Any, y: Any) -> list[FailingRow]:
        """Count failing rows, and return the rows to record."""
        counts, code = self._counts[broken.assertion.code], broken.assertion.code
        if broken.replaced_R is not None:
            counts.replaced += int(broken.replaced_R.sum())
        at = np.flatnonzero(broken.failing_R)
        return self._chosen(counts, at, self._keep_rows, code, X, y)

    def _chosen(
        self, counts: _Counts, at: npt.NDArray[np.int64], keep: int, code: str, X: Any, y: Any
    ) -> list[FailingRow]:
        """Count rows, and return the rows to record: the first rows, then increasingly rare rows.

        Args:
            counts: counts of rows of this kind.
            at: indices of the rows in their call.
            keep: rows to record before their share falls.
            code: code of the assertion that fails, or `SAMPLED`.
            X: rows of the call.
            y: their predictions.
        """
        share = keep / max(counts.failing, 1)
        counts.calls, counts.failing = counts.calls + 1, counts.failing + len(at)
        room = min(MAX_ROWS_OF_CALL, MAX_TIMES * keep - counts.kept)
        taken = [
            row
            for row in at[: max(room, 0)].tolist()
            if share >= 1 or self._random.random() < share
        ]
        if not taken:
            return []
        counts.kept += len(taken)
        now_s = time.time()
        return [
            FailingRow(time_s=now_s, code=code, row=row, prediction=prediction)
            for row, prediction in described_rows(X, y, taken)
        ]

    def _write(self, kept: Sequence[FailingRow] = ()) -> None:
        """Write rows, and new findings and states."""
        if self._is_off or not self._writing.acquire(timeout=WAIT_S):
            return  # another thread waits for a slow disk, so these rows are skipped
        try:
            is_new = self._run is None
            if self._run is None:
                self._run = _ServeRun(self._config, self._name)
                atexit.register(self._close, self._pid)
                threading.Thread(target=self._flush, name="mothtrap serve", daemon=True).start()
            self._run.append(kept, self._findings(), self._statuses())
            if is_new:
                self._run.replace(self._summary())
        except Exception as err:  # failures here must not affect predictions
            self._fail(err)
        finally:
            self._writing.release()

    def _write_counts(self) -> None:
        """Replace the counts if they have changed."""
        self._write()
        try:
            summary = self._summary()
            if self._run is not None and summary != self._written and not self._is_off:
                self._run.replace(summary)
                self._written = summary
        except Exception as err:  # failures here must not affect predictions
            self._fail(err)

    def _fail(self, error: Exception) -> None:
        """End the record, and report it once."""
        if not self._is_off:
            self._is_off = True
            say_on_stderr(
                f"mothtrap: failing predictions are no longer recorded ({in_one_line(error)})"
            )

    def _flush(self) -> None:
        """Write the counts once a second, on its own thread."""
        ended = self._ended
        while not ended.wait(FLUSH_S):
            self._write_counts()

    def close(self) -> None:
        """Write the last counts, and end the run."""
        self._close(os.getpid())

    def _close(self, pid: int) -> None:
        if pid != self._pid or self._run is None or self._is_closing:
            return
        self._is_closing = True
        self._ended.set()
        self._write_counts()
        self._is_off = True
        with suppress(OSError):
            self._run.close()

    def _summary(self) -> Served:
        counts = self._counts.values()
        return msgspec.structs.replace(
            self._served,
            calls=self._calls,
            rows=self._rows,
            failing=sum(each.failing for each in counts),
            replaced=sum(each.replaced for each in counts),
            kept=sum(each.kept for each in counts),
            errors=self._errors,
            added_s=round(self._added_s, 6),
        )

    def _findings(self) -> list[Finding]:
        """Return a revision of each finding whose counts have grown by 10 %."""
        found = []
        for assertion in self._assertions:
            counts = self._counts[assertion.code]
            if counts.failing > GROWTH * counts.written or (self._is_closing and counts.failing):
                counts.written = counts.failing
                found.append(_finding(assertion, counts, self._rows))
        return found

    def _statuses(self) -> list[RuleStatus]:
        """Return the state of each assertion whose state has changed."""
        found = []
        for assertion in self._assertions:
            counts = self._counts[assertion.code]
            state = _state(assertion, counts)
            if state is not counts.state:
                counts.state = state
                reason = counts.error if state is RuleState.RULE_FAILED else ""
                name = assertion.name
                found.append(RuleStatus(code=assertion.code, name=name, state=state, reason=reason))
        return found


def _state(assertion: Assertion, counts: _Counts) -> RuleState:
    if counts.is_off:
        return RuleState.RULE_FAILED
    if counts.failing and assertion.severity is not Severity.INFO:
        return RuleState(assertion.severity.value)
    return RuleState.OK


class _ServeRun:
    """Files of one serve run."""

    def __init__(self, config: Config, name: str | None) -> None:
        from mothtrap.session import launch, reacting

        self._attempt = launch.create(
            name or f"serve-{time.strftime('%Y%m%d-%H%M%S')}",
            sys.argv,
            config,
            numbered=True,
            kind=RunKind.SERVE,
        )
        folder = layout.monitor_folder(self._attempt, 0)
        self._findings, self._rows = FindingLog(folder), FailingLog(folder)
        self._executor: Executor | None = reacting.begin(self._attempt, config, say_on_stderr)

    @property
    def path(self) -> Path:
        """Folder of the run."""
        return self._attempt.parent

    def append(
        self,
        rows: Sequence[FailingRow],
        findings: Sequence[Finding],
        statuses: Sequence[RuleStatus],
    ) -> None:
        """Append rows, findings, and states of assertions; raises OSError."""
        if rows:
            self._rows.append(rows)
        self._findings.append(findings, statuses)

    def replace(self, served: Served) -> None:
        """Rewrite the counts; raises OSError."""
        layout.write_served(self._attempt, served)

    def close(self) -> None:
        """Seal the files, run the last actions, and write the end; raises OSError."""
        self._rows.close()
        self._findings.close()
        layout.write_end(self._attempt, RunEnd(exit_code=0, ended_s=time.time()))
        if self._executor is not None:
            self._executor.close()


def _finding(assertion: Assertion, counts: _Counts, rows: int) -> Finding:
    share = counts.failing / max(rows, 1)
    text = (
        f"{counts.failing:,} of {rows:,} predictions ({percent(share, 2)}) break the assertion"
        f" {assertion.name}"
    )
    if counts.replaced:
        text += f"; {counts.replaced:,} of them were replaced"
    return Finding(
        code=assertion.code,
        name=assertion.name,
        severity=assertion.severity,
        step=0,
        detected_step=0,
        last_step=0,
        count=counts.calls,
        mode=MODE,
        message=text,
        evidence={
            ASSERTION: assertion.name,
            "n": rows,
            "failing": counts.failing,
            "rate": share,
            "replaced": counts.replaced,
            "kept": counts.kept,
        },
        why=assertion.why,
        fixes=assertion.fixes,
        fingerprint=identity(assertion.code, assertion.name),
    )
