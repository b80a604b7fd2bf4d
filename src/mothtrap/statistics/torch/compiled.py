"""Plain tensors on the host, reduced by the compiled part of the package where it was built.

It reads where a tensor lies, once, without the calls and temporaries of torch operations: 4 to
10 times as fast. Large ones are shared out among the threads that torch computes with
(`team.py`). An installation without a C compiler does not have it, and takes the operations of
torch for everything.

Shape suffixes: T = tensors, F = fields.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from mothtrap.statistics import built
from mothtrap.statistics.digest import seed_of
from mothtrap.statistics.summary import COLUMN, WIDTH, Floats
from mothtrap.statistics.torch.dtypes import type_name
from mothtrap.statistics.torch.in_place import PLAIN
from mothtrap.statistics.torch.team import TEAM

Integers = npt.NDArray[np.int64]
Digests = npt.NDArray[np.uint64]

SUMMARIZED: Final = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
TALLIED: Final = (*SUMMARIZED, torch.uint8)
"""Element types, in the order of their kinds; the last one stands for all of one byte."""
DIGESTED: Final = (
    *TALLIED,
    *(torch.int8, torch.int16, torch.int32, torch.int64, torch.bool),
    *(torch.complex64, torch.complex128),
)
"""Element types whose tensors are digested where they lie."""
_ITEM_BYTES: Final = np.array([dtype.itemsize for dtype in DIGESTED])
_TALLIES: Final = 256
_COLUMNS: Final = slice(COLUMN["zero"], COLUMN["l2"] + 1)
"""Zero, min, max, mean, deviation_l2, abs_sum, l2: a test pins them."""


def copy(tensor: torch.Tensor, out_N: npt.NDArray[np.uint8]) -> None:
    """Copy the bytes of a tensor that `in_place.lies_in_place`.

    Args:
        tensor: is read past the dispatcher, where a mode of the user's may be on.
        out_N: uint8, as many bytes.
    """
    built.arrays.copy_at(tensor.data_ptr(), tensor.nbytes, out_N)


def gather(pieces_T3: Integers, out_N: npt.NDArray[np.uint8]) -> None:
    """Copy what lies at many places into one piece of memory.

    Args:
        pieces_T3: int64, shape (T, 3): address, bytes and place in `out_N` of each.
        out_N: uint8.

    Raises:
        ValueError: one does not fit into `out_N`.
    """
    built.arrays.gather(pieces_T3, out_N, TEAM.region())


def places(
    tensors: Sequence[torch.Tensor], dtypes: tuple[torch.dtype, ...] = SUMMARIZED
) -> Integers:
    """Return address, number of elements and kind of each tensor, int64, shape (T, 3).

    Args:
        tensors: of any type. The kind is -1 of one that is empty or cannot be read where it
            lies, and of all where the compiled part was not built.
        dtypes: `SUMMARIZED` for norms and summaries, `TALLIED` for tallies, `DIGESTED` for
            digests.
    """
    places_T3 = np.full((len(tensors), 3), -1)
    if built.arrays is not None:
        built.arrays.places([*tensors], PLAIN, dtypes, torch.strided, places_T3)
    return places_T3


def norms(places_T3: Integers) -> Floats:
    """Return Euclidean norms, float64, shape (T,); not finite where an element is not.

    Args:
        places_T3: what `places` says of tensors that are alive; no kind is -1.
    """
    l2_T = np.empty(len(places_T3))
    built.arrays.norms(places_T3, l2_T, TEAM.region())
    return l2_T


def summaries(places_T3: Integers) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return all columns of values, float64, shape (T, F), and which rows hold, shape (T,).

    Args:
        places_T3: as for `norms`.

    Returns:
        Rows as described in `summary`. One does not hold where an element is not finite, or
        where float32 and float64 did not do.
    """
    rows = np.empty((len(places_T3), _COLUMNS.stop - _COLUMNS.start))
    built.arrays.summaries(places_T3, rows, TEAM.region())
    return _whole_rows(places_T3[:, 1], rows)


