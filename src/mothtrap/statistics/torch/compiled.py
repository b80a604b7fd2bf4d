"""Plain host tensors, reduced in place (`statistics.compiled`).

Large tensors are distributed over torch's threads (`team.py`). Installations without a C compiler
use torch operations for everything.

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
"""Element types, in the order of their kinds; the last kind represents all one-byte types."""
DIGESTED: Final = (
    *TALLIED,
    *(torch.int8, torch.int16, torch.int32, torch.int64, torch.bool),
    *(torch.complex64, torch.complex128),
)
"""Element types whose tensors are digested in place."""
_ITEM_BYTES: Final = np.array([dtype.itemsize for dtype in DIGESTED])


def copy(tensor: torch.Tensor, out_N: npt.NDArray[np.uint8]) -> None:
    """Copy the bytes of a tensor for which `in_place.lies_in_place` is true.

    Args:
        tensor: read without the dispatcher, because a mode of the user may be active.
        out_N: uint8, as many bytes.
    """
    built.arrays.copy_at(tensor.data_ptr(), tensor.nbytes, out_N)


def gather(pieces_T3: Integers, out_N: npt.NDArray[np.uint8]) -> None:
    """Copy data from many addresses into one memory block.

    Args:
        pieces_T3: int64, shape (T, 3): address, number of bytes, and offset in `out_N` of each
            piece.
        out_N: uint8.

    Raises:
        ValueError: a piece does not fit into `out_N`.
    """
    in_memory.gather(pieces_T3, out_N, TEAM.region())


def places(
    tensors: Sequence[torch.Tensor], dtypes: tuple[torch.dtype, ...] = SUMMARIZED
) -> Integers:
    """Return the address, number of elements and kind of each tensor, int64, shape (T, 3).

    Args:
        tensors: tensors of any type. The kind is -1 if a tensor is empty or cannot be read in
            place, and for all if the extension was not built.
        dtypes: `SUMMARIZED` for norms and summaries, `TALLIED` for tallies, `DIGESTED` for
            digests.
    """
    places_T3 = np.full((len(tensors), 3), -1)
    if built.arrays is not None:
        built.arrays.places([*tensors], PLAIN, dtypes, torch.strided, places_T3)
    return places_T3


def norms(places_T3: Integers) -> Floats:
    """Return Euclidean norms, float64, shape (T,); not finite if an element is not finite.

    Args:
        places_T3: result of `places` for tensors that are alive, without kind -1.
    """
    return in_memory.norms(places_T3, TEAM.region())


def summaries(places_T3: Integers) -> tuple[Floats, Flags]:
    """Return all columns of values, float64, shape (T, F), and a mask of valid rows, shape (T,).

    Args:
        places_T3: as for `norms`.

    Returns:
        Rows as described in `summary`. A row is invalid if an element is not finite, or if float32
        and float64 were not accurate enough.
    """
    return in_memory.summaries(places_T3, TEAM.region())


def row_reader() -> Callable[[torch.Tensor], bytes | None] | None:
    """Return a function, callable from C, that reads one tensor in place; see `rows_of`.

    It returns None for a tensor that cannot be read in place. There is no such function if the
    extension was not built.
    """
    kinds = PLAIN, SUMMARIZED, torch.strided
    return functools.partial(built.arrays.row, *kinds) if built.arrays is not None else None


def rows_of(found: Sequence[bytes]) -> tuple[Floats, Flags]:
    """Return the result of `summaries` from the results of `row_reader`."""
    read_TC = np.frombuffer(b"".join(found)).reshape(len(found), -1)
    return whole_rows(read_TC[:, 0], read_TC[:, 1:])


def digested_summaries(
    tensors: Sequence[torch.Tensor], places_T3: Integers
) -> tuple[Floats, Flags, Digests]:
    """Return the result of `summaries` and the digest of each tensor (`raw.digest`), in one pass.

    Args:
        tensors: tensors that are alive, of the types that `summaries` supports.
        places_T3: as for `norms`.

    Raises:
        ValueError: a tensor has no shape.
    """
    return in_memory.digested_summaries(places_T3, _seeds(tensors, places_T3), TEAM.region())


def digests(tensors: Sequence[torch.Tensor]) -> tuple[Digests, Flags]:
    """Return the digest (`raw.digest`) of each tensor stored contiguously on the host.

    Returns:
        uint64, shape (T,), and a mask of valid digests, shape (T,). Digests of empty tensors, and
        of tensors that must be converted or moved first, are invalid.
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
        places_T3: result of `places`, of `TALLIED` types, for tensors that are alive, without kind
            -1.

    Returns:
        For types of one byte, the number of elements with each byte value. For other types, bins of
        powers of two as in `statistics.exponents`, negative values first, followed by the counts
        outside of the bins.
    """
    return in_memory.tallies(places_T3, TEAM.region())
