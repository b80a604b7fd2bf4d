"""Cost of a typical analysis of a long run: open it, one history, all norms, five SQL queries.

The run has the data that a training run writes by default: for each tensor the number of elements
and of values that are not finite, and a random-walk norm. It is read in fresh processes, with the
files in the page cache. The queries are compared with DuckDB over one Parquet file (zstd) of the
same rows. A second run has a million steps and few tensors; it is queried for the first answer of
the page.

Run: python bench/reading_story.py [--steps N] [--tensors T] [--long N] [--runs R]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.reading import start

QUERIES = (
    "SELECT count(*), avg(l2) FROM stats",
    "SELECT name, max(l2) AS top FROM stats WHERE kind = 'gradient' "
    "GROUP BY name ORDER BY top DESC LIMIT 5",
    "SELECT step, l2 FROM stats WHERE kind = 'weight' AND name = 'layer7.weight' ORDER BY step",
    "SELECT kind, name, l2 FROM stats WHERE step BETWEEN 100 AND 109 ORDER BY l2 DESC",
    "SELECT step // 1000 AS thousand, avg(l2), max(nan) FROM stats "
    "WHERE kind = 'gradient' GROUP BY thousand ORDER BY thousand",
)
TIMED = """
import json, resource, sys, time
marks = []
def mark(name):
    used = resource.getrusage(resource.RUSAGE_SELF)
    marks.append((name, time.perf_counter(), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024))
def told():
    pairs = zip(marks, marks[1:])
    found = {f"{b[0]} wall s": b[1] - a[1] for a, b in pairs}
    found |= {f"{b[0]} processor s": b[2] - a[2] for a, b in zip(marks, marks[1:])}
    found["all processor s"], found["all memory MB"] = marks[-1][2], marks[-1][3]
    print(json.dumps(found))
mark("")
"""
STORY = (
    TIMED
    + """
import mothtrap
run = mothtrap.open_run(sys.argv[1])
mark("open")
assert len(run.tensor("gradient:layer7.weight").history("l2")) == int(sys.argv[2])
mark("one history")
for kind in ("gradient", "weight"):
    assert run.stats(kind, "*", "l2")["l2"].values_ST.shape[0] == int(sys.argv[2])
mark("all norms")
for number, query in enumerate(json.loads(sys.argv[3]), 1):
    assert run.sql(query).num_rows
    mark(f"query {number}")
told()
"""
)
PARQUET = (
    TIMED
    + """
import duckdb
connection = duckdb.connect()
connection.execute(f"CREATE VIEW stats AS SELECT * FROM '{sys.argv[1]}'")
mark("open")
for number, query in enumerate(json.loads(sys.argv[3]), 1):
    assert connection.sql(query).to_arrow_table().num_rows
    mark(f"query {number}")
told()
"""
)
FIRST = (
    TIMED
    + """
import mothtrap
run = mothtrap.open_run(sys.argv[1])
mark("open")
assert run.steps == int(sys.argv[2]) and run.state == "finished"
run.findings, run.damage
mark("verdict")
run.scalars("loss")
mark("loss")
told()
"""
)


def main(words: Sequence[str] | None = None) -> None:
    """Write the runs, ask, print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=8_000)
    parser.add_argument("--tensors", type=int, default=434)
    parser.add_argument("--long", type=int, default=1_000_000, help="0: leave this part out")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder", help="of runs that are kept and read again; else a new one")
    given = parser.parse_args(words)
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as made:
        folder = given.folder or made
        run = Path(folder) / "story"
        write(run, given.steps, given.tensors)
        print(f"\n{given.steps} steps x {given.tensors} tensors, {size(run, 'stats'):.1f} MB:")
        ask(STORY, run, given.steps, given.runs)
        parquet = Path(folder) / "stats.parquet"
        to_parquet(run, parquet)
        print(f"\nDuckDB over Parquet, {parquet.stat().st_size / 1e6:.1f} MB:")
        ask(PARQUET, parquet, given.steps, given.runs)
        if given.long:
            run = Path(folder) / "long"
            write(run, given.long, 4, looks=1000)
            print(f"\n{given.long} steps, events {size(run, 'events'):.1f} MB:")
            ask(FIRST, run, given.long, given.runs)


