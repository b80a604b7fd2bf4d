from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars
import pyarrow as pa
import pytest
from tests.reader.runs import closing, evaluation, info, raw, started, write_worker
from tests.store.records import record

from mothtrap.core.errors import QueryError, UnknownNameError
from mothtrap.core.extras import install_command
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.records import Scalar
from mothtrap.reader.run import Run, open_run
from mothtrap.reader.tables import TABLES
from mothtrap.statistics.summary import COLUMN, WIDTH
from mothtrap.store import layout
from mothtrap.store.finding_log import FindingLog


def a_run(folder: Path) -> Run:
    attempt = layout.create_run(folder / "x", info())
    summary_TF = np.full((3, WIDTH), np.nan)
    for name, values in (("count", (4, 4, 4)), ("nan", (0, 4, 0)), ("inf", (0, 0, 0))):
        summary_TF[:, COLUMN[name]] = values
    summary_TF[0, COLUMN["mean"]] = 0.5
    summary_TF[1, COLUMN["l2"]] = 0.0  # a sum is stored, and nothing was finite
    write_worker(
        attempt,
        record(0, summary_TF=summary_TF, observations=(started(1),)),
        record(1, raw=(raw((2, np.arange(6, dtype=np.int8))),)),
        evaluation(2, 0, tensors=1),
        record(2, scalars=(Scalar("loss", "main", math.nan),), skipped=True),
        closing(3),
    )
    write_worker(attempt, record(0))
    log = FindingLog(layout.monitor_folder(attempt, 0))
    finding = Finding(
        code="GRD101",
        name="exploding_gradient",
        severity=Severity.ERROR,
        step=1,
        detected_step=2,
        message="large",
        layers=("layer1",),
        evidence={"value": math.nan},
    )
    log.append([finding])
    log.close()
    return open_run(folder / "x")


def test_statistics_tell_nan_from_what_was_not_captured(tmp_path: Path) -> None:
    table = a_run(tmp_path).table("stats")
    assert table.num_rows == 3 + 3 + 1 + 3 + 3
    first = table.slice(0, 3).to_pylist()
    assert [row["name"] for row in first] == ["layer0", "layer1", "layer2"]
    assert (first[0]["worker"], first[0]["attempt"], first[0]["step"]) == (0, 1, 0)
    assert (first[0]["mode"], first[0]["kind"], first[0]["count"]) == ("train", "gradient", 4.0)
    assert first[0]["mean"] == 0.5
    assert math.isnan(first[1]["mean"])  # no finite value
    assert math.isnan(first[1]["l2"])
    assert first[2]["mean"] is None  # not captured
    assert first[0]["l2"] is None
    assert table.column("mode").to_pylist().count("eval") == 1


