"""Conversion of a script's values to their stored form: arrays, tables, images."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mothtrap.core import png
from mothtrap.core.ledger import LedgerValue
from mothtrap.core.parameters import plain
from mothtrap.core.record_items import MAX_CELL, MAX_COLUMNS, MAX_ROWS, MAX_SIDE, Table
from mothtrap.core.texts import storable


def as_array(value: Any) -> npt.NDArray[Any]:
    """Convert a framework's array to NumPy, reading its values immediately.

    Raises:
        Exception: any exception that the value raises if it is not an array.
    """
    # A copy is needed, because a NumPy view would permanently prevent the user's tensor from being
    # resized.
    for step in ("detach", "cpu", "clone"):
        if hasattr(value, step):
            value = getattr(value, step)()
    if type(value).__module__ == "torch" and str(getattr(value, "dtype", "")) == "torch.bfloat16":
        value = value.float()  # NumPy has no such type
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"expected numbers, not elements of type {array.dtype}")
    return array


def as_png(value: Any) -> tuple[bytes, dict[str, LedgerValue]]:
    """Encode an image as PNG; return the file and its size in pixels.

    Args:
        value: an array (see `core.png.pixels`), a tensor of a framework, or an image of Pillow.

    Raises:
        ValueError: it is not an image, or is too large.
        Exception: any exception that the value raises.
    """
    if hasattr(value, "convert") and hasattr(value, "getbands"):  # an image of Pillow
        value = value.convert("RGBA" if "A" in value.getbands() else "RGB")
    array = png.pixels(as_array(value))
    if max(array.shape[:2]) > MAX_SIDE:
        raise ValueError(
            f"an image has at most {MAX_SIDE:,} pixels along a side, not {max(array.shape[:2]):,}; "
            "make it smaller"
        )
    return png.encode(array), {"height": array.shape[0], "width": array.shape[1]}


def as_table(value: Any, columns: Sequence[str] | None = None) -> Table:
    """Convert a table to rows of plain values.

    Args:
        value: a data frame, a mapping of columns, or rows: mappings or sequences.
        columns: names, if the rows are sequences.

    Raises:
        Exception: any exception that the value raises if it is not a table.
    """
    if hasattr(value, "columns") and hasattr(value, "to_dict"):  # pandas, polars
        names, row_count = [str(name) for name in value.columns], len(value)
        head = value.head(MAX_ROWS)
        rows: Iterable[Any] = zip(*(list(head[name]) for name in value.columns), strict=True)
    elif hasattr(value, "column_names") and hasattr(value, "to_pylist"):  # Arrow
        names, row_count = list(value.column_names), int(value.num_rows)
        rows = (list(row.values()) for row in value.slice(0, MAX_ROWS).to_pylist())
    elif isinstance(value, Mapping):
        held = [list(column) for column in value.values()]
        names, row_count = [str(name) for name in value], max(map(len, held), default=0)
        rows = itertools.zip_longest(*held)
    else:
        names, rows, row_count = _of_rows(list(value), columns)
    cut = [list(row)[:MAX_COLUMNS] for row in itertools.islice(rows, MAX_ROWS)]
    return Table(
        columns=[storable(str(name)[:MAX_CELL]) for name in names[:MAX_COLUMNS]],
        rows=[[_cell(cell) for cell in row] for row in cut],
        row_count=row_count,
        column_count=len(names),
    )


def _of_rows(
    rows: list[Any], columns: Sequence[str] | None
) -> tuple[list[str], Iterable[Any], int]:
    if rows and isinstance(rows[0], Mapping):
        names = list(dict.fromkeys(str(name) for row in rows[:MAX_ROWS] for name in row))
        found = [[{str(k): v for k, v in row.items()}.get(name) for name in names] for row in rows]
        return names, found, len(rows)
    lists = [list(row) for row in rows]
    width = max(map(len, lists), default=0)
    given = [str(name) for name in columns or ()]
    return given + [f"column {i}" for i in range(len(given), width)], lists, len(rows)


def _cell(value: Any) -> LedgerValue:
    one = getattr(value, "numel", lambda: getattr(value, "size", 0))
    if hasattr(value, "item") and (one() if callable(one) else one) == 1:
        value = value.item()
    elif hasattr(value, "isoformat"):
        value = value.isoformat()
    found = plain(value)
    return found[:MAX_CELL] if isinstance(found, str) else found
