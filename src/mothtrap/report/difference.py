"""Two runs compared: the whole answer, and its text."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mothtrap.core.errors import DamagedDataError
from mothtrap.reader.compare.changed_lines import changed_lines
from mothtrap.reader.compare.conditions import ConditionDiffers, differing_conditions
from mothtrap.reader.compare.difference import Compared, compare
from mothtrap.reader.compare.first_divergence import FirstDivergence
from mothtrap.reader.compare.likely_cause import Cause, likely_cause
from mothtrap.reader.run import Run
from mothtrap.report.style import Style, count_of

SHOWN = 12
"""Differing conditions that the text shows."""


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two compared runs."""

    run: str
    path: str
    steps: int
    workers: int


class RunDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Output of `mothtrap diff --format json`.

    `same`: there is no difference in the `steps` that both runs have. `conditions` are starting
    conditions that differ, `changed` are the changed lines of the script, `divergence` is the first
    difference in the order of execution, and `cause` its likely cause. `exact`: compared bit for
    bit, otherwise within `rtol` and `atol`; `measured`: within the differences in a perturbed run.
    `compared` describes the compared data, and the method.
    """

    same: bool
    first: Side
    second: Side
    steps: int
    exact: bool
    rtol: float
    atol: float
    measured: bool = False
    conditions: tuple[ConditionDiffers, ...]
    changed: tuple[str, ...]
    divergence: FirstDivergence | None = msgspec.field(name="departure")
    cause: Cause | None
    compared: tuple[Compared, ...]
    notes: tuple[str, ...]


def difference(
    first: Run,
    second: Run,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    ignore: tuple[str, ...] = (),
    perturbed: Run | None = None,
) -> RunDifference:
    """Compare two runs; arguments as for `reader.difference.compare`."""
    found = compare(first, second, rtol=rtol, atol=atol, ignore=ignore, perturbed=perturbed)
    conditions = differing_conditions(first, second)
    divergence = found.first
    return RunDifference(
        same=divergence is None,
        first=_side(first),
        second=_side(second),
        steps=found.steps,
        exact=found.exact,
        rtol=found.rtol,
        atol=found.atol,
        measured=found.measured,
        conditions=conditions,
        changed=changed_lines(first, second),
        divergence=divergence,
        cause=likely_cause(first, second, divergence, conditions) if divergence else None,
        compared=found.compared,
        notes=(*found.notes, *_damage("A", first), *_damage("B", second)),
    )


def _damage(letter: str, run: Run) -> Iterator[str]:
    """Yield the parts of a run that are unreadable, and therefore not compared."""
    yield from (f"{letter} is damaged: {text}" for text in run.damage)
    for read in (run.ledger, lambda: run.source):
        try:
            read()
        except DamagedDataError as err:
            yield f"{letter} is damaged: {err}"


def _side(run: Run) -> Side:
    return Side(run=run.id, path=str(run.path), steps=run.steps, workers=len(run.workers))


def text(found: RunDifference, style: Style) -> str:
    """Return the comparison as lines of text."""
    safe = style.safe
    lines = []
    for letter, side in zip("AB", (found.first, found.second), strict=True):
        lines.append(
            f"{letter}  {safe(side.run)}  {count_of(side.steps, 'step')}, "
            f"{count_of(side.workers, 'rank')}  {safe(side.path)}"
        )
    if found.conditions:
        lines += ["", "Started differently"]
        width = max(len(c.what) for c in found.conditions[:SHOWN])
        lines += [
            f"  {safe(c.what):<{width}}  A {safe(c.first or '-')}  B {safe(c.second or '-')}"
            for c in found.conditions[:SHOWN]
        ]
        more = len(found.conditions) - SHOWN
        if more > 0:
            lines.append(f"  and {more} more, see --format json")
    if found.changed:
        lines += ["", "Changed lines of the script", *(f"  {safe(line)}" for line in found.changed)]
    lines += ["", *_answer(found, style)]
    lines += ["", "Compared"]
    lines += [
        f"  {c.phase:<15} {c.method} at {count_of(c.steps, 'step')}" for c in found.compared
    ] or ["  nothing: the runs have no step and no value in common"]
    if found.measured:
        lines.append("  numbers within the measured rounding differences")
    elif not found.exact:
        lines.append(f"  numbers within rtol {found.rtol:g}, atol {found.atol:g}")
    lines += [f"  note: {safe(note)}" for note in found.notes]
    return "\n".join(lines)


def _answer(found: RunDifference, style: Style) -> list[str]:
    divergence, cause = found.divergence, found.cause
    if divergence is None or cause is None:
        if not found.compared:
            return ["The runs have no comparable data in common"]
        words = "No difference" if found.exact else "No difference beyond the tolerance"
        return [f"{words} in {count_of(found.steps, 'step')}"]
    safe = style.safe
    at = f"step {divergence.step}"
    if divergence.since is not None:
        at = f"between steps {divergence.since} and {divergence.step}"
    if divergence.micro_batch:
        at += f", micro-batch {divergence.micro_batch}"
    if divergence.worker and found.first.workers > 1:
        at += f", rank {divergence.worker}"
    lines = [style.paint(f"First difference: {at}, {safe(divergence.what)}", "bold")]
    lines.append(
        f"  A {safe(divergence.first)}  B {safe(divergence.second)}  ({divergence.method})"
    )
    if divergence.relative is not None:
        lines.append(f"  relative difference {divergence.relative:.2g}")
    if divergence.location:
        lines.append(f"  {safe(divergence.location)}")
    if divergence.also:
        rest = divergence.count - 1 - len(divergence.also)
        more = f" and {rest} more" if rest > 0 else ""
        lines.append(f"  also: {safe(', '.join(divergence.also))}{more}")
    lines.append(style.paint(f"Likely cause: {cause.kind}", "bold"))
    lines.append(f"  {safe(cause.sentence)}")
    lines += [f"  - {safe(text)}" for text in cause.evidence]
    return lines
