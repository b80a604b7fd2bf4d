"""The heatmap of Layers: a statistic of tensors over steps, with one byte per cell.

Shape suffixes: T = tensors in the order of the tree, C = columns, R = rows of the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from mothtrap.core.errors import ConfigError, UnknownNameError, nearest
from mothtrap.core.steps import Mode
from mothtrap.reader.files.commits import ENDLESS
from mothtrap.statistics.summary import STATISTICS
from mothtrap.web.cell_scale import SCALES, Codes, Scaled, ScaleName, scaled
from mothtrap.web.grids import MOST_COLUMNS, Grid, grid
from mothtrap.web.module_tree import Row, rows_of, tree
from mothtrap.web.opened import OpenRun

MOST_ROWS = 512
BAD = 255


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a heatmap; arguments of `grids.grid` and `module_tree.rows_of`.

    `query` are words that names must contain, with * as a wildcard. `scale` is one of
    `cell_scale.SCALES`.
    """

    kind: str
    statistic: str = "l2"
    mode: Mode = Mode.TRAIN
    worker: int | None = None
    begin: int = 0
    end: int = ENDLESS
    most: int = MOST_COLUMNS
    query: str = ""
    opened: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    scale: ScaleName = "log"


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The head of an answer: the rows from `first` on of `total`, and the meaning of the codes.

    A cell is 0 if nothing was captured, 1 if the value is 0, 255 if a value is not finite, and
    otherwise from 2 (`low`) to 254 (`high`).
    """

    begin: int
    width: int
    columns: int
    first: int
    total: int
    tensors: int
    rows: list[Row]
    scale: str
    low: float
    high: float
    note: str = ""


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a cell; for a module, the numbers of its most extreme tensor.

    `value` is None without a finite value. `median` is the median of the tensor's columns.
    """

    path: str
    tensor: str
    begin: int
    end: int
    captured: bool
    value: float | None
    low: float | None
    high: float | None
    bad: int
    median: float | None
    others_bad: int


