"""Explanation of the exception that ended a script, in addition to its traceback."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from mothtrap.core.facts.failures import ScriptFailed
from mothtrap.core.findings import Severity
from mothtrap.core.snapshots import BUILD
from mothtrap.report.style import SEVERITY_COLORS, Style

if TYPE_CHECKING:
    from mothtrap.reader.run import Run
    from mothtrap.report.kept import KeptSnapshot

MAX_FAILURES = 3
MAX_ERROR = 120


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The exception of the framework that ended the script; fields as in `ScriptFailed`."""

    step: int
    kind: str
    error: str
    sentence: str
    module: str | None = None
    inputs: tuple[str, ...] = ()
    batch: str = ""
    location: str | None = None
    fixes: tuple[str, ...] = ()


def failures(run: Run) -> tuple[Failure, ...]:
    """Return each exception once, because workers that fail together usually fail the same way."""
    found: dict[str, Failure] = {}
    for seen in run.observations(ScriptFailed):
        fields = {name: getattr(seen, name) for name in Failure.__struct_fields__}
        found.setdefault(f"{seen.step} {seen.error}", Failure(**fields))
    return tuple(found.values())


def failure_lines(
    found: Sequence[Failure], snapshots: Iterable[KeptSnapshot], called: str, style: Style
) -> list[str]:
    """Return the lines about each framework exception that ended the script.

    Args:
        found: the exceptions.
        snapshots: snapshots of steps that can be replayed.
        called: argument that finds the run in a command.
        style: style of the terminal.
    """
    lines = []
    for failure in found[:MAX_FAILURES]:
        lines += _block(failure, style)
        kept = next((kept for kept in snapshots if kept.step == failure.step), None)
        if kept is not None:
            replay = f"mothtrap replay {style.safe(called)} --step {failure.step} --pdb"
            lines.append(f"    = replay: {replay}{'' if kept.scripted else BUILD}")
    more = len(found) - MAX_FAILURES
    return lines + (
        [f"  {more} more failed (mothtrap show --format json --all)"] if more > 0 else []
    )


def _block(failure: Failure, style: Style) -> list[str]:
    error = failure.error if len(failure.error) <= MAX_ERROR else failure.error[:MAX_ERROR] + "…"
    head = style.paint(style.safe(error), SEVERITY_COLORS[Severity.ERROR])
    lines = [
        f"  {style.glyph(Severity.ERROR)} step {failure.step}: {head}",
        f"    {style.safe(failure.sentence)}",
    ]
    if failure.location:
        lines.append(f"    --> {style.safe(failure.location)}")
    if len(failure.inputs) > 1:  # the sentence is about a single one
        lines.append(f"    = given: {style.safe('; '.join(failure.inputs))}")
    if failure.batch:
        lines.append(f"    = batch: {style.safe(failure.batch)}")
    return lines + [f"    = fix: {style.safe(fix)}" for fix in failure.fixes]
