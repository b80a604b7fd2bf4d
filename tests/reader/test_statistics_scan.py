from __future__ import annotations

import math

import duckdb
import numpy as np
import pytest
from tests.reader.runs import closing, evaluation, info, write_worker
from tests.store.records import record

from mothtrap.reader import row_columns
from mothtrap.reader.run import Run, open_run
from mothtrap.statistics.summary import COLUMN, WIDTH
from mothtrap.store import layout

QUERIES = (
    "SELECT count(*) FROM stats",
    "SELECT count(*), count(l2), avg(l2), max(std), count(inactive) FROM stats",
    "SELECT * FROM stats ORDER BY worker, attempt, step, mode, mode_step, name LIMIT 40",
    "SELECT step, l2 FROM stats WHERE kind = 'gradient' AND name = 'layer1' ORDER BY ALL",
    "SELECT name FROM stats WHERE step BETWEEN 7 AND 9 ORDER BY ALL",
    "SELECT step, name FROM stats WHERE step > 90 AND name IN ('layer0', 'layer2') ORDER BY ALL",
    "SELECT step, name, mean FROM stats WHERE mean > 1.5 AND step < 30 AND worker = 0 ORDER BY ALL",
    "SELECT mode, count(*) FROM stats WHERE mode = 'eval' OR name = 'layer2' GROUP BY ALL",
    "SELECT count(*) FROM stats WHERE name LIKE 'layer%' AND step % 7 = 0",
    "SELECT count(*) FROM stats WHERE l2 IS NULL OR mode_step IS NULL",
    "SELECT count(*) FROM stats WHERE name <> 'layer0' AND l2 IS NOT NULL AND step >= 50",
    "SELECT count(*) FROM stats WHERE name = 'step' OR kind = 'weight'",
    "SELECT a.step, b.name FROM stats a JOIN stats b USING (step, worker) "
    "WHERE a.name = 'layer0' AND b.name = 'layer1' AND a.step < 5 ORDER BY ALL",
    "SELECT step, max(l2) AS top FROM stats GROUP BY step ORDER BY top DESC, step LIMIT 3",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two attempts of two workers: the second repeats some steps; rows have several forms."""
    folder = tmp_path_factory.mktemp("runs") / "x"
    random = np.random.default_rng(0)

    def rows(step: int, tensors: int) -> np.ndarray:
        summary_TF = random.random((tensors, WIDTH)) + 1
        summary_TF[:, COLUMN["count"]], summary_TF[:, COLUMN["nan"]] = 9, step % 5 == 0
        summary_TF[:, COLUMN["inf"]] = 0
        summary_TF[:, COLUMN["inactive"]] = math.nan
        summary_TF[step % tensors, COLUMN["l2"]] = math.nan
        return summary_TF

    first = layout.create_run(folder, info())
    second = layout.create_attempt(folder, info(attempt=2))
    for attempt, steps in ((first, range(60)), (second, range(40, 100))):
        for _ in range(2):
            items = [
                record(step, summary_TF=rows(step, 3), defined=record(0).defined) for step in steps
            ]
            items.insert(10, evaluation(steps[10], 0, tensors=2))
            write_worker(attempt, *items, closing(steps[-1] + 1))
    return open_run(folder)


@pytest.mark.parametrize("query", QUERIES)
def test_queries_are_answered_as_of_the_whole_table(run: Run, query: str) -> None:
    """Omitting rows and columns for a query never changes its result."""
    for view in (run, run.range(35, 95)):
        with duckdb.connect() as connection:
            connection.register("stats", view.table("stats"))
            expected = connection.sql(query).to_arrow_table().to_pylist()
        found = view.sql(query).to_pylist()
        if "ORDER BY" not in query:
            found, expected = sorted(found, key=str), sorted(expected, key=str)
        assert len(found) == len(expected)
        for row, other in zip(found, expected, strict=True):
            # Threads sum a mean in any order, which shows in its last digit.
            assert row == (pytest.approx(other, rel=1e-14) if "avg(" in query else other)
        assert expected or view is not run


@pytest.mark.parametrize(
    ("query", "columns", "rows"),
    [
        ("SELECT max(l2) FROM stats", {"l2"}, 2 * (100 * 3 + 2 * 2)),
        ("SELECT max(l2) FROM stats WHERE name = 'layer1'", {"l2", "name"}, 2 * 102),
        ("SELECT sum(l2) FROM stats WHERE step IN (50, 51)", {"l2", "step"}, 2 * (2 * 3 + 2)),
        ("SELECT max(l2) FROM stats WHERE step < 0", {"l2", "step"}, 0),
    ],
)
def test_only_what_a_query_needs_is_made(
    run: Run, query: str, columns: set[str], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[set[str], int]] = []
    stats = row_columns.stats

    def noted(worker: int, found: object, names: list[str]) -> row_columns.Columns:
        made.append((set(names), len(found.commit_N)))  # type: ignore[attr-defined]
        return stats(worker, found, names)  # type: ignore[arg-type]

    monkeypatch.setattr(row_columns, "stats", noted)
    run.sql(query)
    assert sum(count for _, count in made) == rows
    assert all(names == columns for names, _ in made)
