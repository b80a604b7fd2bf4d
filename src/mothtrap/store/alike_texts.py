"""Texts of a column that differ in one number, read without creating an object for each text.

Shape suffixes: C = texts, B = bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view

from mothtrap.store.unpacking import texts_of

LEAST = 512
"""Number of texts from which this is faster than reading texts one by one; measured: 1.5 us each
instead of 0.2.
"""
MOST_KINDS = 8
"""Maximum number of kinds of texts that are searched for; chosen by hand. A training run has one to
three kinds.
"""
MOST_DIGITS = 24
"""Maximum number of characters of a number; the longest float64 has 24."""
Ints = npt.NDArray[np.int64]


class Alike(NamedTuple):
    """Texts that differ only in their number.

    Attributes:
        text: the first of these texts.
        rest: text after the number and a comma.
        place_C: their positions among the requested rows.
        number_C: the number of each.
    """

    text: bytes
    rest: bytes
    place_C: Ints
    number_C: npt.NDArray[np.float64]


def alike_but_for_a_number(column: pa.Array, rows: Ints, head: bytes) -> Iterator[Alike]:
    """Yield groups of texts of the form `HEAD NUMBER , REST` with the same rest.

    Args:
        column: column of texts.
        rows: requested rows.
        head: beginning of the texts.

    Returns:
        Groups with fewer than `LEAST` rows are omitted, and some other texts may be, too.

    Raises:
        TypeError: the column does not contain text.
    """
    if len(rows) < LEAST:
        return
    offset_N, data = texts_of(column)
    start_C, stop_C = offset_N[rows], offset_N[rows + 1]
    byte_B, open_C = np.frombuffer(data, np.uint8), np.arange(len(rows))
    for _ in range(MOST_KINDS):
        if not len(open_C):
            return
        text = data[start_C[open_C[0]] : stop_C[open_C[0]]].tobytes()
        first, comma, rest = text.partition(b",")
        if not comma or not first.startswith(head):
            return
        tail = comma + rest
        digits_C = stop_C[open_C] - start_C[open_C] - len(head) - len(tail)
        place_C = open_C[(digits_C > 0) & (digits_C <= MOST_DIGITS)]
        place_C = place_C[_begin_with(byte_B, start_C[place_C], head)]
        place_C = place_C[_begin_with(byte_B, stop_C[place_C] - len(tail), tail)]
        try:
            begin_C = start_C[place_C] + len(head)
            number_C = _numbers(byte_B, begin_C, stop_C[place_C] - len(tail))
        except ValueError:
            return
        if not len(place_C):
            return
        yield Alike(text, rest, place_C, number_C)
        if len(place_C) == len(open_C):
            return
        open_C = np.setdiff1d(open_C, place_C, assume_unique=True)


def _begin_with(byte_B: npt.NDArray[np.uint8], start_C: Ints, word: bytes) -> npt.NDArray[np.bool_]:
    """Return the positions of a word; enough bytes must follow each position."""
    if not len(start_C):
        return np.zeros(0, np.bool_)
    window_CB = sliding_window_view(byte_B, len(word))[start_C]
    found: npt.NDArray[np.bool_] = window_CB.view(f"S{len(word)}")[:, 0] == word
    return found


def _numbers(byte_B: npt.NDArray[np.uint8], start_C: Ints, stop_C: Ints) -> npt.NDArray[np.float64]:
    """Return the numbers whose digits are between two positions.

    Raises:
        ValueError: a text is not a number, or is at the end of the bytes.
    """
    digits_C = stop_C - start_C
    width = int(digits_C.max(initial=1))
    if len(start_C) and start_C.max() + width > len(byte_B):
        raise ValueError("too few bytes")
    digit_CB = sliding_window_view(byte_B, width)[start_C]
    digit_CB[np.arange(width) >= digits_C[:, np.newaxis]] = 0
    return digit_CB.view(f"S{width}")[:, 0].astype(np.float64)
