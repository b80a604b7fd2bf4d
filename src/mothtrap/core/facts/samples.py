"""Facts about the samples that each step trained on."""

from __future__ import annotations

import msgspec

from mothtrap.core.fact import Fact


class SampleBatch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Samples of one batch, row by row; numbers are packed (`core.packed`).

    Attributes:
        loader: label of the loader; "" if the script assembled the batch without a loader.
        rows: number of rows, only the first of which are recorded.
        data: number of the data set (see `DataSeen`) that all `indices` refer to; None if they
            refer to several data sets.
        indices: index of each row in its data set.
        sets: number of each row's dataset, if there are several.
        names: names of the rows in the batch itself, if there are no indices.
        digests: a 64-bit number per row of the tensor at `place`, if nothing else is known; equal
            for equal bits.
        place: the tensor from which the digests were computed.
        same_as: earlier step of this worker with the same digests, which are not repeated.
        pass_number: pass of the loader, from 1.
        number: number of the batch in the pass, from 0.
        worker: process of the loader that made the batch; None without worker processes.
        seed: seed of that process.
        sure: False if the model was called with tensors in different memory, e.g. after a move to a
            device or a change. Then the batch is identified only by its size and the loading order.
    """

    loader: str = ""
    rows: int = 0
    data: int | None = None
    indices: str = ""
    sets: str = ""
    names: tuple[str, ...] = ()
    digests: str = ""
    place: str = ""
    same_as: int | None = None
    pass_number: int = 0
    number: int = 0
    worker: int | None = None
    seed: int | None = None
    sure: bool = True


class SamplesTaken(Fact, frozen=True, kw_only=True, tag=True):
    """Samples of a training step, with one batch per micro-batch; one fact per step.

    `left_out` is the number of batches beyond the limit, which are not recorded.
    """

    batches: tuple[SampleBatch, ...]
    left_out: int = 0


class DataSeen(Fact, frozen=True, kw_only=True, tag=True):
    """Data set that a loader draws from, below all subsets and concatenations.

    Attributes:
        data: number of the data set.
        loader: label of the loader.
        kind: class of the data set.
        length: number of samples; None if unknown.
        names_in: attribute with the names of files; "" without names.
        root: common beginning of all names, which `SamplesNamed` omits; "" without names.
        digest: bit-exact digest of the first batch; "" if it was not in host memory.
        sorted_names: True if the first file names are sorted; None without names.
        generators: attributes with random generators of the data set.
        content: digest of the whole data set, if it is in memory or provides a digest; otherwise
            "".
    """

    data: int
    loader: str
    kind: str
    length: int | None = None
    names_in: str = ""
    root: str = ""
    digest: str = ""
    sorted_names: bool | None = None
    generators: tuple[str, ...] = ()
    content: str = ""


class SamplesNamed(Fact, frozen=True, kw_only=True, tag=True):
    """Names of samples of a data set, recorded when they are first trained on.

    `indices` are packed (`core.packed`), one for each of `names`.
    """

    data: int
    indices: str
    names: tuple[str, ...]
