"""Result of a replay, as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mothtrap.core.replays import ReplayResult
from mothtrap.core.snapshots import Snapshot
from mothtrap.report.style import Style, count_of, ranges

MAX_GRADIENTS = 4
COLLECTIVE = "torch.distributed."
PLAIN = Style()


def as_json(
    snapshot: Snapshot, results: Sequence[ReplayResult], warnings: Sequence[str] = ()
) -> dict[str, object]:
    """Return the fields for tools; `loss` is the loss of the step's last backward pass."""
    shown = worst(results)
    return {
        "step": snapshot.step,
        "match": all_match(results),
        "mended": is_mended(snapshot, results),
        "loss": shown.losses[-1] if shown.losses else None,
        "losses": list(shown.losses),
        "losses_in_run": list(_losses_in_run(snapshot)),
        "module": shown.module,
        "operation": shown.operation,
        "location": shown.location,
        "rows": list(shown.rows),
        "micro_batch": shown.micro_batch,
        "samples": list(shown.samples),
        "holder": shown.holder or None,
        "exception": shown.exception,
        "raised_at": shown.raised_at,
        "worker": shown.rank,
        "reason": snapshot.reason,
        "nonfinite": any(result.nonfinite for result in results),
        "nonfinite_gradients": list(shown.nonfinite_gradients),
        "difference": shown.difference,
        "told": list(shown.told),
        "notes": [*warnings, *dict.fromkeys(note for r in results for note in r.notes)],
    }


def as_text(
    snapshot: Snapshot,
    results: Sequence[ReplayResult],
    name: str,
    *,
    warnings: Sequence[str] = (),
    converted: str = "",
    style: Style = PLAIN,
) -> str:
    """Return the result as text.

    Args:
        snapshot: the replayed snapshot.
        results: results of its workers.
        name: name of the run.
        warnings: reasons why the step may differ.
        converted: device and type of the converted state and batch.
        style: capabilities of the stream.
    """
    shown = worst(results)
    mended = is_mended(snapshot, results) and not converted
    how = f"in {converted}" if converted else _verdict(results, style)
    if mended:
        how = style.paint("no fault here, unlike in the run", "green")
    head = f"step {snapshot.step} of {style.safe(name)}, replayed: {how}"
    lines = [style.paint(head, "bold")]
    if mended:
        lines += _mended_lines(snapshot, shown, style)
    elif shown.losses:
        lines.append(f"  loss: {_numbers(shown.losses)}")
    if shown.nonfinite_gradients:
        more = len(shown.nonfinite_gradients) - MAX_GRADIENTS
        names = ", ".join(map(style.safe, shown.nonfinite_gradients[:MAX_GRADIENTS]))
        lines.append(f"  not finite: gradient of {names}" + (f" and {more} more" * (more > 0)))
    if shown.exception:
        lines.append(f"  raised: {style.safe(shown.exception.splitlines()[0])}")
        if shown.raised_at:
            lines.append(f"  --> {style.safe(shown.raised_at)}")
    if shown.operation:
        where = f" in {style.safe(shown.module)}" if shown.module else ""
        lines.append(f"  first bad: {style.safe(shown.operation)}{where}")
        if shown.location and shown.location != shown.raised_at:
            lines.append(f"  --> {style.safe(shown.location)}")
    lines += [f"  {style.safe(line)}" for line in shown.told]
    if shown.rows and not any("row" in line for line in shown.told):
        lines.append(f"  rows of the batch: {ranges(shown.rows)}")
    if converted:
        lines.append(f"  {_precision(snapshot, shown, converted)}")
    if all_match(results) and not converted:
        warnings = ()  # whatever differs, it changed nothing
    for note in dict.fromkeys((*warnings, *(note for r in results for note in r.notes))):
        lines.append(f"  = note: {style.safe(note)}")
    return "\n".join(lines)


def worst(results: Sequence[ReplayResult]) -> ReplayResult:
    """Return the most informative result: a localized fault, or else a bad result."""
    return max(
        results,
        key=lambda r: (_detail(r), bool(r.exception), r.nonfinite, -r.rank),
    )


def _detail(result: ReplayResult) -> int:
    """Return the order of results by detail; results of other ranks come last."""
    if result.operation is None:
        return 1 if result.holder else 0
    return 2 if result.operation.startswith(COLLECTIVE) else 3


def all_match(results: Sequence[ReplayResult]) -> bool | None:
    """Return whether the results of all ranks match; None if they could not be compared."""
    if any(result.match is False for result in results):
        return False
    return True if all(result.match for result in results) else None


