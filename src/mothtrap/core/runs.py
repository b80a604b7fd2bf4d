"""Description of a run as a whole; written once at its start and once at its end."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import PurePath

import msgspec

from mothtrap.core.findings import Finding, RuleState
from mothtrap.core.jsonable import UnixTime

SHOWN_OFF = 4
"""Maximum number of switched-off rules that a verdict names; chosen by hand."""

STOPPED = 3
"""Exit code of a job that was stopped on request."""

_SESSIONS = ("ipython", "ipython3", "ipykernel_launcher.py")
"""Programs in which users type code."""


class RunKind(StrEnum):
    """Subject of a run. Runs of versions that stored no kind are training runs."""

    TRAIN = "train"
    """A training job."""
    CHECK = "check"
    """Trials of a script, its model, and its data before a long training run."""
    PROBE = "probe"
    """Questions to a trained model."""
    SERVE = "serve"
    """Predictions of a deployed model."""

    @property
    def has_overhead(self) -> bool:
        """True if mothtrap adds time to a training job, which is then a cost."""
        return self is RunKind.TRAIN


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`run.json` of an attempt: how the job was started. Times are Unix times in seconds.

    `pid` is the process whose end is the end of the attempt; `pid_ticks` distinguishes it from
    later processes with the same id (see `store.processes`; 0 = unknown). `launcher` identifies
    the process that restarts this one when it fails, such as torchrun, and `restarts` counts its
    restarts. `user` is the name of the user who started the job. `signature` proves to that user
    that command and folder are unchanged (see `session.own_runs`).
    """

    id: str
    attempt: int
    command: tuple[str, ...]
    cwd: str
    created_s: UnixTime
    pid: int
    host: str
    python: str
    mothtrap: str
    config: dict[str, object] = {}
    pid_ticks: int = 0
    launcher: str = ""
    restarts: int = 0
    user: str = ""
    signature: str = ""
    kind: RunKind = RunKind.TRAIN


class RunEnd(msgspec.Struct, frozen=True, kw_only=True):
    """`end.json` of an attempt, written by the launcher when the job has ended.

    `exit_code` is negative for a signal, as in `subprocess`. `lost` are the workers of a job with
    several workers that never closed their record, in the order in which they died if `order_seen`,
    otherwise in the order in which they stopped writing. `files` are the paths of the attempt's
    non-empty files at its end; readers report missing files. It is empty if the files were
    not listed. `launcher_s` is the launcher's time before and after the job, in seconds.
    """

    exit_code: int
    ended_s: UnixTime
    lost: tuple[int, ...] = ()
    order_seen: bool = True
    files: tuple[str, ...] = ()
    launcher_s: float = 0.0


class RuleStatus(msgspec.Struct, frozen=True, kw_only=True):
    """State of one rule, with the reason."""

    code: str
    name: str
    state: RuleState
    reason: str = ""


def switched_off(rules: Sequence[RuleStatus]) -> str:
    """Return the first sentence of a verdict if rules were switched off; else ''."""
    off = [rule for rule in rules if rule.state is RuleState.RULE_FAILED]
    if not off:
        return ""
    names = ", ".join(f"{rule.code} {rule.name}" for rule in off[:SHOWN_OFF])
    more = f" and {len(off) - SHOWN_OFF} more" if len(off) > SHOWN_OFF else ""
    reasons = {_cut(rule.reason) for rule in off}
    why = f" ({reasons.pop()})" if len(reasons) == 1 else ""
    if len(off) == len(rules):
        return f"All rules were switched off{why or f': {names}{more}'}."
    count = f"{len(off)} rules were" if len(off) > 1 else "1 rule was"
    return f"{count} switched off: {names}{more}{why}."


def _cut(reason: str) -> str:
    """Return the start of a reason without the advice, because the verdict only names the fault."""
    return reason.partition("; ")[0]


class Evaluated(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a monitor outside of the job in an attempt.

    `steps` is the number of train steps. `is_complete`: the attempt has ended, and all of it
    was evaluated.
    """

    steps: int
    is_complete: bool = False


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """Result of evaluating rules on a run: findings, worst first, and the state of each rule."""

    findings: tuple[Finding, ...]
    rules: tuple[RuleStatus, ...]


class Overhead(msgspec.Struct, frozen=True, kw_only=True):
    """Measured cost of mothtrap on the training threads, summed over workers.

    Captures are skipped to keep `ratio`, a share of the training time, below `budget` (0: no
    limit). `shed` lists the skipped captures with their number, most skipped first. `seconds` is
    the cost, of which captures took `capture_seconds`, and hooks the rest. The cost excludes
    captures that the user requested: they took `asked_seconds`, a share `asked_ratio` of the
    training time, and the budget does not limit them. `unwatched` is the number of steps that
    were not observed.

    `added_seconds` is how much longer the job took. It is the mean over the workers of `seconds`,
    of the time to import mothtrap (`start_seconds`), and of the CPU time of threads that compete
    with the training (`beside_seconds`), of the time to close the record (`close_seconds`), plus
    the launcher's time before and after the job (`launcher_seconds`), less the garbage collection
    that was saved (`saved_seconds`, an estimate); at least 0. It includes `slowed_seconds`, an
    estimate of how much slower the script's own code became. `wall_seconds` is the mean training
    time of a worker.
    """

    ratio: float = 0.0
    seconds: float = 0.0
    capture_seconds: float = 0.0
    asked_ratio: float = 0.0
    asked_seconds: float = 0.0
    shed: tuple[str, ...] = ()
    budget: float = 0.0
    unwatched: int = 0
    added_seconds: float = 0.0
    start_seconds: float = 0.0
    beside_seconds: float = 0.0
    close_seconds: float = 0.0
    launcher_seconds: float = 0.0
    saved_seconds: float = 0.0
    slowed_seconds: float = 0.0
    wall_seconds: float = 0.0


def has_script(command: Sequence[str]) -> bool:
    """Return whether a command starts a script, rather than a session with typed or piped code."""
    words = tuple(command[1:])
    if words and PurePath(words[0]).name in _SESSIONS:
        return False
    typed = not words or words[0] in ("", "-") or words == ("-c",)
    return not typed or "python" not in PurePath(command[0]).name
