"""Summary of a run: printed by `show --format json`, and the basis of every text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from mothtrap.core.diagnosis import Diagnosis, Story, diagnose, fault_name, in_story_order, problems
from mothtrap.core.diagnosis import verdict as worst_root
from mothtrap.core.facts.captures import Dropped
from mothtrap.core.facts.failures import ScriptFailed
from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.facts.record import ItemLogged, ParametersLogged
from mothtrap.core.facts.trees import BoostingBegan
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.findings import Finding, RuleState, Severity, has_passed
from mothtrap.core.masking import shareable
from mothtrap.core.replays import StoredReplay
from mothtrap.core.runs import Judged, Overhead, RuleStatus, RunKind, switched_off
from mothtrap.reader.run_facts import CHECKED_BYTES, NOT_EVALUATED, damage_first
from mothtrap.report.aftermath import Aftermath, aftermaths
from mothtrap.report.boosting import BoostedModel, boosted_models
from mothtrap.report.ending import ended_by_exception, how_it_ended, traceback_of
from mothtrap.report.failures import Failure, failures
from mothtrap.report.guarded import Guarded, guarded
from mothtrap.report.ignored import Ignored, ignored
from mothtrap.report.kept import KeptSnapshot, kept_snapshots
from mothtrap.report.phases import phase_shares
from mothtrap.report.probed_files import file_lines
from mothtrap.report.record import RunRecord
from mothtrap.report.simple_scores import SimpleScores, simple_scores
from mothtrap.report.source import lines_at
from mothtrap.report.style import count_of

if TYPE_CHECKING:
    from mothtrap.reader.run import Run
    from mothtrap.report.baseline import Baseline

NO_LOSS = "the loss"
"""Unseen subject, in words, when the loss is unknown."""
UNSTEPPED = " before its first optimizer step"
COULD_NOT_JUDGE = (RuleState.NOT_ENOUGH_DATA, RuleState.NOT_APPLICABLE)


class RunFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Identity of a run. `state` is `running`, `finished` or `crashed`; `workers` are ranks.

    `kind` is a `core.runs.RunKind`.
    """

    id: str
    kind: RunKind
    path: str
    attempts: int
    state: str
    steps: int
    workers: tuple[int, ...]
    unit: str = "step"


