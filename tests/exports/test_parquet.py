"""The tables of a run as Parquet files, read by other libraries."""

from __future__ import annotations

import math
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest
from tests.exports.stored import sampled

from mothtrap.core.errors import UnknownNameError
from mothtrap.exports import Choice, export_run
from mothtrap.reader.run import Run
from mothtrap.reader.tables import TABLES


def test_every_table_is_a_file_with_the_same_rows(run: Run, tmp_path: Path) -> None:
    written = export_run(run, "parquet", tmp_path / "out")
    assert {path.stem for path in (tmp_path / "out").iterdir()} == set(TABLES)
    for name in TABLES:
        table = pq.read_table(tmp_path / "out" / f"{name}.parquet")
        assert table.schema.names == run.table(name).schema.names
        # NaN is not equal to NaN
        assert repr(table.to_pylist()) == repr(run.table(name).to_pylist())
    assert written.counts["rows of stats"] == 6 + 4
    assert written.counts["rows of findings"] == 1


def test_nan_and_what_was_not_captured_are_told_apart(run: Run, tmp_path: Path) -> None:
    export_run(run, "parquet", tmp_path / "out", Choice(begin=4, end=5))
    [row] = pq.read_table(tmp_path / "out" / "stats.parquet").to_pylist()
    assert (row["step"], row["attempt"]) == (4, 2)
    assert math.isnan(row["max"])
    assert row["update_ratio"] is None
    scalars = pd.read_parquet(tmp_path / "out" / "scalars.parquet")
    assert scalars[scalars["name"] == "loss"]["value"].isna().tolist() == [True]


def test_other_tools_can_ask_them(run: Run, tmp_path: Path) -> None:
    export_run(run, "parquet", tmp_path / "out")
    query = f"select count(*) from '{tmp_path}/out/scalars.parquet' where name = 'loss'"
    assert duckdb.sql(query).fetchall() == [(6 + 2 + 4,)]


def test_chosen_tensors_and_steps_are_written_alone(run: Run, tmp_path: Path) -> None:
    choice = Choice(tensors="weights", begin=1, end=3)
    written = export_run(run, "parquet", tmp_path / "out", choice)
    assert written.counts["rows of stats"] == 0
    assert written.counts["rows of raw"] == 2  # step 1 of both workers
    assert written.counts["rows of findings"] == 0
    assert written.counts["rows of steps"] == 2 + 2
    tensors = pq.read_table(tmp_path / "out" / "tensors.parquet").to_pylist()
    assert [row["kind"] for row in tensors] == ["weight"]


def test_steps_that_are_not_there_are_an_error(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="run digits has 6 steps"):
        export_run(run, "parquet", tmp_path / "out", Choice(begin=50))
    assert list(tmp_path.iterdir()) == []


def test_losses_of_steps_that_were_not_watched_are_rows(tmp_path: Path) -> None:
    export_run(sampled(tmp_path), "parquet", tmp_path / "tables")
    rows = pq.read_table(tmp_path / "tables" / "scalars.parquet").to_pylist()
    found = [(row["step"], row["name"], row["of"], row["value"]) for row in rows]
    assert found == [
        (0, "loss", "main", 1.0),
        (0, "lr", "SGD", 0.5),
        (1, "loss", "main", 0.75),
        (1, "lr", "SGD", 0.5),
        (2, "lr", "SGD", 0.5),
        (3, "loss", "main", 0.25),
        (3, "lr", "SGD", 0.5),
        (4, "loss", "main", 0.125),
    ]
    assert {(row["mode"], row["mode_step"] == row["step"]) for row in rows} == {("train", True)}
