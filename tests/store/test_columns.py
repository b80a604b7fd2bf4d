"""Columns equal what pyarrow makes of the same values, without importing pandas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mothtrap.store import columns

TEXTS = st.lists(st.text(st.characters(exclude_categories=("Cs",))))


@given(TEXTS)
def test_texts(values: list[str]) -> None:
    made = columns.texts(values)
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.string()))


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1))))
def test_lists(values: list[list[int]]) -> None:
    made = columns.lists(values)
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.list_(pa.int64())))


@pytest.mark.parametrize("dtype", [np.int64, np.uint32, np.uint64, np.float64])
@pytest.mark.parametrize("stride", [1, 3])
def test_numbers(dtype: type, stride: int) -> None:
    value_N = np.arange(20).astype(dtype)[::stride]
    made = columns.numbers(value_N)
    made.validate(full=True)
    assert made.equals(pa.array(value_N))


def test_vectors() -> None:
    value_NF = np.arange(12.0).reshape(4, 3)
    made = columns.vectors(value_NF)
    made.validate(full=True)
    assert made.equals(pa.array(value_NF.tolist(), pa.list_(pa.float64(), 3)))


@given(st.text(st.characters(exclude_categories=("Cs",))), st.integers(0, 5))
def test_repeated(value: str, rows: int) -> None:
    made = columns.repeated(value, rows)
    made.validate(full=True)
    assert made.equals(pa.array([value] * rows, pa.string()))


WRITES = """
import sys

class NoPandas:
    def find_spec(self, name, path=None, target=None):
        assert name.partition(".")[0] != "pandas", "pandas was asked for"

sys.meta_path.insert(0, NoPandas())
from pathlib import Path

import numpy as np

from mothtrap.core.records import RawBlock, Scalar, StepRecord
from mothtrap.core.steps import StepKey
from mothtrap.store.worker_log import WorkerLog

log = WorkerLog(Path(sys.argv[1]))
for step in range(2):
    block = RawBlock(
        tensor_R=np.zeros(1, np.uint32),
        dtypes=("float32",),
        shapes=((2,),),
        offset_R=np.array([0, 8]),
        bytes_N=np.zeros(8, np.uint8),
    )
    record = StepRecord(
        key=StepKey(step=step, mode_step=step),
        wall_s=0.0,
        scalars=(Scalar("loss", "", 1.0),),
        tensor_T=np.zeros(1, np.uint32),
        summary_TF=np.zeros((1, 3)),
        raw=(block,),
    )
    log.append([record])
log.close()
"""


def test_writing_asks_for_no_pandas(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITES, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
