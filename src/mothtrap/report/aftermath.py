"""Steps, time and cost after the onset of a finding, and the weights saved before it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from mothtrap.core.facts.record import CheckpointSaved
from mothtrap.core.findings import Finding
from mothtrap.core.window import Floats, Ints
from mothtrap.report.record import duration
from mothtrap.report.style import Style

if TYPE_CHECKING:
    from mothtrap.reader.run import Run

WORTH_SAYING_S = 60.0
"""Time after an onset that the verdict mentions; chosen by hand: less was no loss."""
MAX_FINDINGS = 100
EVERY_STEP = ("NUM001", "NUM005")
"""Rules on losses and inputs, which are checked at every step."""


class Aftermath(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a run after the onset of a finding, with its cost.

    `steps` of the run's `total` steps, and `seconds`, followed the onset; `cost` is their cost, 0
    if no price is set. `observed` is the number of steps with the fault, if it is intermittent.
    `saved` is the number of steps of the last weights that were saved before it, at `path`; None if
    there are none, or if saving them was not observed.
    """

    fingerprint: str
    steps: int
    total: int
    seconds: float
    cost: float = 0.0
    observed: int = 0
    saved: int | None = None
    path: str = ""


def aftermaths(run: Run, findings: Iterable[Finding]) -> tuple[Aftermath, ...]:
    """Return how long each finding lasted, and its cost."""
    listed = list(findings)[:MAX_FINDINGS]
    if not listed or not run.steps:
        return ()
    clocks = _clocks(run)
    checkpoints = run.observations(CheckpointSaved)
    price = run.info.config.get("cost_per_hour", 0.0) if run.info is not None else 0.0
    per_hour = float(price) if isinstance(price, int | float) else 0.0
    found = []
    for finding in listed:
        before = [each for each in checkpoints if each.step <= finding.step]
        seconds = sum(_seconds_after(steps, wall, finding.step) for steps, wall in clocks)
        found.append(
            Aftermath(
                fingerprint=finding.fingerprint,
                steps=max(0, run.steps - finding.step),
                total=run.steps,
                seconds=seconds,
                cost=seconds / 3600 * per_hour,
                observed=_observed(finding, run.steps - finding.step),
                saved=before[-1].step if before else None,
                path=before[-1].path if before else "",
            )
        )
    return tuple(found)


def in_words(after: Aftermath, unit: str = "step") -> str:
    """Describe how long a finding was active: `20,000 of 40,000 steps, 6.2 h, cost 12.40`."""
    parts = [f"{after.steps:,} of {after.total:,} {unit}s", duration(after.seconds)]
    text = ", ".join([*parts, *([f"cost {after.cost:,.2f}"] if after.cost else [])])
    return f"{text}; observed in {after.observed:,} of these {unit}s" if after.observed else text


def _observed(finding: Finding, steps: int) -> int:
    """Return at how many steps a fault was observed that is checked at every step; else 0."""
    comes_and_goes = finding.code in EVERY_STEP and 0 < finding.count < steps / 2
    return finding.count if comes_and_goes else 0


def saved_in_words(after: Aftermath, unit: str = "step") -> str:
    """Return the last weights saved before an onset; "" if no weights were saved."""
    if after.saved is None:
        return ""
    where = f" ({after.path})" if after.path else ""
    return f"after {after.saved:,} {unit}{'s' * (after.saved != 1)}{where}"


def clause_lines(after: Aftermath | None, style: Style, unit: str = "step") -> list[str]:
    """Return the lines of a verdict about the time after an onset, if it is worth mentioning."""
    if after is None:
        return []
    lines = []
    if after.seconds >= WORTH_SAYING_S and after.steps:
        lines.append(f"  lasted: {in_words(after, unit)}")
    if saved := saved_in_words(after, unit):
        lines.append(f"  last weights saved before it: {style.safe(saved)}")
    return lines


def since_then(after: Aftermath | None, unit: str = "step") -> str:
    """Return a one-line summary of the time after an onset; "" if nothing followed."""
    if after is None or not after.steps:
        return ""
    saved = saved_in_words(after, unit)
    return in_words(after, unit) + (f"; weights saved before it: {saved}" if saved else "")


def _clocks(run: Run) -> list[tuple[Ints, Floats]]:
    """Return steps, rising, and wall seconds of the records of each attempt of one worker."""
    return [
        (np.maximum.accumulate(part.view.commits.steps), np.asarray(part.view.commits.wall_s))
        for part in run.parts()
        if len(part.view.commits)
    ]


def _seconds_after(steps: Ints, wall_s: Floats, onset: int) -> float:
    at = int(np.searchsorted(steps, onset))
    return max(0.0, float(wall_s[-1] - wall_s[at])) if at < len(steps) else 0.0
