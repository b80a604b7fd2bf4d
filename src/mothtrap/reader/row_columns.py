"""Columns shared by several tables: the time, tensor, and statistics of each row.

Shape suffix: N = rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np
import pyarrow as pa

from mothtrap.core.tensors import TensorInfo
from mothtrap.core.window import Ints
from mothtrap.reader.files.commits import MODES
from mothtrap.reader.files.parts import Part
from mothtrap.reader.series.worker_series import SummaryRows
from mothtrap.statistics.summary import STATISTICS
from mothtrap.store import columns

WORDS = pa.dictionary(pa.int32(), pa.string())
WHEN = {
    "worker": pa.int64(),
    "attempt": pa.int64(),
    "step": pa.int64(),
    "mode": WORDS,
    "mode_step": pa.int64(),
}
TENSOR = {"kind": WORDS, "name": WORDS, "module": WORDS}
STATS = pa.schema(WHEN | TENSOR | dict.fromkeys(STATISTICS, pa.float64()))
"""Columns of the table `stats`."""
Columns = dict[str, pa.Array]


def when(worker: int, part: Part, commit_N: Ints, names: Collection[str] = tuple(WHEN)) -> Columns:
    """Return the columns that identify the record of each row."""
    commits, count = part.view.commits, len(commit_N)
    makers: dict[str, Callable[[], pa.Array]] = {
        "worker": lambda: columns.numbers(np.full(count, worker, np.int64)),
        "attempt": lambda: columns.numbers(np.full(count, part.attempt, np.int64)),
        "step": lambda: columns.numbers(commits.steps[commit_N]),
        "mode": lambda: columns.words([mode.value for mode in MODES], commits.modes[commit_N]),
        "mode_step": lambda: columns.numbers(commits.mode_steps[commit_N]),
    }
    return {name: make() for name, make in makers.items() if name in names}


def tensor(
    infos: Mapping[int, TensorInfo], tensor_N: Ints, names: Collection[str] = tuple(TENSOR)
) -> Columns:
    """Return the columns that describe the tensor of each row."""
    wanted = [name for name in TENSOR if name in names]
    if not wanted:
        return {}
    place = np.zeros(max(infos, default=0) + 1, np.int64)
    place[list(infos)] = np.arange(len(infos))
    which_N = place[tensor_N]
    return {
        name: columns.words([getattr(info, name) for info in infos.values()], which_N)
        for name in wanted
    }


def stats(worker: int, rows: SummaryRows, names: Collection[str] = tuple(STATS.names)) -> Columns:
    """Return columns of the table `stats`."""
    found = when(worker, rows.part, rows.commit_N, names)
    found |= tensor(rows.part.view.tensors, rows.tensor_N, names)
    for statistic in STATISTICS:
        if statistic in names:
            found[statistic] = columns.nullable(*rows.derived(statistic))
    return {name: found[name] for name in STATS.names if name in names}
