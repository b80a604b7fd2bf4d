"""Index of the samples that each step trained on."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np

from mothtrap.core.facts.samples import DataSeen, SampleBatch, SamplesNamed
from mothtrap.core.packed import unpack
from mothtrap.reader.files.parts import Part, Span

HEX_DIGITS = 16
"""Number of printed digits of a row's digest."""
SHOWN = 4
"""Number of printed samples of a batch."""
_Wants = Callable[[int], bool]


class Sample(NamedTuple):
    """One sample, identified by its index in a data set, its name, or a digest of its row.

    Attributes:
        data: number of its dataset, in order of first use in the job; -1 = unknown.
        index: index in the dataset; -1 = unknown.
        name: name of its file, or its name in the batch; "" = unknown.
        digest: digest of the row, 16 hexadecimal digits; "" = unknown.
    """

    data: int = -1
    index: int = -1  # type: ignore[assignment]  # that of tuples is of no use here
    name: str = ""
    digest: str = ""

    def __str__(self) -> str:
        return self.name or (str(self.index) if self.index >= 0 else self.digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOfSamples:
    """Samples of one batch, in the order of its rows.

    `told` is the recorded batch; `data` contains the datasets of the samples.
    """

    told: SampleBatch
    samples: tuple[Sample, ...]
    data: tuple[DataSeen, ...]

    def __repr__(self) -> str:
        return f"<BatchOfSamples of {self.told.rows} rows{_shown(self.samples)}>"

    @property
    def missing(self) -> int:
        """Number of rows that were not recorded."""
        return max(0, self.told.rows - len(self.samples))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSamples:
    """Samples that a rank trained on in a step.

    `left_out` is the number of batches that were not recorded.
    """

    step: int
    worker: int
    attempt: int
    batches: tuple[BatchOfSamples, ...]
    left_out: int = 0

    def __repr__(self) -> str:
        samples = tuple(sample for batch in self.batches for sample in batch.samples)
        batches = f" in {len(self.batches)} batches" if len(self.batches) > 1 else ""
        count = f"{len(samples)} sample{'' if len(samples) == 1 else 's'}{batches}"
        return f"<StepSamples step {self.step}, rank {self.worker}, {count}{_shown(samples)}>"


class Samples:
    """Samples that each step of a run trained on.

    Args:
        span: the run, or a part of it.
    """

    def __init__(self, span: Span) -> None:
        self._span = span

    def at(self, step: int) -> tuple[StepSamples, ...]:
        """Return the samples that each rank trained on in a step of the job, by rank."""
        return tuple(self._read(lambda number: number == step))

    def among(self, steps: Collection[int]) -> Iterator[StepSamples]:
        """Yield the samples that the ranks trained on in the given steps."""
        wanted = frozenset(steps)
        return self._read(lambda number: number in wanted)

    def steps(self) -> Iterator[StepSamples]:
        """Yield the samples that the ranks trained on, rank after rank, step after step."""
        return self._read(lambda _: True)

    def data(self) -> tuple[DataSeen, ...]:
        """Return the distinct datasets that were trained on."""
        found = {
            seen.data: seen
            for part in self._span.all_parts()
            for seen in part.view.observations
            if isinstance(seen, DataSeen)
        }
        return tuple(found[number] for number in sorted(found))

    def seen(self, wanted: str) -> tuple[tuple[StepSamples, tuple[Sample, ...]], ...]:
        """Return the steps that trained on a sample, each with the matching samples.

        Args:
            wanted: name of the sample, the end of its name after a separator, index, or digest.
        """
        return tuple(self._seen(wanted))

    def _seen(self, wanted: str) -> Iterator[tuple[StepSamples, tuple[Sample, ...]]]:
        for worker in self._span.workers:
            for part in self._span.parts(worker):
                reader = _PartReader(worker, part)
                for step in reader.read(lambda _: True, _Wanted(wanted, reader.data)):
                    samples = (sample for batch in step.batches for sample in batch.samples)
                    found = tuple(s for s in samples if _is_wanted(s, wanted, reader.data))
                    if found:
                        yield step, found

    def _read(self, wants: _Wants) -> Iterator[StepSamples]:
        for worker in self._span.workers:
            for part in self._span.parts(worker):
                yield from _PartReader(worker, part).read(wants)


class _PartReader:
    """Reads the samples that a rank trained on in an attempt."""

    def __init__(self, worker: int, part: Part) -> None:
        self._worker, self._part = worker, part
        self._names: dict[tuple[int, int], str] = {}
        self._digests: dict[str, tuple[int, str]] = {}
        observations = part.view.observations
        self.data = {o.data: o for o in observations if isinstance(o, DataSeen)}

    def read(self, wants: _Wants, wanted: _Wanted | None = None) -> Iterator[StepSamples]:
        """Yield the steps that are wanted.

        Args:
            wants: returns whether a step is wanted, given its number.
            wanted: sample that the steps must contain; None = any.
        """
        for told in self._part.view.samples():
            if isinstance(told, SamplesNamed):
                indices = unpack(told.indices).tolist()
                names = {(told.data, i): n for i, n in zip(indices, told.names, strict=False)}
                self._names |= names
                if wanted is not None:
                    wanted.learn(names)
                continue
            batches = [self._whole(batch, told.step) for batch in told.batches]
            if wanted is not None and not any(wanted.may_be_in(batch) for batch in batches):
                continue
            if self._part.has(told.step, told.mode) and wants(told.step):
                yield StepSamples(
                    step=told.step,
                    worker=self._worker,
                    attempt=self._part.attempt,
                    batches=tuple(self._batch(batch) for batch in batches),
                    left_out=told.left_out,
                )

    def _whole(self, batch: SampleBatch, step: int) -> SampleBatch:
        """Fill in digests that equal digests of an earlier step."""
        if batch.digests:
            self._digests[batch.loader] = step, batch.digests
        elif batch.same_as is not None:
            before, digests = self._digests.get(batch.loader, (-1, ""))
            if before == batch.same_as:
                return msgspec.structs.replace(batch, digests=digests)
        return batch

    def _batch(self, batch: SampleBatch) -> BatchOfSamples:
        samples = tuple(self._samples(batch))
        numbers = sorted({sample.data for sample in samples} - {-1})
        data = tuple(self.data[number] for number in numbers if number in self.data)
        return BatchOfSamples(told=batch, samples=samples, data=data)

    def _samples(self, batch: SampleBatch) -> Iterator[Sample]:
        data = batch.data if batch.data is not None else -1
        if batch.indices:
            indices = unpack(batch.indices).tolist()
            sets = unpack(batch.sets).tolist() if batch.sets else [data] * len(indices)
            for number, index in zip(sets, indices, strict=False):
                yield Sample(number, index, self._names.get((number, index), ""))
        elif batch.names:
            yield from (Sample(data, -1, name) for name in batch.names)
        else:
            for digest in unpack(batch.digests).view(np.uint64).tolist():
                yield Sample(data, -1, "", f"{digest:0{HEX_DIGITS}x}")


class _Wanted:
    """Filter of the batches that may contain a sample.

    Args:
        wanted: as in `Samples.seen`.
        data: datasets, by number.
    """

    def __init__(self, wanted: str, data: Mapping[int, DataSeen]) -> None:
        self._wanted, self._data = wanted, data
        number = int(wanted) if wanted.isdecimal() and len(wanted) < HEX_DIGITS else None
        self._indices = {number} if number is not None else set()
        digest = int(wanted, 16) if re.fullmatch(f"[0-9a-f]{{{HEX_DIGITS}}}", wanted) else None
        self._digest = None if digest is None else np.uint64(digest)

    def learn(self, names: Mapping[tuple[int, int], str]) -> None:
        """Add the names of samples."""
        for (data, index), name in names.items():
            if _is_wanted(Sample(data, index, name), self._wanted, self._data):
                self._indices.add(index)

    def may_be_in(self, batch: SampleBatch) -> bool:
        """Return whether a batch must be inspected sample by sample."""
        if batch.indices:
            if not self._indices:
                return False
            return not self._indices.isdisjoint(unpack(batch.indices).tolist())
        if batch.names:
            return True
        digests_N = unpack(batch.digests).view(np.uint64)
        return self._digest is not None and bool((digests_N == self._digest).any())


def _is_wanted(sample: Sample, wanted: str, data: Mapping[int, DataSeen]) -> bool:
    if sample.name:
        root = data[sample.data].root if sample.data in data else ""
        whole = root + sample.name
        if wanted in (sample.name, whole) or whole.endswith(os.sep + wanted.lstrip(os.sep)):
            return True
    return wanted in (str(sample.index), sample.digest) and wanted not in ("", "-1")


def _shown(samples: tuple[Sample, ...]) -> str:
    """Return the first samples, after a colon."""
    names = [str(sample) for sample in samples[:SHOWN]]
    names += ["..."] if len(samples) > SHOWN else []
    return ": " + ", ".join(names) if names else ""
