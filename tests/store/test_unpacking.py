from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from mothtrap.store.unpacking import numbers, vectors


@pytest.mark.parametrize("dtype", ["int64", "uint32", "uint64", "float64", "float32"])
def test_numbers_are_those_of_the_column(dtype: str) -> None:
    values = np.arange(9).astype(dtype)
    column = pa.array(values)
    for part in (column, column.slice(3), column.slice(2, 4), column.slice(9)):
        found = numbers(part)
        assert found.dtype == values.dtype
        assert found.tolist() == part.to_pylist()
        assert not found.flags.writeable


def test_numbers_of_nothing() -> None:
    assert numbers(pa.array([], pa.int64())).shape == (0,)


@pytest.mark.parametrize("column", [["a"], [1, None], [True], [[1]]])
def test_what_holds_no_numbers_is_refused(column: list[object]) -> None:
    with pytest.raises(TypeError, match="contains more than numbers"):
        numbers(pa.array(column))


@pytest.mark.parametrize("width", [1, 3])
def test_vectors_are_those_of_the_column(width: int) -> None:
    rows = np.arange(6.0 * width).reshape(6, width)
    column = pa.array(rows.tolist(), pa.list_(pa.float64(), width))
    for part in (column, column.slice(2), column.slice(1, 4).slice(1, 2), column.slice(6)):
        found = vectors(part)
        assert found.shape == (len(part), width)
        assert found.tolist() == part.to_pylist()
        assert not found.flags.writeable


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1.0]),
        pa.array([[1.0], [2.0]]),
        pa.array([[1.0], None], pa.list_(pa.float64(), 1)),
        pa.array([[1.0], [None]], pa.list_(pa.float64(), 1)),
        pa.array([["a"]], pa.list_(pa.string(), 1)),
    ],
    ids=str,
)
def test_what_holds_no_vectors_is_refused(column: pa.Array) -> None:
    with pytest.raises(TypeError, match="contains more than"):
        vectors(column)


def test_pandas_stays_out() -> None:
    code = """if True:
        import sys
        import pyarrow as pa
        from mothtrap.store.unpacking import numbers
        sys.modules["pandas"] = None  # not even where Arrow would need it
        numbers(pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(bytes(8))]))
        del sys.modules["pandas"]
        numbers.__globals__["pa"].array([1]).to_numpy()
    """
    subprocess.run([sys.executable, "-c", code], check=True)
