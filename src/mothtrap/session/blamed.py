"""Names of the samples in the rows that make a step fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from mothtrap.core.errors import MothtrapError
from mothtrap.core.replays import ReplayResult
from mothtrap.core.snapshots import Snapshot
from mothtrap.reader.run import open_run
from mothtrap.reader.samples.sample_index import BatchOfSamples, Sample, StepSamples

DIGEST = "digest "


def with_samples(
    run: Path, snapshot: Snapshot, results: Sequence[ReplayResult]
) -> tuple[ReplayResult, ...]:
    """Add the samples of the rows to the results, as far as the run records them.

    Args:
        run: folder of the run.
        snapshot: snapshot of the step.
        results: results of its workers.
    """
    if not any(result.rows for result in results):
        return tuple(results)
    try:
        steps = list(open_run(run).samples.at(snapshot.step))
    except (MothtrapError, OSError, ValueError):  # damaged data is reported elsewhere
        return tuple(results)
    return tuple(_named(result, snapshot.attempt, steps) for result in results)


def _named(result: ReplayResult, attempt: int, steps: Sequence[StepSamples]) -> ReplayResult:
    own = [one for one in steps if (one.worker, one.attempt) == (result.rank, attempt)]
    batches = _batches(result, own)
    names = tuple(" or ".join(_names(row, batches)) for row in result.rows)
    if not any(names):
        return result
    known = zip(result.rows, names, strict=True)
    which = "" if all(batch.told.sure for batch in batches) else "probably "
    of = f" of micro-batch {result.micro_batch}" if result.micro_batch is not None else ""
    told = tuple(f"row {row}{of} {_is_sample(name, which)}" for row, name in known if name)
    return msgspec.structs.replace(result, samples=names, told=(*result.told, *told))


def _batches(result: ReplayResult, steps: Sequence[StepSamples]) -> list[BatchOfSamples]:
    """Return the batches of a step to which rows may belong, judging by batch size."""
    every = [batch for step in steps for batch in step.batches]
    if result.micro_batch is not None:
        every = every[result.micro_batch : result.micro_batch + 1]
    return [batch for batch in every if batch.told.rows == result.batch_rows]


def _names(row: int, batches: Sequence[BatchOfSamples]) -> Iterator[str]:
    """Yield the names of a row in some batches."""
    for batch in batches:
        if row < len(batch.samples):
            yield _words(batch.samples[row])


def _is_sample(name: str, which: str) -> str:
    """Describe a row; without an index or name, by its digest."""
    if name.startswith(DIGEST):
        return f"has the {name}: mothtrap samples --seen {name.removeprefix(DIGEST)}"
    return f"is {which}sample {name} of the data"


def _words(sample: Sample) -> str:
    if sample.index >= 0:
        return f"{sample.index} ({sample.name})" if sample.name else str(sample.index)
    return sample.name or f"{DIGEST}{sample.digest}"