def size(run: Path, table: str) -> float:
    """Return the size of a table's segments, MB."""
    return sum(file.stat().st_size for file in run.rglob(f"{table}-*.arrow")) / 1e6


def write(folder: Path, steps: int, tensors: int, looks: int = 1) -> None:
    """Write a finished run, unless it exists; statistics at every `looks`-th step."""
    if folder.exists():
        return
    log = start(folder, pid=2**30)
    chunk = []
    for record in records(steps, tensors, looks):
        chunk.append(record)
        if len(chunk) == 16:
            log.append(chunk)
            chunk = []
    log.append(chunk)
    log.close()


def records(steps: int, tensors: int, looks: int) -> Iterator:  # type: ignore[type-arg]
    """Yield the records of a run; the last says that its worker ended."""
    from mothtrap.core.facts.workers import WorkerEnded
    from mothtrap.core.records import Scalar, StepRecord
    from mothtrap.core.steps import StepKey
    from mothtrap.core.tensors import TensorInfo
    from mothtrap.statistics.summary import COLUMN, WIDTH

    random = np.random.default_rng(0)
    kinds = np.where(np.arange(tensors) % 2, "weight", "gradient")
    infos = [
        TensorInfo(kind=str(kind), name=f"layer{number // 2}.weight")
        for number, kind in enumerate(kinds)
    ]
    norm_T = random.uniform(0.1, 10, tensors)
    count_T = random.integers(1, 1 << 20, tensors)
    none = np.empty((0, WIDTH))
    for step in range(steps):
        rows = none
        if step % looks == 0:
            norm_T = norm_T * np.exp(random.normal(0, 0.01, tensors))
            rows = np.full((tensors, WIDTH), np.nan)
            rows[:, [COLUMN["nan"], COLUMN["inf"]]] = 0
            rows[:, COLUMN["count"]], rows[:, COLUMN["l2"]] = count_T, norm_T
        yield StepRecord(
            key=StepKey(step=step, mode_step=step),
            wall_s=1.7e9 + 0.01 * step,
            optimizers=("adam",),
            defined=tuple(enumerate(infos)) if step == 0 else (),
            tensor_T=np.arange(len(rows), dtype=np.uint32),
            summary_TF=rows,
            scalars=tuple(
                Scalar(name, "", value)
                for name, value in (("loss", 1.0 / (step + 1)), ("step_s", 0.01), ("lr", 1e-3))
            ),
        )
    yield StepRecord(
        key=StepKey(step=steps, mode_step=steps),
        wall_s=1.7e9 + 0.01 * steps,
        tensor_T=np.empty(0, np.uint32),
        summary_TF=none,
        observations=(WorkerEnded(step=steps, steps=steps, own_s=1.0, wall_s=0.01 * steps),),
    )


def to_parquet(run: Path, path: Path) -> None:
    """Write the statistics of a run as one Parquet file, in a separate process."""
    code = (
        "import sys, mothtrap, pyarrow.parquet as pq\n"
        "pq.write_table(mothtrap.open_run(sys.argv[1]).table('stats'), sys.argv[2],"
        " compression='zstd')"
    )
    subprocess.run([sys.executable, "-c", code, str(run), str(path)], check=True)


def ask(code: str, path: Path, steps: int, times: int) -> None:
    """Run a program in fresh processes; print the median of each of its figures."""
    words = [sys.executable, "-c", code, str(path), str(steps), json.dumps(QUERIES)]
    found = [json.loads(subprocess.check_output(words, text=True)) for _ in range(times)]
    for name in found[0]:
        print(f"  {name:24} {statistics.median(one[name] for one in found):9.3f}")


if __name__ == "__main__":
    began = time.perf_counter()
    main()
    print(f"\n{time.perf_counter() - began:.0f} s in all")