def test_scalars_and_steps_are_in_the_order_of_writing(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    rows = run.table("scalars").to_pylist()
    mine = [(r["step"], r["mode"], r["name"], r["of"]) for r in rows if r["worker"] == 0]
    assert mine[:2] == [(0, "train", "loss", "main"), (0, "train", "step_s", "")]
    assert [row[:2] for row in mine[4:6]] == [(2, "eval"), (2, "eval")]
    assert mine[-1] == (2, "train", "loss", "main")
    assert math.isnan([r["value"] for r in rows if r["worker"] == 0][-1])
    steps = run.table("steps").to_pylist()
    assert [(s["worker"], s["step"], s["mode"]) for s in steps] == [
        (0, 0, "train"),
        (0, 1, "train"),
        (0, 2, "eval"),
        (0, 2, "train"),
        (1, 0, "train"),
    ]
    assert [s["skipped"] for s in steps] == [False, False, False, True, False]
    assert steps[0]["optimizers"] == ["adam"]
    assert [s["raw"] for s in steps] == [0, 1, 0, 0, 0]


def test_the_other_tables(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    (raw_row,) = run.table("raw").to_pylist()
    assert (raw_row["name"], raw_row["dtype"], raw_row["shape"]) == ("layer2", "int8", [6])
    assert raw_row["bytes"] == 6
    tensors = run.table("tensors").to_pylist()
    assert [t["name"] for t in tensors] == ["layer0", "layer1", "layer2"]
    assert tensors[1]["workers"] == [0, 1]
    (finding,) = run.table("findings").to_pylist()
    assert (finding["code"], finding["layers"]) == ("GRD101", ["layer1"])
    assert finding["evidence"] == '{"value":"NaN"}'
    events = run.table("events").to_pylist()
    assert [e["type"] for e in events] == ["WorkerStarted", "WorkerEnded"]
    with pytest.raises(UnknownNameError, match=r"no table 'stat' .did you mean 'stats'"):
        run.table("stat")


def test_an_empty_run_has_tables_without_rows(tmp_path: Path) -> None:
    layout.create_run(tmp_path / "x", info())
    run = open_run(tmp_path / "x")
    assert [run.table(name).num_rows for name in TABLES] == [0] * len(TABLES)


def test_tables_go_to_pandas_polars_and_numpy(tmp_path: Path) -> None:
    table = a_run(tmp_path).table("stats")
    assert len(table.to_pandas()) == table.num_rows
    assert polars.from_arrow(table).height == table.num_rows
    assert table.column("count").to_numpy().shape == (table.num_rows,)


def test_sql_sees_the_tables(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    found = run.sql(
        "select name, max(step) as last, count(l2) as n from stats where mode = 'train' "
        "group by name order by name"
    )
    assert isinstance(found, pa.Table)
    assert found.to_pylist()[0] == {"name": "layer0", "last": 2, "n": 3}
    (loss,) = run.sql("SELECT value FROM Scalars ORDER BY step DESC, mode DESC LIMIT 1").to_pylist()
    assert math.isnan(loss["value"])
    joined = run.sql("select f.code from findings f join steps s using (step) where worker = 0")
    assert joined.to_pylist() == [{"code": "GRD101"}]


@pytest.mark.parametrize(
    "query",
    ["select from", "select * from nowhere", "select * from hidden", "select * from '{file}'",
     "set enable_external_access = true", "copy (select 1) to '{file}'"],
)  # fmt: skip
def test_sql_sees_nothing_else(tmp_path: Path, query: str) -> None:
    hidden = a_run(tmp_path).table("steps")
    assert hidden is not None
    file = tmp_path / "x.csv"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(QueryError, match="tables: stats, scalars"):
        open_run(tmp_path / "x").sql(query.format(file=file))
    assert file.read_text() == "a,b\n1,2\n"


@pytest.mark.parametrize(
    ("package", "question", "extra"),
    [("duckdb", "run.sql('select 1')", "sql"), ("xarray", "run.dataset('weight')", "analysis")],
)
def test_a_missing_package_is_named(
    tmp_path: Path, package: str, question: str, extra: str
) -> None:
    a_run(tmp_path)
    code = f"""if True:
        import sys
        sys.modules[{package!r}] = None
        from mothtrap.core.errors import MissingExtraError
        from mothtrap.reader.run import open_run
        run = open_run({str(tmp_path / "x")!r})
        try:
            {question}
        except MissingExtraError as err:
            print(err)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"needs the package {package!r}, which is not installed" in done.stdout
    assert install_command(extra) in done.stdout


def test_statistics_become_an_xarray_over_step_and_layer(tmp_path: Path) -> None:
    dataset = a_run(tmp_path).dataset("gradient", statistics=("mean", "l2"))
    assert dataset.attrs == {"kind": "gradient"}
    assert dataset["mean"].dims == ("step", "layer")
    assert dataset["step"].to_numpy().tolist() == [0, 1, 2]
    assert dataset["mean"].sel(step=0, layer="layer0").item() == 0.5
    assert math.isnan(dataset["l2"].sel(step=0, layer="layer0").item())
    assert dataset["l2"].sel(step=1, layer="layer2").item() == 1.0 + 2 * WIDTH + COLUMN["l2"]


def test_several_evaluations_of_a_step_are_rows_of_their_own(tmp_path: Path) -> None:
    attempt = layout.create_run(tmp_path / "x", info())
    write_worker(attempt, record(0), evaluation(1, 0), evaluation(1, 1))
    run = open_run(tmp_path / "x")
    assert run.stats("gradient", mode="eval")["l2"].steps_S.tolist() == [1, 1]
    assert run.dataset("gradient", mode="eval")["step"].to_numpy().tolist() == [1, 1]
