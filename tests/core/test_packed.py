from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mothtrap.core.errors import DamagedDataError
from mothtrap.core.packed import pack, unpack


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=50))
def test_numbers_come_back(values: list[int]) -> None:
    assert unpack(pack(values)).tolist() == values


@given(st.lists(st.integers(0, 70_000), max_size=50))
def test_small_numbers_come_back(values: list[int]) -> None:
    assert unpack(pack(values)).tolist() == values


def test_neighbors_take_no_bytes_each() -> None:
    assert pack(range(4096)) == "r0,4096"
    assert pack([7]) == "BBw=="
    assert unpack("r5,3").tolist() == [5, 6, 7]
    assert pack([5, 7, 7]).startswith("B")  # as far apart as neighbors, but not adjacent


def test_shuffled_indices_of_a_large_data_set_take_few_bytes() -> None:
    indices = [(i * 48_271) % 50_000 for i in range(32)]
    assert len(pack(indices)) < 90


@pytest.mark.parametrize(
    "text", ["x", "Bq", "B!!", "r1", "r0,99999999999", "r0,-1", "HAA==", "r0,1,2", "qAAAA"]
)
def test_what_is_no_packed_text_is_refused(text: str) -> None:
    with pytest.raises(DamagedDataError, match="is not in mothtrap's format"):
        unpack(text)


def test_numbers_of_more_than_64_bits_are_refused() -> None:
    with pytest.raises(OverflowError):
        pack([1, 2**64])
