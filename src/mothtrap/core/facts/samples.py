"""Facts about which samples were trained on, and when."""

from __future__ import annotations

import msgspec

from mothtrap.core.fact import Fact


class SampleBatch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The samples of one batch, row by row; numbers are packed (`core.packed`).

    `loader` is the label of the loader, "" where the batch was put together by hand.
    `rows` counts its rows, of which the first so many are told. `data`: the number of the
    data set (see `DataSeen`) that all `indices` mean; None where they mean several, whose
    numbers are then in `sets`, one a row. `names`: what the batch itself called its rows,
    where there are no indices. `digests`: a number of 64 bits for each row where nothing
    else is known, of the tensor at `place`; equal for equal bits. `same_as`: the step of
    this worker that has the same digests, which are not repeated. `pass_number` and
    `number` count passes of the loader from 1, and batches of the pass from 0. `worker` is
    the loader's process that made the batch, with its `seed`; None without such. `sure` is
    False where a model was called with tensors of other memory, moved to a device, say, or
    changed on the way: the batch is then known by its size and the order of loading alone.
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
    """Samples that a step trained on, one batch for each micro-batch; one fact a step.

    `left_out` batches were too many to be told.
    """

    batches: tuple[SampleBatch, ...]
    left_out: int = 0


class DataSeen(Fact, frozen=True, kw_only=True, tag=True):
    """A data set that a loader draws from, below all subsets and concatenations.

    `data` is its number, `kind` its class, `length` None where unknown. `names_in` is
    the attribute that holds names of files, `root` what all names that are told (see
    `SamplesNamed`) lack at their beginning; both empty where there are none. `digest` is
    one of the first batch that was handed over, bit by bit: "" where that was not on the
    host. `sorted_names`: whether the first names of files stand in their order; None where
    there are none. `generators` are attributes that hold random generators of its own. `content` is
    a digest of the whole set, where it lies in memory or brings its own; "" else.
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
    """Names of samples of a data set, told when they are first trained on.

    `indices` are packed (`core.packed`), one for each of `names`.
    """

    data: int
    indices: str
    names: tuple[str, ...]
