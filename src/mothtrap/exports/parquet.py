"""A folder with the tables of a run, each as a Parquet file.

The tables are the tables of `Run.table`: `stats`, `scalars`, `steps`, `raw`, `tensors`, `findings`,
`events`. Null means not captured, and NaN is a value. A choice of steps applies to rows with a
step, and a choice of tensors to rows of a tensor.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mothtrap.exports._choice import Choice, Written
from mothtrap.reader.files.commits import ENDLESS
from mothtrap.reader.run import Run
from mothtrap.reader.tables import TABLES

_OF_TENSORS = ("stats", "raw", "tensors")


def write(run: Run, target: Path, choice: Choice) -> Written:
    """Write the tables; see `mothtrap.exports`."""
    target.mkdir()
    part = run.range(choice.begin, ENDLESS if choice.end is None else choice.end)
    chosen = None if choice.tensors == "*" else [t.identity for t in run.tensors(choice.tensors)]
    counts = {}
    for name in TABLES:
        table = part.table(name)
        if name == "findings":
            table = table.filter(
                pa.array(map(choice.has_step, table["step"].to_pylist()), pa.bool_())
            )
        if name in _OF_TENSORS and chosen is not None:
            table = table.filter(pc.is_in(_identities(table), pa.array(chosen, pa.string())))
        pq.write_table(table, target / f"{name}.parquet", compression="zstd")
        if name != "tensors":  # they are known even if nothing was captured of them
            counts[f"rows of {name}"] = table.num_rows
    return Written(counts=counts)


def _identities(table: pa.Table) -> pa.ChunkedArray:
    """Return the text form `kind:name` of each row's tensor."""
    kind, name = (table[column].cast(pa.string()) for column in ("kind", "name"))
    return pc.binary_join_element_wise(kind, name, ":")
