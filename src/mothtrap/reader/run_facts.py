"""Facts about a run as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import xxhash

from mothtrap.core import diagnosis, probed, served
from mothtrap.core.collections import Collection
from mothtrap.core.diagnosis import diagnose
from mothtrap.core.errors import DamagedDataError
from mothtrap.core.fact import Fact
from mothtrap.core.facts.captures import (
    Blind,
    CaptureChanged,
    Dropped,
    Thinned,
    ToolError,
    Unwatched,
)
from mothtrap.core.facts.guards import TrainingStopped
from mothtrap.core.facts.looks import AdapterReports
from mothtrap.core.facts.workers import Resumed, WorkerEnded
from mothtrap.core.findings import Findings, RuleState, Severity
from mothtrap.core.installed_rules import explains
from mothtrap.core.ledger import Ledger, Source
from mothtrap.core.masking import without_secrets
from mothtrap.core.probed import Probed
from mothtrap.core.replays import StoredReplay
from mothtrap.core.runs import Overhead, RuleStatus, RunEnd, RunInfo, RunKind, switched_off
from mothtrap.core.served import Served
from mothtrap.reader.files.attempts import State
from mothtrap.reader.files.parts import EVERYTHING, Span
from mothtrap.reader.files.run_files import RunFiles
from mothtrap.reader.merging import (
    join_attempts,
    merge_blind,
    merge_findings,
    merge_statuses,
    merge_thinned,
)
from mothtrap.reader.series.worker_series import scalar_series
from mothtrap.reader.tensors.choosing import collection_of
from mothtrap.reader.worker_states import Workers, workers_of
from mothtrap.store.failing_rows import SAMPLED, FailingRow, read_failing
from mothtrap.store.finding_rows import read_rows
from mothtrap.store.layout import (
    monitor_folder,
    read_ledger,
    read_packages,
    read_source,
    read_source_texts,
)

CHECKED_BYTES = 256 << 20
"""Bytes read to check a run that is opened (about 0.1 s); chosen by hand."""
LISTED_BYTES = 4 << 20
"""Number of bytes read to check each run of a list; chosen by hand: 1 MB takes 3 ms, the rest of a
run 25 ms.
"""
MAX_ERROR = 200
"""Maximum number of characters of an exception in a verdict; chosen by hand: two lines of a
terminal.
"""
SLOWED_SHARE = 0.4
"""Estimated slowdown of a PyTorch script's own code, as a share of the time in hooks, which evict
it from the caches. Measured shares are 0.1 to 0.7: `added` minus `own` in the tables of
`bench/capture.py`. Other frameworks have few hooks between long compiled steps.
"""
NOT_EVALUATED = (
    "Rules were not evaluated: the job was started with --no-rules, and no monitor has followed "
    "it; `mothtrap monitor RUN` evaluates them."
)
FactT = TypeVar("FactT", bound=Fact)


def damage_first(verdict: str, damage: Sequence[str]) -> str:
    """Return a verdict that begins with the damage, if there is any."""
    if not damage:
        return verdict
    parts = "1 part" if len(damage) == 1 else f"{len(damage)} parts"
    return f"The run is damaged ({parts} cannot be read). {verdict}"


class RunFacts:
    """Facts about a run, or about some of its steps.

    Args:
        files: files of the run, which other views of the run may share.
        span: steps to read.
    """

    def __init__(self, files: RunFiles, span: Span) -> None:
        self._files = files
        self._span = span

    def __repr__(self) -> str:
        findings = self.findings
        errors = sum(finding.severity is Severity.ERROR for finding in findings)
        counts = {
            "step": self.steps,
            "worker": len(self.workers),
            "finding": len(findings),
            "error": errors,
        }
        step, worker, finding, error = (
            f"{count} {noun}{'' if count == 1 else 's'}" for noun, count in counts.items()
        )
        return f"<Run {self.id}: {self.state}, {step}, {worker}, {finding} ({error})>"

    @property
    def id(self) -> str:
        """Name of the run, which stays the same if its folder is renamed."""
        return self.info.id if self.info else self._files.path.name

    @property
    def info(self) -> RunInfo | None:
        """Description of the latest attempt as of its start; None if it cannot be read."""
        return self._span.latest.info

    @property
    def kind(self) -> RunKind:
        """Subject of the run: a training job, a check, a probe, or a model that serves."""
        return self.info.kind if self.info else RunKind.TRAIN

    @property
    def end(self) -> RunEnd | None:
        """End of the latest attempt; None while it runs, and for runs of `mothtrap.watch`."""
        return self._span.latest.end

    @property
    def replay(self) -> StoredReplay | None:
        """Result of the replay at the end of the latest attempt; None if there was no replay."""
        return self._span.latest.replay

    @property
    def probed(self) -> Probed | None:
        """Size and cost of a probe run; None for other kinds of runs."""
        return self._span.latest.probed

    @property
    def served(self) -> Served | None:
        """Number of predictions of an asserted function; None for other kinds of runs."""
        return self._span.latest.served

    @property
    def judged_size(self) -> tuple[int, str]:
        """Number of steps, of probed rows, or of served predictions, and the unit."""
        if self.probed is not None:
            return self.probed.judged, probed.UNIT
        if self.served is not None:
            return self.served.rows, served.UNIT
        return self.steps, "step"

    def failing_rows(self, code: str = "") -> list[FailingRow]:
        """Return the recorded rows whose predictions broke an assertion, in the order of time.

        Args:
            code: code of the assertion; by default all.
        """
        found = read_failing(monitor_folder(self._span.latest.path, 0))
        return [each for each in found if each.code != SAMPLED and code in ("", each.code)]

    def served_rows(self) -> list[FailingRow]:
        """Return the recorded sample of all rows of a served model, in the order of time."""
        found = read_failing(monitor_folder(self._span.latest.path, 0))
        return [each for each in found if each.code == SAMPLED]

    def finding_rows(self, fingerprint: str) -> npt.NDArray[np.int64]:
        """Return the indices of the rows that a probe's finding is about, int64, shape (R,)."""
        return read_rows(monitor_folder(self._span.latest.path, 0), fingerprint)

    def ledger(self, worker: int | None = None) -> Ledger | None:
        """Return the recorded settings and versions of a worker's latest attempt; None if unknown.

        Args:
            worker: rank; None means the lowest.

        Raises:
            DamagedDataError: the file is damaged.
        """
        rank = min(self.workers, default=0) if worker is None else worker
        views = self._span.views(rank)
        return read_ledger(views[-1].folder) if views else None

    def packages(self) -> dict[str, str]:
        """Return the package versions of the latest attempt by name; empty if not stored."""
        views = self._span.views(0)
        return read_packages(views[-1].folder) if views else {}

    def source_texts(self) -> dict[str, str]:
        """Return files of the script at the first step of the latest attempt, by path.

        Secrets in them are masked. Large files are not stored, and runs of earlier versions stored
        no files. If the file is damaged, the result is empty, and `damage` reports it.
        """
        views = self._span.views(0)
        try:
            files = read_source_texts(views[-1].folder).files if views else {}
        except DamagedDataError:
            return {}
        return {path: without_secrets(text) for path, text in files.items()}

    @property
    def source(self) -> Source | None:
        """State of the script's repository at the start of the latest attempt; None if unknown.

        Raises:
            DamagedDataError: the file is damaged.
        """
        return read_source(self._span.latest.path)

    @property
    def attempts(self) -> int:
        """Number of attempts."""
        return len(self._span.attempts)

    @property
    def state(self) -> State:
        """`running`, `finished` or `crashed`, as of the last `refresh`."""
        return self._span.latest.state()

    @property
    def cursor(self) -> str:
        """Text that changes whenever `refresh` reads new data."""
        number, latest = max(self._span.attempts), self._span.latest
        records = sum(len(view.commits) for view in latest.workers.values())
        told = [(f.fingerprint, f.severity, f.count, f.last_step) for f in self.findings]
        states = [(rule.code, rule.state) for rule in self.rules]
        judged = xxhash.xxh3_64_hexdigest(repr((told, states)).encode())
        replayed = f"-{latest.replay_changed_ns}" if latest.replay_changed_ns else ""
        return f"{number}-{records}-{judged}-{self.state}{replayed}"

    @property
    def workers(self) -> tuple[int, ...]:
        """Ranks of the workers of all attempts, ascending."""
        return self._span.workers

    @property
    def worker_states(self) -> Workers:
        """State of each worker of the latest attempt."""
        return workers_of(self._span.latest)

    @property
    def steps(self) -> int:
        """Number of train steps over all attempts: the last step's number plus 1."""
        views = (w for a in self._span.attempts.values() for w in a.workers.values())
        return min(max((view.steps for view in views), default=0), self._span.bounds.end)

    @property
    def findings(self) -> Findings:
        """Findings of all workers, joined; the most severe first, then by onset.

        If a job was resumed, the latest attempt decides which findings are still active.
        """
        monitors = [list(a.monitors.values()) for _, a in sorted(self._span.attempts.items())]
        judged = [those for those in monitors if any(one.statuses for one in those)]
        resumed = self.observations(Resumed)
        if len(judged) < 2 or not resumed:
            merged = merge_findings(one.findings for those in monitors for one in those)
        else:
            statuses = merge_statuses(one.statuses for one in judged[-1])
            ok = {status.code for status in statuses if status.state is RuleState.OK}
            merged = join_attempts(
                merge_findings(one.findings for those in judged[:-1] for one in those),
                merge_findings(one.findings for one in judged[-1]),
                ok,
                resumed[-1].step,
            )
        return Findings(finding for finding in merged if finding.step in self._span.bounds)

    @property
    def verdict(self) -> str:
        """Sentence with the worst root cause among the findings, or that nothing was found.

        Damage, switched-off rules, and the exception that ended the job are reported first, if
        there are any.
        """
        off, found = switched_off(self.rules), diagnose(self.findings, explains())
        count, unit = self.judged_size
        text = diagnosis.verdict(found, steps=count, unit=unit, others=bool(off))
        text = f"{off} {text}" if off else text
        if lack := self.unevaluated:
            text = lack if lack == NOT_EVALUATED else f"{lack} {text}"
        if error := self._exception():
            text = f"The job ended with {error}. {text}"
        return damage_first(text, self.damage_within(LISTED_BYTES))

    def _exception(self) -> str:
        """Return the first line of the exception that ended the job, and its location, or ''."""
        ends = [end for end in self.observations(WorkerEnded) if end.exception]
        if self.state != "crashed" or not ends:
            return ""
        error, *_ = str(ends[-1].exception).splitlines()
        place = f" ({ends[-1].location})" if ends[-1].location else ""
        return error[:MAX_ERROR].rstrip(".") + place

    @property
    def rules(self) -> tuple[RuleStatus, ...]:
        """State of each rule, in order of codes; the worst state over all workers."""
        readers = (m for a in self._span.attempts.values() for m in a.monitors.values())
        statuses = merge_statuses(reader.statuses for reader in readers)
        failed = next((error for error in self.tool_errors if error.part == "rules"), None)
        return statuses if failed is None else tuple(_switched_off(statuses, failed))

    @property
    def is_evaluated_elsewhere(self) -> bool:
        """True if rules are evaluated by a monitor instead of the job (`--no-rules`)."""
        info = self.info
        return info is not None and info.config.get("evaluate") == "monitor"

    @property
    def unevaluated(self) -> str:
        """Sentence if a monitor has not evaluated the rules on all steps yet; '' otherwise."""
        if not self.is_evaluated_elsewhere:
            return ""
        monitors = [list(a.monitors.values()) for a in self._span.attempts.values()]
        if not any(one.statuses or one.findings for those in monitors for one in those):
            return NOT_EVALUATED
        outside = [one.evaluated for one in monitors[-1] if one.evaluated is not None]
        if self.state == "running" or (outside and all(each.is_complete for each in outside)):
            return ""
        steps = min((each.steps for each in outside), default=0)
        return (
            f"Rules were evaluated only in the first {steps} of {self.steps} steps: the monitor "
            "was interrupted; `mothtrap monitor RUN` continues."
        )

    @property
    def blind(self) -> tuple[Blind, ...]:
        """Distinct parts of the training that were not observed."""
        return merge_blind(self.observations(Blind))

    @property
    def tool_errors(self) -> tuple[ToolError, ...]:
        """Parts of mothtrap that failed."""
        return tuple(self.observations(ToolError))

    @property
    def stopped_at(self) -> int | None:
        """Step at which the guard or a request stopped the last attempt, or None."""
        return min((stop.step for stop in self._span.latest.stops), default=None)

    @property
    def stop_reason(self) -> str | None:
        """Reason of the request that stopped the last attempt; None without a request."""
        asked = (s for s in self._span.latest.stops if isinstance(s, TrainingStopped))
        return next((stop.reason for stop in asked), None)

    @property
    def dropped(self) -> int:
        """Number of records that were dropped because a queue was full."""
        return sum(dropped.count for dropped in self.observations(Dropped))

    @property
    def overhead(self) -> Overhead:
        """Cost of mothtrap over all workers; estimated from steps if a worker crashed."""
        own_s = capture_s = asked_s = wall_s = start_s = beside_s = close_s = saved_s = 0.0
        gaps, all_ended = self.observations(Unwatched), True
        for rank in self.workers:
            views = self._span.views(rank)
            ends = [view.ended for view in views if view.ended is not None]
            if len(ends) == len(views):
                own_s += sum(end.own_s for end in ends)
                capture_s += sum(end.capture_s for end in ends)
                asked_s += sum(end.asked_s for end in ends)
                wall_s += sum(end.wall_s for end in ends)
                start_s += sum(end.start_s for end in ends)
                beside_s += sum(end.beside_s for end in ends)
                close_s += sum(end.close_s for end in ends)
                saved_s += sum(end.saved_s for end in ends)
            else:
                all_ended = False
                own_s += self._sum(rank, "own_s")
                wall_s += self._sum(rank, "step_s")
        if not all_ended:
            wall_s += sum(gap.seconds for gap in gaps)
        workers, launcher_s = max(1, len(self.workers)), self.end.launcher_s if self.end else 0.0
        limit = self.info.config.get("overhead") if self.info else None
        has_hooks = any(one.adapter == "torch" for one in self.observations(AdapterReports))
        slowed_s = SLOWED_SHARE * (own_s - asked_s) if has_hooks else 0.0
        added_s = own_s - asked_s + slowed_s + start_s + beside_s + close_s
        return Overhead(
            ratio=(own_s - asked_s) / wall_s if wall_s > 0 else 0.0,
            seconds=own_s - asked_s,
            capture_seconds=capture_s - asked_s,
            asked_ratio=asked_s / wall_s if wall_s > 0 else 0.0,
            asked_seconds=asked_s,
            shed=merge_thinned(self.observations(Thinned)),
            budget=limit if isinstance(limit, float) else 0.0,
            unwatched=sum(gap.count for gap in gaps),
            added_seconds=max(0.0, launcher_s + (added_s - saved_s) / workers),
            start_seconds=start_s,
            beside_seconds=beside_s,
            close_seconds=close_s,
            launcher_seconds=launcher_s,
            saved_seconds=saved_s,
            slowed_seconds=slowed_s,
            wall_seconds=wall_s / workers,
        )

    @property
    def collections(self) -> dict[str, Collection]:
        """Collections of the configuration, the script, and `mothtrap capture`, by name.

        If two collections have the same name, the later one counts. Functions in `reductions` are
        given by name. `mothtrap capture RUN --list` prints the collections that are active now.

        Raises:
            ConfigError: a collection is invalid; another version of mothtrap may have written it.
        """
        return {name: collection_of(name, each) for name, each in self._described().items()}

    @property
    def damage(self) -> tuple[str, ...]:
        """One sentence for each stored part of the run that cannot be read.

        Beyond 256 MB, statistics, tensors, snapshots and logged files are checked only when they
        are read.
        """
        return self.damage_within(CHECKED_BYTES)

    def damage_within(self, limit_bytes: int) -> tuple[str, ...]:
        """Return the same sentences as `damage`, checking at most `limit_bytes` bytes."""
        return self._files.damage(limit_bytes)

    def observations(self, kind: type[FactT]) -> tuple[FactT, ...]:
        """Return the observations of one type from all workers, in order of attempt and rank."""
        attempts = self._span.attempts.values()
        views = [view for a in attempts for _, view in sorted(a.workers.items())]
        return tuple(
            o
            for view in views
            for o in view.observations
            if isinstance(o, kind) and o.step in self._span.bounds
        )

    def _described(self) -> dict[str, object]:
        """Return collections by name, as plain values."""
        configured = self.info.config.get("collections") if self.info else None
        found: dict[str, object] = dict(configured) if isinstance(configured, Mapping) else {}
        views = [v for attempt in self._span.attempts.values() for v in attempt.workers.values()]
        facts = [fact for v in views for fact in v.observations]
        changes = [fact for fact in facts if isinstance(fact, CaptureChanged)]
        for change in sorted(changes, key=lambda change: change.step):
            found |= change.added
        return found

    def _sum(self, worker: int, name: str) -> float:
        parts = Span(self._span.attempts, EVERYTHING).parts(worker)
        series = scalar_series(parts, lambda scalar: scalar[0] == name)
        return float(sum(np.sum(s.values_S) for s in series))


def _switched_off(statuses: Iterable[RuleStatus], failed: ToolError) -> Iterator[RuleStatus]:
    """Yield the states of rules after all were switched off; their findings remain."""
    reason = f"from step {failed.step} on; mothtrap failed there: {failed.error}"
    for status in statuses:
        if status.state in (RuleState.ERROR, RuleState.WARNING):
            yield status
        else:
            yield msgspec.structs.replace(status, state=RuleState.RULE_FAILED, reason=reason)