def why_untested(results: Sequence[ReplayResult]) -> str:
    """Return why a requested test of the failure is missing."""
    if not any(result.nonfinite or result.exception for result in results):
        return "the step has no fault here, so there is no failure to test"
    said = (result.untested for result in results if result.untested)
    return next(said, "the failure could not be narrowed down")


def why_unreproduced(results: Sequence[ReplayResult]) -> str:
    """Return why a requested script that reproduces the failure is missing."""
    if not any(result.nonfinite or result.exception for result in results):
        return "the step has no fault here, so there is no failure to reproduce"
    said = (result.unreproduced for result in results if result.unreproduced)
    return next(said, "the failure could not be narrowed down")


def is_mended(snapshot: Snapshot, results: Sequence[ReplayResult]) -> bool:
    """Return whether a step that failed in the run is fine in the replay, as after a fix."""
    bad_here = any(result.nonfinite or result.exception for result in results)
    return all_match(results) is False and not bad_here and _was_bad(snapshot)


def _was_bad(snapshot: Snapshot) -> bool:
    """Return whether the step was not finite in the run, or raised."""
    raised = snapshot.truth is not None and snapshot.truth.exception is not None
    return raised or _was_unsound(snapshot)


def _was_unsound(snapshot: Snapshot) -> bool:
    finite = all(map(math.isfinite, _losses_in_run(snapshot)))
    return snapshot.reason.startswith("unsound") or not finite


def _losses_in_run(snapshot: Snapshot) -> tuple[float, ...]:
    if snapshot.truth is not None and snapshot.truth.values:
        return snapshot.truth.values
    return tuple(loss for step in snapshot.steps[-1:] for loss in step.losses)


def _mended_lines(snapshot: Snapshot, shown: ReplayResult, style: Style) -> list[str]:
    """Return the losses of the step in the run, and in the replay."""
    lines, losses = [], _losses_in_run(snapshot)
    then = f"{_numbers(losses)} in the run, " if losses else ""
    here = f"{_numbers(shown.losses)} here; " if shown.losses else ""
    lines.append(f"  loss: {then}{here}it and all gradients are finite")
    exception = snapshot.truth.exception if snapshot.truth is not None else None
    if exception is not None:
        first = (exception.splitlines() or [""])[0]
        lines.append(f"  no exception here; in the run: {style.safe(first)}")
    return lines


def _numbers(losses: Sequence[float]) -> str:
    return ", ".join(f"{loss:.6g}" for loss in losses)


def _verdict(results: Sequence[ReplayResult], style: Style) -> str:
    match = all_match(results)
    if match is None:
        alike = [str(result.rank) for result in results if result.match]
        if not alike:
            return style.paint("nothing to compare with", "yellow")
        what = f"bit-identical on rank {', '.join(alike)}"
        return style.paint(what, "yellow") + "; the others could not be compared"
    if match:
        shown = results[0]
        what = "the same exception" if shown.exception else "bit-identical"
        return style.paint(what, "green") + _compared(results)
    differs = next(r.difference for r in results if r.match is False)
    if differs is None:
        return style.paint("not identical", "yellow")
    if differs.kind == "exception":
        found = (differs.found or "no exception").splitlines()[0]
        expected = (differs.expected or "none").splitlines()[0]
        return style.paint("not identical", "yellow") + f": {found}, in the run {expected}"
    name = style.safe(differs.name)
    firsts = {"loss": "the loss at", "gradient": "the gradient of", "weight": "the new weight"}
    first = f"{firsts[differs.kind]} {name}"
    gone = " is missing" if differs.found is None else " differs first"
    return style.paint("not identical", "yellow") + f": {first}{gone}"


def _compared(results: Sequence[ReplayResult]) -> str:
    """Return a description of the compared values."""
    count = sum(result.compared for result in results)
    losses = sum(result.losses_compared for result in results)
    if not count:
        return ""
    if count == losses:
        what = "the loss" if losses == 1 else f"{losses} losses"
        return f" (only {what}: the run kept no gradients to compare)"
    return f" ({count_of(count, 'digest')})"


def _precision(snapshot: Snapshot, shown: ReplayResult, converted: str) -> str:
    """Return whether the fault of the run also occurs here."""
    if not _was_unsound(snapshot):
        return f"computed in {converted}"
    if shown.nonfinite:
        return f"still not finite in {converted}, so the cause is the math, not the precision"
    return f"finite in {converted}, so the cause is the precision, not the math"