class Unseen(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was not observed, and the reason."""

    what: str
    reason: str


class OwnError(msgspec.Struct, frozen=True, kw_only=True):
    """A part of mothtrap that failed and was switched off."""

    part: str
    error: str


class NotKept(msgspec.Struct, frozen=True, kw_only=True):
    """Captured data that was discarded: the number and kind (`tensors`, `steps`, ...)."""

    what: str
    count: int
    reason: str


class RunSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything reported about a run; empty fields with a default are left out.

    `ignored` are settings without effect; `dropped` counts captured data that was dropped, and
    `not_kept` lists the reasons, largest first; `damage` lists the stored parts that could not be
    read; `known` counts the findings in a baseline, which are hidden; `failures` are the exceptions
    that ended the script; `snapshots` are the steps that can be replayed; `called` is the path that
    finds the run in a command, if its id does not; `sources` contains the source line of each
    location whose file has not changed since the job began; `ending` describes the end of a job
    that failed; `traceback` belongs to the exception that ended the run, and `crash_leads` is true
    if the verdict begins with it because no finding is an error; `boosted` are tree models in
    numbers; `replay` is the result of a replay at the end of the job; `record` is present if
    requested; `after` describes the time after the onset of errors and warnings. `phases` are the
    shares of the training time by phase. `simple` are the scores of simple models that a check of
    the script measured. `files` lists who can change the files of a probe run.
    """

    run: RunFacts
    verdict: str
    diagnosis: tuple[Story, ...]
    findings: tuple[Finding, ...]
    rules: tuple[RuleStatus, ...]
    blind: tuple[Unseen, ...]
    overhead: Overhead
    tool_errors: tuple[OwnError, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    dropped: int = 0
    not_kept: tuple[NotKept, ...] = ()
    damage: tuple[str, ...] = ()
    known: int = 0
    guarded: tuple[Guarded, ...] = ()
    failures: tuple[Failure, ...] = ()
    snapshots: tuple[KeptSnapshot, ...] = ()
    called: str = ""
    sources: dict[str, str] = {}
    ending: str = ""
    traceback: str = ""
    crash_leads: bool = False
    boosted: tuple[BoostedModel, ...] = ()
    replay: StoredReplay | None = None
    record: RunRecord | None = None
    after: tuple[Aftermath, ...] = ()
    phases: dict[str, float] = {}
    simple: SimpleScores | None = None
    files: tuple[str, ...] = ()

    def count(self, severity: Severity) -> int:
        """Return the number of findings of this severity."""
        return sum(finding.severity == severity for finding in self.findings)

    def after_of(self, finding: Finding) -> Aftermath | None:
        """Return how long a finding was active; None for a note."""
        return next((a for a in self.after if a.fingerprint == finding.fingerprint), None)

    def in_story_order(self) -> list[Finding]:
        """Return the findings ordered by story: each root, then its effects."""
        return in_story_order(self.findings, self.diagnosis)

    def in_state(self, *states: RuleState) -> tuple[RuleStatus, ...]:
        """Return the rules that ended in one of the states."""
        return tuple(rule for rule in self.rules if rule.state in states)


def summarize(
    run: Run,
    explains: Mapping[str, frozenset[str]],
    *,
    judged: Judged | None = None,
    baseline: Baseline | None = None,
    called: str = "",
    check_bytes: int = CHECKED_BYTES,
) -> RunSummary:
    """Summarize a run without secrets; verdict and diagnosis follow from the findings.

    Args:
        run: an opened run, which may still be running.
        explains: by rule code, codes of the rules whose findings that rule's findings cause.
        judged: results of the rules; None = the results stored in the run.
        baseline: known findings, which are not reported again.
        called: argument that finds the run in a command; empty: its id does.
        check_bytes: bytes that are read to find damage; see `Run.damage_within`.
    """
    judged = judged or Judged(findings=run.findings, rules=run.rules)
    told = tuple(f for f in judged.findings if baseline is None or not baseline.holds(f))
    diagnosis = diagnose(told, explains)
    damage = run.damage_within(check_bytes)
    failed, checked = failures(run), run.kind is RunKind.CHECK
    places = [f.location for f in diagnosis.findings] + [f.location for f in failed]
    summary = RunSummary(
        run=RunFacts(
            id=run.id,
            kind=run.kind,
            path=str(run.path),
            attempts=run.attempts,
            state=run.state,
            steps=counted(run)[0],
            workers=tuple(run.workers),
            unit=counted(run)[1],
        ),
        verdict=damage_first(
            _verdict(run, diagnosis, judged.rules, len(judged.findings) - len(told)), damage
        ),
        diagnosis=diagnosis.stories,
        findings=diagnosis.findings,
        rules=judged.rules,
        blind=tuple(Unseen(what=blind.what, reason=blind.reason) for blind in run.blind),
        overhead=run.overhead,
        tool_errors=tuple(OwnError(part=e.part, error=e.error) for e in run.tool_errors),
        ignored=ignored(run),
        dropped=run.dropped,
        not_kept=_not_kept(run),
        damage=damage,
        known=len(judged.findings) - len(told),
        guarded=guarded(run),
        failures=failed,
        snapshots=kept_snapshots(run),
        called=called if called != run.id else "",
        sources=lines_at(run.info, filter(None, places), run.source_texts()),
        boosted=boosted_models(run),
        replay=run.replay,
        # The time of a check is the time of its trials.
        after=() if checked else aftermaths(run, _serious(diagnosis)),
        phases={} if checked else phase_shares(run),
        simple=simple_scores(run),
        files=file_lines(run.probed),
        ending=f"The job {how_it_ended(run)}." if _failed(run) else "",
        traceback=traceback_of(run) if _failed(run) else "",
        crash_leads=_crash_leads(run, diagnosis),
    )
    return shareable(summary)


def _serious(diagnosis: Diagnosis) -> list[Finding]:
    return [f for f in diagnosis.findings if f.severity is not Severity.INFO]


def _not_kept(run: Run) -> tuple[NotKept, ...]:
    counts: Counter[tuple[str, str]] = Counter()
    for seen in run.observations(Dropped):
        counts[seen.what, seen.reason] += seen.count
    return tuple(
        NotKept(what=what, count=count, reason=reason)
        for (what, reason), count in counts.most_common()
    )


def _verdict(run: Run, diagnosis: Diagnosis, rules: tuple[RuleStatus, ...], known: int) -> str:
    off = switched_off(rules)
    text = _found(run, diagnosis, rules, known)
    is_stored = rules == run.rules  # not those of `mothtrap analyze`
    if is_stored and counted(run)[0] and (lack := run.unevaluated):
        failed = f" The job {how_it_ended(run)}." if _failed(run) else ""
        text = f"{lack}{failed}" if lack == NOT_EVALUATED else f"{lack} {text}"
    return f"{off} {text}" if off else text


def _found(run: Run, diagnosis: Diagnosis, rules: tuple[RuleStatus, ...], known: int) -> str:
    if problems(diagnosis):
        text = worst_root(diagnosis, steps=counted(run)[0])
        if not _failed(run):
            return text
        ending = f"The job {how_it_ended(run)}."
        return f"{ending} {text}" if _crash_leads(run, diagnosis) else f"{text} {ending}"
    if counted(run)[0] == 0:
        return _without_steps(run)
    text = _judgment(run, diagnosis, rules, known)
    if _failed(run):
        before = "before that, " if ended_by_exception(run) else ""
        text = f"The job {how_it_ended(run)}; {before}{text[0].lower()}{text[1:]}"
    if any(blind.what == NO_LOSS for blind in run.blind):
        text += "; no loss was recorded: pass it with dbg.step(loss=loss)"
    if lost := sum(seen.count for seen in run.observations(Dropped) if _was_captured(seen)):
        text += f"; {count_of(lost, 'step')} lost, because mothtrap could not store them"
    if run.state == "running":
        text += "; the job is still running"
    if any(not error.part.startswith("rule") for error in run.tool_errors):
        text += "; a part of mothtrap failed"
    return text + "."


def _without_steps(run: Run) -> str:
    """Return the verdict on a run without steps: an exception has priority."""
    failed = _failed(run) and ended_by_exception(run)
    if failed and not run.tool_errors and (run.observations(ScriptFailed) or not run.blind):
        return f"The job {how_it_ended(run, UNSTEPPED)}."
    if not (why := _why_nothing(run)):
        return "Waiting for the first step."
    text = f"Nothing was observed: {why}."
    return f"{text} The job {how_it_ended(run)}." if failed else text


def counted(run: Run) -> tuple[int, str]:
    """Return the size of a run in words: steps, or rows and predictions."""
    if run.probed is not None or run.served is not None:
        return run.judged_size
    return run.steps, unit_of(run)


def size_of(run: Run) -> str:
    """Return the coverage of a run: "500 steps", "probed 2,000 rows", "checked 90 predictions"."""
    verb = {RunKind.PROBE: "probed ", RunKind.SERVE: "checked "}.get(run.kind, "")
    return f"{verb}{count_of(*counted(run))}"


def unit_of(run: Run) -> str:
    """Return the unit for a step of this run: `round` if the job only boosts trees."""
    boosting = {began.library for began in run.observations(BoostingBegan)}
    others = {name for seen in run.observations(LossSeries) for name in seen.optimizers}
    return "round" if boosting and others <= boosting else "step"


def _was_captured(lost: Dropped) -> bool:
    """Return whether steps are missing in the run, and not only in the evaluation of rules."""
    return lost.what == "steps" and not lost.reason.startswith("rules")


def _judgment(run: Run, diagnosis: Diagnosis, rules: tuple[RuleStatus, ...], known: int) -> str:
    """Return the verdict on a run without errors and warnings."""
    judged = sum(rule.state not in (*COULD_NOT_JUDGE, RuleState.RULE_FAILED) for rule in rules)
    waiting = sum(rule.state == RuleState.NOT_ENOUGH_DATA for rule in rules)
    steps = count_of(*counted(run))
    noun = {RunKind.PROBE: "probe", RunKind.SERVE: "assertion"}.get(run.kind, "rule")
    if judged == 0:
        return f"Nothing was evaluated in {steps}: {_why_unjudged(run, rules)}"
    if known:
        return f"Nothing new was found in {steps}; {count_of(known, 'known finding')} hidden"
    if diagnosis.findings:
        notes = [
            f"{f.code} {fault_name(f)}{': passed' * has_passed(f)}" for f in diagnosis.findings
        ]
        return (
            f"No error or warning in {steps}, {count_of(len(notes), 'note')} ({', '.join(notes)})"
        )
    more = f", {waiting} need{'s' * (waiting == 1)} more data" if waiting else ""
    if switched_off(rules):
        return f"The other rules found nothing wrong in {steps} ({count_of(judged, noun)} ok{more})"
    return f"Nothing wrong was found in {steps} ({count_of(judged, noun)} ok{more})"


def problems_in(summary: RunSummary) -> tuple[Story, ...]:
    """Return the root causes of a run that are more than notes, worst first."""
    return tuple(story for story in summary.diagnosis if story.severity is not Severity.INFO)


def _failed(run: Run) -> bool:
    """Return whether the job ended unexpectedly, or with a failure."""
    return run.state == "crashed" or bool(run.end is not None and run.end.exit_code)


def _crash_leads(run: Run, diagnosis: Diagnosis) -> bool:
    """Return whether an exception of the script is worse than all findings.

    An error can be the reason for the exception, e.g. NaN for an exception that the script raises
    itself.
    """
    worst = min((story.severity.rank for story in diagnosis.stories), default=Severity.INFO.rank)
    return _failed(run) and ended_by_exception(run) and worst > Severity.ERROR.rank


def _why_nothing(run: Run) -> str:
    """Return the reason why a run has no step; empty if the first step may still follow."""
    info = run.info
    if info is not None and info.config.get("capture") == "off":
        return "capture is off"
    if run.tool_errors:
        error = run.tool_errors[0]
        return f"mothtrap failed in {error.part} ({error.error})"
    logged = bool(run.observations(ItemLogged)) or bool(run.observations(ParametersLogged))
    stepped = bool(run.rules or (run.workers and not logged))  # a monitor opens at the first step
    excepted = any(end.exception for end in run.observations(WorkerEnded))
    if run.observations(ScriptFailed) or (excepted and not run.blind):
        return f"the job {how_it_ended(run, UNSTEPPED)}"
    if run.end is not None and run.end.exit_code > 0 and not stepped:
        return f"exit code {run.end.exit_code} before any optimizer step"
    if run.end is not None and run.end.exit_code != 0 and not stepped:
        return f"the job {how_it_ended(run, UNSTEPPED)}"
    if run.blind:
        return run.blind[0].reason.rstrip(".")
    if run.damage:
        return "the stored data cannot be read"
    if run.state == "running":
        return ""
    if stepped:
        return (
            "a process trained, but no step was stored: "
            "mothtrap could not write to the run, or was killed before it did"
        )
    if run.state == "crashed":
        return f"the job {how_it_ended(run, UNSTEPPED)}"
    return "no process of the job made an optimizer step in a framework that mothtrap supports"


def _why_unjudged(run: Run, rules: tuple[RuleStatus, ...]) -> str:
    if not rules and run.tool_errors:
        return f"mothtrap failed in {run.tool_errors[0].part} ({run.tool_errors[0].error})"
    if not rules and run.damage:
        return "the findings cannot be read, because files are damaged or missing"
    if not rules:
        return "no rule was selected"
    if all(rule.state == RuleState.RULE_FAILED for rule in rules):
        return "all rules failed"
    if all(rule.state == RuleState.NOT_ENOUGH_DATA for rule in rules):
        return "no rule had enough data"
    return "no rule that applies had enough data"