class Shown(NamedTuple):
    """A heatmap: cells, tensors in tree order, rows, and scale."""

    cells: Grid
    names: list[str]
    rows: list[Row]
    scale: Scaled


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A cell of each row from `first` on: None for a missing number, and bits of `web.buckets`.

    A module has the value of its most extreme tensor.
    """

    begin: int
    end: int
    first: int
    paths: list[str]
    values: list[float | None]
    bad: list[int]


def answer(opened: OpenRun, wanted: Wanted, first: int = 0, most_rows: int = MOST_ROWS) -> bytes:
    """Return rows of a heatmap as bytes: see `packed`.

    Args:
        opened: the run.
        wanted: the heatmap.
        first: first wanted row.
        most_rows: maximum number of rows.
    """
    return packed(*rows_shown(shown(opened, wanted), first, most_rows))


def rows_shown(found: Shown, first: int, most_rows: int) -> tuple[Head, Codes]:
    """Return the header and the cells of some rows."""
    most_rows = max(1, min(most_rows, MOST_ROWS))
    first = max(0, min(first, len(found.rows) - 1))
    chosen = found.rows[first : first + most_rows]
    codes = codes_of(found, chosen)
    note = ""
    if found.cells.coarse:
        note = f"1 column covers {found.cells.width} steps: the run is too large to read every step"
    head = Head(
        begin=found.cells.begin,
        width=found.cells.width,
        columns=codes.shape[1],
        first=first,
        total=len(found.rows),
        tensors=len(found.names),
        rows=chosen,
        scale=found.scale.name,
        low=found.scale.low,
        high=found.scale.high,
        note=note,
    )
    return head, codes


def packed(head: msgspec.Struct, codes: Codes) -> bytes:
    """Encode a header and cells as bytes.

    The length of the head (uint32, little-endian), the head as JSON, spaces up to a multiple of 8,
    a byte for each cell: the difference from the previous cell in its row, which compresses better.
    """
    text = msgspec.json.encode(head)
    text += b" " * (-(4 + len(text)) % 8)
    change = codes.copy()
    change[:, 1:] -= codes[:, :-1]
    return len(text).to_bytes(4, "little") + text + change.tobytes()


def cell(opened: OpenRun, wanted: Wanted, path: str, at: int) -> Cell:
    """Return the numbers of a cell.

    Args:
        opened: the run.
        wanted: the heatmap.
        path: path of a row.
        at: a step.

    Raises:
        UnknownNameError: there is no such row.
    """
    found = shown(opened, wanted)
    row = next((each for each in found.rows if each.path == path), None)
    if row is None:
        known = [each.path for each in found.rows]
        raise UnknownNameError(f"there is no row {path!r}{nearest(path, known)}")
    cells, of = found.cells, slice(row.begin, row.begin + row.count)
    moment = _column_of(cells, at)
    bad_T = cells.bad_TC[of, moment] > 0
    distance_T = found.scale.distance(of)[:, moment]
    place = row.begin + int(np.argmax(np.where(bad_T, np.inf, distance_T)))
    worst_C = cells.furthest[place]
    own = worst_C[np.isfinite(worst_C)]
    return Cell(
        path=path,
        tensor=found.names[place],
        begin=cells.begin + moment * cells.width,
        end=cells.begin + (moment + 1) * cells.width,
        captured=bool(cells.there_TC[place, moment]),
        value=_known(worst_C[moment]),
        low=_known(cells.low_TC[place, moment]),
        high=_known(cells.high_TC[place, moment]),
        bad=int(cells.bad_TC[place, moment]),
        median=_known(np.median(own)) if len(own) else None,
        others_bad=int(bad_T.sum()),
    )


def column(opened: OpenRun, wanted: Wanted, at: int, first: int, most_rows: int) -> Column:
    """Return the numbers of a column; arguments as in `answer` and `cell`."""
    found = shown(opened, wanted)
    cells, place = found.cells, _column_of(found.cells, at)
    chosen = found.rows[max(0, first) :][: max(1, min(most_rows, MOST_ROWS))]
    each = [slice(row.begin, row.begin + row.count) for row in chosen]
    worst_T = cells.furthest[:, place]
    furthest = [of.start + int(np.argmax(found.scale.distance(of)[:, place])) for of in each]
    return Column(
        begin=cells.begin + place * cells.width,
        end=cells.begin + (place + 1) * cells.width,
        first=max(0, first),
        paths=[row.path for row in chosen],
        values=[_known(worst_T[tensor]) for tensor in furthest],
        bad=[int(np.bitwise_or.reduce(cells.bad_TC[of, place])) for of in each],
    )


def _column_of(cells: Grid, at: int) -> int:
    last = int(cells.there_TC.shape[1]) - 1
    return min(max(at - cells.begin, 0) // cells.width, last)


def shown(opened: OpenRun, wanted: Wanted) -> Shown:
    """Return a heatmap, cached until data is added.

    Raises:
        UnknownNameError: there is no such statistic; the message suggests one.
        ConfigError: there is no such scale.
    """
    if wanted.statistic not in STATISTICS:
        hint = nearest(wanted.statistic, list(STATISTICS))
        raise UnknownNameError(f"there is no statistic {wanted.statistic!r}{hint}")
    if wanted.scale not in SCALES:
        raise ConfigError(f"a scale is one of {', '.join(SCALES)}, not {wanted.scale[:40]!r}")
    return opened.remembered(wanted, lambda: _made(opened, wanted))


def _made(opened: OpenRun, wanted: Wanted) -> Shown:
    root, names = opened.remembered(
        ("tree", wanted.kind, wanted.query),
        lambda: tree(matching(opened, wanted.kind, wanted.query)),
    )
    cells = grid(
        opened,
        [f"{wanted.kind}:{name}" for name in names],
        wanted.statistic,
        mode=wanted.mode,
        worker=wanted.worker,
        begin=wanted.begin,
        end=wanted.end,
        most=wanted.most,
    )
    rows = rows_of(root, wanted.opened, wanted.closed)
    return Shown(cells, names, rows, scaled(cells.furthest, wanted.scale))


def codes_of(found: Shown, rows: Sequence[Row]) -> Codes:
    """Return a byte for each cell of some rows, shape (R, C); a module shows its worst tensor."""
    codes = np.zeros((len(rows), found.cells.there_TC.shape[1]), np.uint8)
    for place, row in enumerate(rows):
        of = slice(row.begin, row.begin + row.count)
        codes[place] = found.scale.codes(found.scale.furthest(of))
        codes[place, found.cells.bad_TC[of].any(axis=0)] = BAD
    return codes


def matching(opened: OpenRun, kind: str, query: str = "") -> list[str]:
    """Return the names of a kind's tensors that match a search."""
    names = dict.fromkeys(t.name for t in opened.run.tensors() if t.kind == kind)
    words = [word.split("*") for word in query.lower().split()]
    return [name for name in names if all(_in_order(name.lower(), parts) for parts in words)]


def _in_order(text: str, parts: Sequence[str]) -> bool:
    at = 0
    for part in parts:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
