"""Certain repairs of the findings of a run, and the test of a repair in a copy of the folder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from mothtrap.core.errors import ReplayError
from mothtrap.core.findings import Finding, Severity
from mothtrap.monitor.catalogue import explains
from mothtrap.reader.run import Run, open_run
from mothtrap.repairs import catalogue
from mothtrap.repairs.catalogue import Patch
from mothtrap.report.source_lines import source_files, unchanged_source
from mothtrap.report.summary import RunSummary, summarize
from mothtrap.session.folder_copy import command_in, copy_folder
from mothtrap.session.own_runs import is_own
from mothtrap.store.layout import attempts

LAST_SHARE = 0.1
"""Share of the steps whose mean loss is compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """A finding without a certain repair.

    Attributes:
        finding: the finding.
        reason: the decision that is left to the user.
    """

    finding: Finding
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Result of the repaired script.

    Attributes:
        gone: whether the finding did not occur again.
        verdict: verdict of the repaired run.
        steps: number of steps in both runs.
        loss_before, loss_after: mean loss of the last of these steps; None if unknown.
    """

    gone: bool
    verdict: str
    steps: int
    loss_before: float | None
    loss_after: float | None


def repairs(run: Run, summary: RunSummary) -> Iterator[Patch | Undecided]:
    """Yield the repair of each root finding, or the user's decision, worst first."""
    from mothtrap.repairs.script import NoCertainRepairError  # the extra may be missing

    known = {one.fingerprint: one for one in summary.findings}
    for story in summary.diagnosis:
        finding = known.get(story.root)
        if finding is None or finding.severity is Severity.INFO:
            continue
        if not catalogue.is_known(finding):
            yield Undecided(finding=finding, reason="this rule has no certain fix")
            continue
        try:
            if catalogue.is_anywhere(finding):
                yield _searched(run, finding)
            else:
                yield _patched(run, finding, catalogue.place_of(finding))
        except NoCertainRepairError as err:
            yield Undecided(finding=finding, reason=str(err))


def _patched(run: Run, finding: Finding, file: str) -> Patch:
    """Return the repair of one file.

    Raises:
        NoCertainRepairError: the file has changed since the run, or cannot be repaired.
    """
    from mothtrap.repairs.script import NoCertainRepairError

    text, problem = unchanged_source(run, file) if file else (None, "the finding names no file")
    if text is None:
        raise NoCertainRepairError(problem)
    return catalogue.patch(finding, file, text)


def _searched(run: Run, finding: Finding) -> Patch:
    """Return the repair of the run's only file that can be repaired.

    Raises:
        NoCertainRepairError: no file can be repaired, or several can.
    """
    from mothtrap.repairs.script import NoCertainRepairError

    named = (finding.location or "").rpartition(":")[0]
    files = sorted(source_files(run), key=lambda file: file != named)
    found: list[Patch] = []
    reasons: list[str] = []
    for file in files:
        here = finding if file == named else msgspec.structs.replace(finding, location=None)
        try:
            found.append(_patched(run, here, file))
        except NoCertainRepairError as err:
            reasons.append(str(err))
    if len(found) != 1:
        several = f"{len(found)} files could be repaired; decide which one"
        raise NoCertainRepairError(
            several if found else (reasons or ["the finding names no file"])[0]
        )
    return found[0]


def tried(run: Run, patch: Patch, scratch: Path, timeout_s: float, *, anyway: bool) -> Trial:
    """Run the repaired script in a copy of its folder, and compare it with the run.

    Args:
        run: run with the finding.
        patch: the repair.
        scratch: empty folder for the copy and for the new run.
        timeout_s: time limit of the script.
        anyway: run it even if another user recorded the run.

    Raises:
        ReplayError: the script cannot be started, or did not end in time.
    """
    info = run.info
    if info is None or not info.command:
        raise ReplayError(
            "the run does not say how its script was started, so the patch cannot be tried"
        )
    if not (anyway or is_own(info)):
        raise ReplayError(
            "another user recorded this run, and its command would be executed; check "
            f"`{' '.join(info.command)}` in {info.cwd}, then pass --anyway"
        )
    folder = Path(info.cwd)
    copy = scratch / "copy"
    copy_folder(folder, copy, run.path.parent)
    (copy / patch.file).write_text(patch.text, encoding="utf-8")
    command = command_in(info.command, folder, copy)
    options = ["--runs-dir", str(scratch / "runs"), "--name", "repaired", "--"]
    try:
        subprocess.run(
            [sys.executable, "-m", "mothtrap", "run", *options, *command],
            cwd=copy,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=timeout_s or None,
            check=False,
        )
    except subprocess.TimeoutExpired as err:
        raise ReplayError(f"the patched script did not end within {timeout_s:g} s") from err
    made = scratch / "runs" / "repaired"
    if not attempts(made):
        raise ReplayError("the patched script recorded no run; apply the patch and run it yourself")
    return _compared(run, open_run(made), patch.finding)


def _compared(before: Run, after: Run, finding: Finding) -> Trial:
    summary = summarize(after, explains())
    steps = min(before.steps, after.steps)
    return Trial(
        gone=all(one.code != finding.code for one in summary.findings),
        verdict=summary.verdict,
        steps=steps,
        loss_before=_loss(before, steps),
        loss_after=_loss(after, steps),
    )


def _loss(run: Run, steps: int) -> float | None:
    """Return the mean training loss of the last steps before a step number."""
    for one in run.scalars("loss", "train"):
        values = one.values_S[(one.steps_S < steps) & (one.steps_S >= steps * (1 - LAST_SHARE))]
        values = values[np.isfinite(values)]
        if len(values):
            return float(values.mean())
    return None