def row_reader() -> Callable[[torch.Tensor], bytes | None] | None:
    """Return what reads one tensor where it lies, for C to call; see `rows_of`.

    It returns None of a tensor that cannot be read so. There is none where the compiled part was
    not built.
    """
    kinds = PLAIN, SUMMARIZED, torch.strided
    return functools.partial(built.arrays.row, *kinds) if built.arrays is not None else None


def rows_of(found: Sequence[bytes]) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return what `summaries` would have of tensors, from what `row_reader` returned of each."""
    read_TC = np.frombuffer(b"".join(found)).reshape(len(found), -1)
    return _whole_rows(read_TC[:, 0], read_TC[:, 1:])


def digested_summaries(
    tensors: Sequence[torch.Tensor], places_T3: Integers
) -> tuple[Floats, npt.NDArray[np.bool_], Digests]:
    """Return what `summaries` does, and the digest of each tensor (`raw.digest`), in one read.

    Args:
        tensors: alive, of the types that `summaries` takes.
        places_T3: as for `norms`.

    Raises:
        ValueError: a tensor has no shape.
    """
    rows = np.empty((len(places_T3), _COLUMNS.stop - _COLUMNS.start))
    digest_T = _seeds(tensors, places_T3)
    built.arrays.digested_summaries(places_T3, rows, digest_T, TEAM.region())
    return *_whole_rows(places_T3[:, 1], rows), digest_T


def digests(tensors: Sequence[torch.Tensor]) -> tuple[Digests, npt.NDArray[np.bool_]]:
    """Return the digest of each tensor (`raw.digest`) that lies plainly on the host.

    Returns:
        uint64, shape (T,), and which of them hold, shape (T,): not those of types, layouts
        and devices that have to be moved first, nor of empty tensors.
    """
    places_T3 = places(tensors, DIGESTED)
    found_T = np.zeros(len(tensors), np.uint64)
    if built.arrays is not None:
        found_T = _seeds(tensors, places_T3)
        places_T3[:, 1] *= _ITEM_BYTES[places_T3[:, 2]]
        taken_T = places_T3[:, 2] >= 0
        pieces_T3 = np.column_stack([places_T3[taken_T, :2], found_T[taken_T].view(np.int64)])
        digest_T = np.empty(len(pieces_T3), np.uint64)
        built.arrays.digests(np.ascontiguousarray(pieces_T3), digest_T, TEAM.region())
        found_T[taken_T] = digest_T
    return found_T, places_T3[:, 2] >= 0


def _seeds(tensors: Sequence[torch.Tensor], places_T3: Integers) -> Digests:
    seed_T = np.zeros(len(places_T3), np.uint64)
    built.arrays.seeds(tuple(tensors), _seed_of, places_T3, seed_T)
    return seed_T


@functools.lru_cache(maxsize=4096)
def _seed_of(dtype: torch.dtype, shape: torch.Size) -> int:
    return seed_of(type_name(dtype), tuple(shape))


def _whole_rows(
    count_T: npt.NDArray[Any], rows: npt.NDArray[np.float64]
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    rows_TF = np.full((len(rows), WIDTH), np.nan)
    rows_TF[:, _COLUMNS] = rows
    rows_TF[:, COLUMN["count"]] = count_T
    rows_TF[:, COLUMN["nan"]] = rows_TF[:, COLUMN["inf"]] = 0.0
    right_T: npt.NDArray[np.bool_] = np.all(np.isfinite(rows), axis=1)
    return rows_TF, right_T


def tallies(places_T3: Integers) -> Integers:
    """Count the elements of each tensor, int64, shape (T, 256).

    Args:
        places_T3: what `places` says, of `TALLIED` types, of tensors that are alive; no kind
            is -1.

    Returns:
        Of types of one byte how many elements are which byte. Of the others bins of powers of
        two as `statistics.exponents` has them, negative values first, and then those in no bin.
    """
    found = np.zeros((len(places_T3), _TALLIES), np.int64)
    built.arrays.tallies(places_T3, found, TEAM.region())
    return found
