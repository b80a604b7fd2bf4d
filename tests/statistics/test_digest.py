from __future__ import annotations

import numpy as np
import pytest
import xxhash

from mothtrap.statistics import built
from mothtrap.statistics.digest import (
    BLOCKS,
    ROW_BYTES,
    digest_bits,
    digest_rows,
    row_bits,
    rows_sum,
)


@pytest.fixture(autouse=True, params=["compiled", "without"])
def compiled_part(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without":
        monkeypatch.setattr(built, "arrays", None)
    elif built.arrays is None:
        pytest.skip("built without a C compiler")


def rows(count: int, size: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, size)).astype(np.uint8)


def test_a_row_has_the_digest_of_its_bytes() -> None:
    data_RN = rows(5, 24)
    seed = xxhash.xxh3_64_intdigest(b"float32(2, 3)")
    expected = [xxhash.xxh3_64_intdigest(row.tobytes(), seed) for row in data_RN]
    assert digest_rows(data_RN.reshape(-1), 5, "float32", (2, 3)).tolist() == expected


def test_type_and_shape_count() -> None:
    data_N = rows(1, 24).reshape(-1)
    found = {
        digest_rows(data_N, 1, dtype, shape)[0]
        for dtype, shape in (("float32", (6,)), ("int32", (6,)), ("float32", (2, 3)))
    }
    assert len(found) == 3


def test_a_row_does_not_depend_on_those_beside_it() -> None:
    for size in (16, 3 * ROW_BYTES + 5):
        data_RN = rows(4, size)
        whole = digest_rows(data_RN.reshape(-1), 4, "uint8", (size,))
        assert len(set(whole.tolist())) == 4
        assert [digest_rows(row, 1, "uint8", (size,))[0] for row in data_RN] == whole.tolist()


def test_of_long_rows_begin_end_and_pieces_between_count() -> None:
    size = 10 * ROW_BYTES
    data_N = rows(1, size).reshape(-1)
    before = digest_rows(data_N, 1, "uint8", (size,))
    piece = ROW_BYTES // BLOCKS
    for place, counts in ((0, True), (size - 1, True), (piece + 1, False)):
        changed_N = data_N.copy()
        changed_N[place] ^= 1
        assert (digest_rows(changed_N, 1, "uint8", (size,)) != before) == counts


def test_rows_without_bytes_have_none() -> None:
    assert digest_rows(np.empty(0, np.uint8), 3, "float32", (0,)).tolist() == []


def test_the_sum_of_rows_is_that_of_their_digests() -> None:
    data_RN = rows(70, 24)
    digests = [xxhash.xxh3_64_intdigest(row.tobytes()) for row in data_RN]
    assert rows_sum(data_RN) == sum(digests) % 2**64


def test_sums_of_rows_do_not_depend_on_their_order_and_add_up() -> None:
    data_RN = rows(6, 24)
    whole = rows_sum(data_RN)
    assert rows_sum(data_RN[::-1].copy()) == whole
    assert (rows_sum(data_RN[:2]) + rows_sum(data_RN[2:])) % 2**64 == whole
    data_RN[3, 5] ^= 1
    assert rows_sum(data_RN) != whole
    assert rows_sum(np.empty((3, 0), np.uint8)) == 0


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64, np.uint8])
def test_rows_of_zeros_and_ones_differ_in_every_type(kind: type) -> None:
    values = np.random.default_rng(0).integers(0, 2, (4000, 200)).astype(kind)
    assert len(np.unique(digest_bits(row_bits(values)))) == 4000
