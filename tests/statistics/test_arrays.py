"""Promises of every arithmetic module, checked for each with the same values."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.statistics.oracle import (
    VALUE_STATISTICS,
    assert_close,
    counted_exponents,
    expected,
)

from mothtrap.statistics import built
from mothtrap.statistics import numpy as host
from mothtrap.statistics.arrays import HostArrays
from mothtrap.statistics.digest import digest_bytes
from mothtrap.statistics.summary import COLUMN

DTYPES = [
    *("float16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "bool"),
    "complex64",
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e4m3fn,
]


class Boxed:
    """An array of a library that only returns its values."""

    def __init__(self, values):
        self._values = values

    def read(self):
        return self._values


def _numpy():
    return host, lambda values: values


def _boxed():
    return HostArrays(Boxed.read), Boxed


def _torch():
    torch = pytest.importorskip("torch")
    from mothtrap.statistics import torch as arithmetic

    def of(values):
        if values.dtype.name in ("bfloat16", "float8_e5m2", "float8_e4m3fn"):
            bits = torch.from_numpy(values.copy().view(f"i{values.itemsize}"))
            return bits.view(getattr(torch, values.dtype.name))
        return torch.from_numpy(values.copy("K"))

    return arithmetic, of


LIBRARIES = {"numpy": _numpy, "a library on the host": _boxed, "torch": _torch}


@pytest.fixture(params=LIBRARIES)
def library(request):
    return LIBRARIES[request.param]()


@pytest.fixture(params=["compiled", "not compiled"], autouse=True)
def compiled(request, monkeypatch):
    if request.param == "not compiled":
        monkeypatch.setattr(built, "arrays", None)


def _values(dtype, shape=(7, 5)):
    drawn = np.asarray(np.random.default_rng(3).normal(0.0, 3.0, shape))
    if np.dtype(dtype).kind == "u":
        drawn = np.asarray(np.abs(drawn))
    drawn.flat[::6] = 0.0
    if np.dtype(dtype) == np.complex64:
        drawn = drawn + 1j * (drawn - 2)
    return np.asarray(drawn).astype(dtype)


def _real(values):
    parts = values.reshape(-1)
    return parts.view(np.float32) if np.iscomplexobj(values) else parts


def _plain(values):
    return _real(values).astype(np.float64)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_of_every_type_equal_the_oracle(library, dtype):
    arithmetic, of = library
    arrays = [_values(dtype), _values(dtype, (1,)), _values(dtype, (0, 3)), _values(dtype, ())]
    rows = arithmetic.summarize([of(a) for a in arrays], VALUE_STATISTICS)
    for row, array in zip(rows, arrays, strict=True):
        assert_close(row, expected(_plain(array)))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_norms_equal_the_oracle_and_hold_nothing_else(library, dtype):
    arithmetic, of = library
    arrays = [_values(dtype), _values(dtype, (0, 3)), _values(dtype, (2000,))]
    rows = arithmetic.norms([of(a) for a in arrays])
    for row, array in zip(rows, arrays, strict=True):
        wanted = expected(_plain(array))
        for name in ("count", "nan", "inf"):
            assert row[COLUMN[name]] == wanted[COLUMN[name]]
        assert row[COLUMN["l2"]] == pytest.approx(wanted[COLUMN["l2"]], rel=1e-5)
        assert np.isnan(row[COLUMN["mean"]])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ml_dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("bad", [[np.nan], [np.inf, -np.inf], [np.nan, np.inf]])
def test_what_is_not_finite_is_counted_and_the_rest_is_measured(library, dtype, bad):
    arithmetic, of = library
    values = _values(dtype, (50, 7))
    values[3, : len(bad)] = bad
    whole = np.full((4,), np.nan, values.dtype)
    for array in (values, whole):
        wanted = expected(array)
        assert_close(arithmetic.summarize([of(array)], VALUE_STATISTICS)[0], wanted)
        norm = arithmetic.norms([of(array)])[0]
        for name in ("count", "nan", "inf", "l2"):
            assert norm[COLUMN[name]] == pytest.approx(wanted[COLUMN[name]], rel=1e-5), name


@pytest.mark.parametrize("size", [1e-30, 1e30, 3e38])
def test_squares_may_leave_float32(library, size):
    arithmetic, of = library
    array = (np.array([1.0, -0.5, 0.25, 0.0]) * size).astype(np.float32)
    assert_close(arithmetic.summarize([of(array)], VALUE_STATISTICS)[0], expected(array))
    l2 = arithmetic.norms([of(array)])[0][COLUMN["l2"]]
    assert l2 == pytest.approx(expected(array)[COLUMN["l2"]], rel=1e-5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_exponents_are_those_counted_one_by_one(library, dtype):
    arithmetic, of = library
    arrays = [_values(dtype), _values(dtype, (0,)), _values(dtype, (300,))]
    found = arithmetic.count_exponents_of([of(a) for a in arrays])
    for counts, array in zip(found, arrays, strict=True):
        assert np.array_equal(counts, counted_exponents(_plain(array)))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bytes_and_values_come_as_they_are(library, dtype):
    arithmetic, of = library
    arrays = [_values(dtype), _values(dtype, ()), _values(dtype, (3,))]
    begins, at = [], 1
    for array in arrays:
        assert arithmetic.describe(of(array)) == (array.dtype.name, array.shape, array.nbytes)
        one = np.zeros(array.nbytes, np.uint8)
        arithmetic.copy_bytes(of(array), one)
        assert one.tobytes() == array.tobytes()
        back = arithmetic.to_numpy(of(array))
        assert (back.dtype, back.shape, back.tobytes()) == (
            (array.dtype, array.shape, array.tobytes())
        )
        begins.append(at)
        at += array.nbytes + 1
    together = np.zeros(at, np.uint8)
    arithmetic.gather_bytes([of(a) for a in arrays], begins, together)
    for array, begin in zip(arrays, begins, strict=True):
        assert together[begin : begin + array.nbytes].tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_digests_are_those_of_the_bytes_with_type_and_shape(library, dtype):
    arithmetic, of = library
    arrays = [_values(dtype), _values(dtype, (3,)), _values(dtype, (0, 2))]
    wanted = [
        digest_bytes(np.frombuffer(a.tobytes(), np.uint8), a.dtype.name, a.shape) for a in arrays
    ]
    assert arithmetic.digests([of(a) for a in arrays]).tolist() == wanted


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "complex64"], ids=str)
def test_rows_have_digests_that_are_the_same_in_every_library(library, dtype):
    arithmetic, of = library
    values = _values(dtype, (40, 3, 200))
    values[7] = values[31]
    found = arithmetic.row_digests(of(values))
    assert found.shape == (40,)
    assert found.tolist() == host.row_digests(values).tolist()
    assert found[7] == found[31]
    assert len(set(found.tolist())) == 39 or values.dtype == np.bool_
    assert arithmetic.row_digests(of(values[:, 0, 0])).shape == (40,)


def test_arrays_that_do_not_lie_in_order_are_read_as_what_they_show(library):
    arithmetic, of = library
    square = _values("float32", (6, 8))
    for view in (square.T, square[::2, ::-1], square[:, 3]):
        array = of(view)
        assert_close(arithmetic.summarize([array], VALUE_STATISTICS)[0], expected(view))
        assert arithmetic.norms([array])[0][COLUMN["l2"]] == pytest.approx(np.linalg.norm(view))
        assert np.array_equal(arithmetic.to_numpy(array), view)
        assert arithmetic.digests([array])[0] == host.digest(np.ascontiguousarray(view))


def test_nothing_that_is_read_is_written_to(library):
    arithmetic, of = library
    values = _values("float32", (30, 4))
    values[0, 0] = np.nan
    array = of(values)
    arithmetic.summarize([array], VALUE_STATISTICS)
    arithmetic.norms([array])
    arithmetic.count_exponents_of([array])
    arithmetic.row_digests(array)
    assert arithmetic.to_numpy(array).tobytes() == values.tobytes()


def test_a_list_of_none_has_no_rows(library):
    arithmetic, _ = library
    assert arithmetic.summarize([], ("l2",)).shape == arithmetic.norms([]).shape
    assert arithmetic.count_exponents_of([]).shape == (0, 2, 64)
    assert arithmetic.digests([]).shape == (0,)
