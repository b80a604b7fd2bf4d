"""Follow one run from outside of its job: evaluate its rules, and run its actions."""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mothtrap.core.actions import lasting
from mothtrap.core.config import Config
from mothtrap.core.errors import StoreError
from mothtrap.core.findings import Finding
from mothtrap.monitor.alerts import Glance, glance
from mothtrap.monitor.catalogue import explains, load_rules
from mothtrap.monitor.deliveries import Deliveries
from mothtrap.monitor.reactions import Reactions
from mothtrap.reader.merging import merge_findings
from mothtrap.reader.run import Run, open_run
from mothtrap.session.monitoring.evaluation import AttemptEvaluation
from mothtrap.session.reacting import CLOSE_S, RunningJob
from mothtrap.store import layout
from mothtrap.store.journal import Journal
from mothtrap.store.leases import Lease
from mothtrap.store.remote_journal import RemoteJournal
from mothtrap.store.run_objects import is_mirror

FIRST_MONITOR = layout.MAX_WORKERS + 1
"""Lowest number of monitors outside of jobs; no worker or launcher has it."""
MOST_MONITORS = 800_000_000


def part_of(config: Config) -> str:
    """Return the name of the set of rules that a configuration selects."""
    chosen = repr((config.select, config.ignore, sorted(map(Path, config.rule_files))))
    return hashlib.sha256(chosen.encode()).hexdigest()[:12]


class Follower:
    """Follows one run until its job has ended; one call to `look` at a time.

    Args:
        place: path or URL of the run.
        config: configuration of the active rules and the actions.
        say: prints one line for the user.
        is_chosen: the user selected rules for this monitor; it then shares the run with monitors of
            other rules, and also follows runs whose job evaluates rules itself.

    Raises:
        RunNotFoundError: there is no such run.
        StoreError: the store cannot be reached.
    """

    def __init__(
        self, place: str, config: Config, say: Callable[[str], None], *, is_chosen: bool = False
    ) -> None:
        self.place = place
        self._config, self._say = config, say
        self._part = part_of(config) if is_chosen else ""
        self._run = open_run(place)
        self.opened_s = time.monotonic()
        self._lease = Lease(self._run.path, self._part or "all")
        self._evaluations: dict[int, AttemptEvaluation] = {}
        self._revisions: dict[int, dict[str, Finding]] = {}
        self._acting: _Acting | None = None
        self.is_done = False
        """True once the job has ended, and everything was evaluated, stored, and sent."""

    @property
    def is_meant(self) -> bool:
        """Return whether this monitor should evaluate the run."""
        return bool(self._part) or self._run.is_evaluated_elsewhere

    @property
    def has_lease(self) -> bool:
        """Return whether this process evaluates the run."""
        return self._lease.is_held

    @property
    def steps(self) -> int:
        """Train steps of the run, as last read."""
        return self._run.steps

    @property
    def attempts(self) -> int:
        """Number of attempts, as last read."""
        return self._run.attempts

    def look(self) -> bool:
        """Evaluate new data and run actions; return whether this process has the lease.

        Raises:
            StoreError: the store cannot be reached, or rejects the request; call again later.
            OSError: results cannot be written; call again later.
        """
        if not self._lease.acquire():
            self._leave()
            return False
        self._run.refresh()
        numbers = layout.attempts(self._run.path)
        has_ended = self._run.state != "running"
        for number in numbers:
            if number not in self._evaluations:
                self._open(number)
        if self._acting is None and self._config.actions:
            self._acting = _Acting(self._run, self._config, self._part, self._say)
            self._act_on_the_past()
        for number, evaluation in self._evaluations.items():
            last = has_ended or number != numbers[-1]
            ended_s = self._run.end.ended_s if last and self._run.end else None
            for revision in evaluation.look(last=last, ended_s=ended_s):
                self._revise(number, revision)
        if self._acting is not None and self._lease.is_held:
            self._acting.look(self._glance())
        if has_ended and not any(each.has_unsent for each in self._evaluations.values()):
            self._finish()
        return True

    def close(self) -> None:
        """Stop following the run, leaving the rest to another monitor."""
        for evaluation in self._evaluations.values():
            with suppress(OSError):
                evaluation.close()
        self._leave()
        with suppress(StoreError):
            self._lease.release()

    def _open(self, number: int) -> None:
        monitor = FIRST_MONITOR + int(self._part or "0", 16) % MOST_MONITORS
        folder = layout.attempt_folder(self._run.path, number)
        counts = lasting(self._config.actions)
        evaluation = AttemptEvaluation(folder, self._config, monitor, counts)
        self._evaluations[number] = evaluation
        self._revisions[number] = {each.fingerprint: each for each in evaluation.past}

    def _act_on_the_past(self) -> None:
        """Process the revisions that an earlier monitor has stored, in the same order.

        So events get the same keys, and unsent messages are sent now. Messages that it reported
        but did not store, because it was killed in between, are in the journal.
        """
        self._revisions = {number: {} for number in self._evaluations}
        stored = {each.fingerprint for e in self._evaluations.values() for each in e.past}
        for event in self._acting.reported if self._acting is not None else ():
            finding = event.finding
            if finding is not None and finding.fingerprint not in stored:
                self._revise(event.attempt, finding)
        for number, evaluation in self._evaluations.items():
            for revision in evaluation.past:
                self._revise(number, revision)

    def _revise(self, number: int, revision: Finding) -> None:
        self._revisions.setdefault(number, {})[revision.fingerprint] = revision
        if self._acting is not None and self._lease.is_held:
            self._acting.look(self._glance())

    def _glance(self) -> Glance:
        """Return the part of the run's state that this monitor evaluates."""
        rules = self._evaluations[max(self._evaluations)].rules
        found = merge_findings(tuple(each.values()) for each in self._revisions.values())
        return dataclasses.replace(glance(self._run, time.time()), findings=found, rules=rules)

    def _finish(self) -> None:
        self._leave()
        with suppress(StoreError):  # it ends by itself
            self._lease.release()
        self.is_done = True

    def _leave(self) -> None:
        if self._acting is not None:
            self._acting.close()
            self._acting = None


class _Acting:
    """Reactions of a configuration to one run."""

    def __init__(self, run: Run, config: Config, part: str, say: Callable[[str], None]) -> None:
        self._job = RunningJob(run)
        kind = RemoteJournal if is_mirror(run.path) else Journal
        self._journal = kind(run.path, part)
        if not self._journal.hold():
            say("mothtrap: actions: another process sends the messages of this run, too")
        entries = self._journal.entries()
        self.reported = [entry.event for entry in entries if entry.event is not None]
        """Events about which an earlier monitor has sent messages, in order."""
        self._deliveries = Deliveries(self._journal, self._job, say)
        known = explains(load_rules(config))
        self._reactions = Reactions(config, known, self._job, self._deliveries, say)
        self._deliveries.resend(self._reactions.senders)

    def look(self, now: Glance) -> None:
        self._job.has_ended = now.state != "running"
        self._reactions.look(now)

    def close(self) -> None:
        self._deliveries.close(CLOSE_S)
        self._journal.close()
