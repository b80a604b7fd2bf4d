"""Plain tensors on the host, reduced where they lie (`statistics.compiled`).

Large ones are shared out among the threads that torch computes with (`team.py`). An installation
without a C compiler takes the operations of torch for everything.

Shape suffixes: T = tensors, F = fields.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from mothtrap.statistics import built
from mothtrap.statistics import compiled as in_memory
from mothtrap.statistics.compiled import Flags as Flags
from mothtrap.statistics.compiled import Integers as Integers
from mothtrap.statistics.compiled import whole_rows
from mothtrap.statistics.digest import Digests, seed_of
from mothtrap.statistics.summary import Floats
from mothtrap.statistics.torch.dtypes import type_name
from mothtrap.statistics.torch.in_place import PLAIN
from mothtrap.statistics.torch.team import TEAM

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
    in_memory.gather(pieces_T3, out_N, TEAM.region())


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
    return in_memory.norms(places_T3, TEAM.region())


def summaries(places_T3: Integers) -> tuple[Floats, Flags]:
    """Return all columns of values, float64, shape (T, F), and which rows hold, shape (T,).

    Args:
        places_T3: as for `norms`.

    Returns:
        Rows as described in `summary`. One does not hold where an element is not finite, or
        where float32 and float64 did not do.
    """
    return in_memory.summaries(places_T3, TEAM.region())


def row_reader() -> Callable[[torch.Tensor], bytes | None] | None:
    """Return what reads one tensor where it lies, for C to call; see `rows_of`.

    It returns None of a tensor that cannot be read so. There is none where the compiled part was
    not built.
    """
    kinds = PLAIN, SUMMARIZED, torch.strided
    return functools.partial(built.arrays.row, *kinds) if built.arrays is not None else None


def rows_of(found: Sequence[bytes]) -> tuple[Floats, Flags]:
    """Return what `summaries` would have of tensors, from what `row_reader` returned of each."""
    read_TC = np.frombuffer(b"".join(found)).reshape(len(found), -1)
    return whole_rows(read_TC[:, 0], read_TC[:, 1:])


def digested_summaries(
    tensors: Sequence[torch.Tensor], places_T3: Integers
) -> tuple[Floats, Flags, Digests]:
    """Return the result of `summaries` and the digest of each tensor (`raw.digest`), in one pass.

    Args:
        tensors: alive, of the types that `summaries` takes.
        places_T3: as for `norms`.

    Raises:
        ValueError: a tensor has no shape.
    """
    return in_memory.digested_summaries(places_T3, _seeds(tensors, places_T3), TEAM.region())


def digests(tensors: Sequence[torch.Tensor]) -> tuple[Digests, Flags]:
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
        found_T[taken_T] = in_memory.digests(pieces_T3, TEAM.region())
    return found_T, places_T3[:, 2] >= 0


def _seeds(tensors: Sequence[torch.Tensor], places_T3: Integers) -> Digests:
    seed_T = np.zeros(len(places_T3), np.uint64)
    built.arrays.seeds(tuple(tensors), _seed_of, places_T3, seed_T)
    return seed_T


@functools.lru_cache(maxsize=4096)
def _seed_of(dtype: torch.dtype, shape: torch.Size) -> int:
    return seed_of(type_name(dtype), tuple(shape))


def tallies(places_T3: Integers) -> Integers:
    """Count the elements of each tensor, int64, shape (T, 256).

    Args:
        places_T3: what `places` says, of `TALLIED` types, of tensors that are alive; no kind
            is -1.

    Returns:
        Of types of one byte how many elements are which byte. Of the others bins of powers of
        two as `statistics.exponents` has them, negative values first, and then those in no bin.
    """
    return in_memory.tallies(places_T3, TEAM.region())
