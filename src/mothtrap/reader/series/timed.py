"""Time-indexed rows of a run, of all attempts, in order of time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mothtrap.core.errors import UnknownNameError, nearest
from mothtrap.store.time_log import TimedRows, TimeReader, timed_tables


def timed_rows(folders: Iterable[Path], name: str) -> TimedRows:
    """Return the rows of a table, by time; missing columns are NaN or empty.

    Args:
        folders: folders of workers.
        name: name of the table.

    Raises:
        UnknownNameError: no folder has such a table; the message suggests one.
    """
    folders = list(folders)
    known = sorted({table for folder in folders for table in timed_tables(folder)})
    if name not in known:
        has = f"it has: {', '.join(known)}" if known else "it has none"
        raise UnknownNameError(
            f"the run has no table {name!r} over time{nearest(name, known)}; {has}"
        )
    return _joined([rows for folder in folders for rows in TimeReader(folder, name).poll()])


def _joined(parts: Sequence[TimedRows]) -> TimedRows:
    time_N = np.concatenate([np.empty(0), *(part.time_N for part in parts)])
    order_N = np.argsort(time_N, kind="stable")
    numbers = dict.fromkeys(name for part in parts for name in part.numbers)
    texts = dict.fromkeys(name for part in parts for name in part.texts)
    return TimedRows(
        time_N=time_N[order_N],
        numbers={
            name: np.concatenate([p.numbers.get(name, np.full(len(p), np.nan)) for p in parts])[
                order_N
            ]
            for name in numbers
        },
        texts={name: _texts(parts, name, order_N) for name in texts},
    )


def _texts(parts: Sequence[TimedRows], name: str, order_N: npt.NDArray[np.intp]) -> list[str]:
    joined = [text for part in parts for text in part.texts.get(name, [""] * len(part))]
    return [joined[place] for place in order_N.tolist()]
