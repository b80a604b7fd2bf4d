"""Samples of steps: as plain records for JSON, and as text.

Texts have no final newline; `style` describes the capabilities of the stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mothtrap.reader.samples.sample_index import BatchOfSamples, Sample, Samples, StepSamples
from mothtrap.reader.samples.suspects import Suspect, Suspects
from mothtrap.report.style import Style, count_of

PLAIN = Style()


def step_record(step: StepSamples) -> dict[str, Any]:
    """Return the known samples of a step as plain values."""
    return {
        "step": step.step,
        "worker": step.worker,
        "attempt": step.attempt,
        "batches": [_batch_record(batch) for batch in step.batches],
        "left_out": step.left_out,
    }


def sample_record(sample: Sample) -> dict[str, Any]:
    """Return the known properties of a sample as plain values."""
    found = {
        "data": sample.data if sample.data >= 0 else None,
        "index": sample.index if sample.index >= 0 else None,
        "name": sample.name or None,
        "digest": sample.digest or None,
    }
    return {key: value for key, value in found.items() if value is not None}


def steps_text(
    steps: Sequence[StepSamples],
    style: Style = PLAIN,
    limit: int = 20,
    most_steps: int | None = None,
) -> str:
    """Return the samples of some steps, one per line.

    Args:
        steps: steps in order of display, each of one rank.
        style: capabilities of the stream.
        limit: number of samples of a batch to show.
        most_steps: number of steps to show; None = all.
    """
    lines = []
    for step in steps[:most_steps]:
        for batch in step.batches:
            where = f"step {step.step}, rank {step.worker}"
            lines.append(f"{where}: {_about(batch, style)}")
            rows = list(enumerate(batch.samples))
            lines += [f"  row {row:<4} {_sample(sample, style)}" for row, sample in rows[:limit]]
            more = max(0, len(rows) - limit)
            if more:
                lines.append(f"  and {more} more: --limit {len(rows)}")
            missing = max(0, batch.told.rows - len(rows))
            if missing:
                lines.append(f"  {count_of(missing, 'further row')} not recorded")
        if step.left_out:
            lines.append(f"  {count_of(step.left_out, 'further micro-batch')} not stored")
    more_steps = len(steps[most_steps:]) if most_steps is not None else 0
    if more_steps:
        of_all = "s, of all ranks" if len({step.worker for step in steps}) > 1 else "s"
        word = "step" + of_all * (more_steps > 1)
        lines.append(f"and {more_steps:,} more {word}: --limit {len(steps)}")
    return "\n".join(lines) or "the samples of these steps are unknown"


def sightings(samples: Samples, wanted: str) -> list[dict[str, Any]]:
    """Return each matching sample, and the steps that trained on it, ascending."""
    found: dict[Sample, list[tuple[int, int]]] = {}
    for step, seen in samples.seen(wanted):
        for sample in dict.fromkeys(seen):
            found.setdefault(sample, []).append((step.step, step.worker))
    return [
        {
            **sample_record(sample),
            "steps": [{"step": step, "worker": worker} for step, worker in sorted(places)],
        }
        for sample, places in sorted(found.items())
    ]


def sightings_text(
    found: Sequence[dict[str, Any]], wanted: str, style: Style = PLAIN, limit: int = 20
) -> str:
    """Return the steps that trained on a sample, as text."""
    if not found:
        return (
            f"no step with known samples trained on {style.safe(wanted)!r}; pass a file name or "
            "its end, an index, or the digest of a row"
        )
    lines = []
    for sample in found:
        steps = [place["step"] for place in sample["steps"]]
        names = {key: sample.get(key, default) for key, default in _UNKNOWN.items()}
        more = f" and {len(steps) - limit} more" if len(steps) > limit else ""
        said = ", ".join(str(step) for step in steps[:limit]) + more
        lines.append(f"{_sample(Sample(**names), style)}: {count_of(len(steps), 'step')}: {said}")
    return "\n".join(lines)


def ranking_record(found: Suspects) -> dict[str, Any]:
    """Return a ranking as plain values."""
    return {
        "bad_steps": found.bad_steps,
        "steps": found.steps,
        "samples": found.samples,
        "ranked": [
            {
                **sample_record(suspect.sample),
                "bad": suspect.bad,
                "steps": suspect.steps,
                "lift": suspect.lift,
                "chance": suspect.chance,
                "stands_out": suspect.stands_out,
            }
            for suspect in found.ranked
        ],
    }


def ranking_text(found: Suspects, style: Style = PLAIN, limit: int = 20) -> str:
    """Return the samples of bad steps as text, and whether chance explains them."""
    head = f"{found.bad_steps} of {count_of(found.steps, 'step')} with known samples are bad"
    if not found.ranked:
        return f"{head}: there is nothing to rank"
    lines = [f"{head}; {found.samples:,} distinct samples were used"]
    out = [suspect for suspect in found.ranked if suspect.stands_out]
    if not out:
        lines.append(
            "no sample stands out: with so many samples, some are in bad steps this often by "
            "chance; more passes over the data, or more bad steps, would separate them"
        )
        sit = "sits" if len(found.ranked) == 1 else "sit"
        held = f"{count_of(len(found.ranked), 'sample')} {sit} in bad steps"
        return "\n".join([*lines, f"{held}: --format json lists all"])
    lines += [_suspect(suspect, style) for suspect in out[:limit]]
    if len(out) > limit:
        lines.append(f"and {len(out) - limit:,} more that stand out: --limit {len(out)}")
    if rest := len(found.ranked) - len(out):
        lines.append(f"{rest:,} more samples occur in bad steps no more often than by chance")
    return "\n".join(lines)


_UNKNOWN: dict[str, Any] = {"data": -1, "index": -1, "name": "", "digest": ""}


def _suspect(suspect: Suspect, style: Style) -> str:
    often = f"in {suspect.bad} bad steps of {suspect.steps:,}"
    chance = (
        f"probability {suspect.chance:.2g} by chance"
        if suspect.chance < 1
        else "chance explains it"
    )
    return (
        f"  {_sample(suspect.sample, style)}: {often}, {suspect.lift:.3g}x the usual rate; {chance}"
    )


def _batch_record(batch: BatchOfSamples) -> dict[str, Any]:
    told = batch.told
    return {
        "loader": told.loader or None,
        "pass": told.pass_number or None,
        "batch": told.number if told.loader else None,
        "loader_worker": told.worker,
        "seed": told.seed,
        "rows": told.rows,
        "sure": told.sure,
        "place": told.place or None,
        "data": [
            {"number": seen.data, "kind": seen.kind, "length": seen.length, "root": seen.root}
            for seen in batch.data
        ],
        "samples": [{"row": row, **sample_record(s)} for row, s in enumerate(batch.samples)],
    }


def _about(batch: BatchOfSamples, style: Style) -> str:
    told = batch.told
    parts = [count_of(told.rows, "row")]
    if told.loader:
        parts[0] += f" of {style.safe(told.loader)}, pass {told.pass_number}, batch {told.number}"
    else:
        parts[0] += f" passed to the model directly ({style.safe(told.place) or 'its input'})"
    if told.worker is not None:
        seed = f" (seed {told.seed})" if told.seed is not None else ""
        parts.append(f"loaded by worker {told.worker}{seed}")
    parts += [f"from {_kind(seen.kind, style)} {seen.data}" for seen in batch.data]
    if not told.sure:
        parts.append("assigned to this step by its size and the loading order")
    return ", ".join(parts)


def _kind(kind: str, style: Style) -> str:
    return style.safe(kind.rpartition(".")[2])


def _sample(sample: Sample, style: Style) -> str:
    parts: Iterable[str] = (
        f"index {sample.index}" if sample.index >= 0 else "",
        f"of dataset {sample.data}" if sample.index >= 0 and sample.data > 0 else "",
        style.safe(sample.name),
        f"digest {sample.digest}" if sample.digest else "",
    )
    return " ".join(part for part in parts if part)
