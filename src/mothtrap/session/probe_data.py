"""Read the table for a probe run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mothtrap.core.errors import ConfigError, nearest

SUFFIXES = (".csv", ".parquet", ".arrow", ".feather", ".jsonl", ".safetensors")
ARRAYS = ".safetensors"
"""Suffix of files with arrays, such as images; reading them runs no code."""


def read_table(path: str, target: str | None, leave_out: tuple[str, ...] = ()) -> tuple[Any, Any]:
    """Return rows and targets of a file.

    Args:
        path: path of a CSV, Parquet, Arrow or JSON-lines file, or of arrays as safetensors.
        target: column of the targets; None for a file without targets.
        leave_out: columns that are not passed to the model.

    Returns:
        A pandas data frame, or without pandas a mapping of columns, and the targets (R,). For
        arrays, the only other array, or a mapping of the others.

    Raises:
        ConfigError: the file or a column does not exist, or the file cannot be read.
    """
    if path.endswith(ARRAYS):
        return _arrays(Path(path), target, leave_out)
    table = _read(Path(path))
    hidden = (*([] if target is None else [target]), *leave_out)
    for name in hidden:
        if name not in table.column_names:
            raise ConfigError(
                f"{path} has no column {name!r}{nearest(name, table.column_names)}; it has: "
                f"{', '.join(table.column_names[:20])}"
            )
    y = None if target is None else np.asarray(table.column(target).to_pylist())
    rows = table.drop_columns(list(dict.fromkeys(hidden)))
    try:
        return rows.to_pandas(), y
    except ImportError:  # pandas is not installed
        return {name: rows.column(name).to_numpy() for name in rows.column_names}, y


def read_new(path: str, target: str, leave_out: tuple[str, ...] = ()) -> Any:
    """Return the rows of a file, with targets if present; raises the same errors as `read_table`.

    `path` can also be the folder of a serve run, whose sampled rows are returned. It is not an
    error if the file lacks columns in `leave_out`.
    """
    if Path(path).is_dir():
        return _served_rows(path)
    names = list(_tensors(Path(path))) if path.endswith(ARRAYS) else _read(Path(path)).column_names
    hidden = tuple(name for name in leave_out if name in names)
    if target in names:
        return read_table(path, target, hidden)
    return read_table(path, None, hidden)[0]


def _served_rows(path: str) -> Any:
    """Return the sampled rows of a serve run as columns; raises ConfigError without such rows."""
    import pyarrow as pa

    from mothtrap.reader.run import open_run

    rows = [each.row for each in open_run(path).served_rows() if isinstance(each.row, dict)]
    if not rows:
        raise ConfigError(
            f"the run {path} has no sampled rows with columns; pass sample_rows= to "
            "mothtrap.asserted"
        )
    table = pa.Table.from_pylist(rows)
    try:
        return table.to_pandas()
    except ImportError:  # pandas is not installed
        return {name: table.column(name).to_numpy() for name in table.column_names}


def column_of(path: str, name: str) -> Any:
    """Return one column of a file (R,); raises the same errors as `read_table`."""
    if path.endswith(ARRAYS):
        return _named(Path(path), _tensors(Path(path)), name)
    table = _read(Path(path))
    if name not in table.column_names:
        raise ConfigError(f"{path} has no column {name!r}{nearest(name, table.column_names)}")
    return np.asarray(table.column(name).to_pylist())


def _arrays(path: Path, target: str | None, leave_out: tuple[str, ...]) -> tuple[Any, Any]:
    """Return rows and targets of a file of arrays."""
    found = _tensors(path)
    y = None if target is None else _named(path, found, target)
    for name in leave_out:
        _named(path, found, name)
    rows = {name: each for name, each in found.items() if name not in (target, *leave_out)}
    if not rows:
        raise ConfigError(f"{path} has no array of rows; it has: {', '.join(found)}")
    return next(iter(rows.values())) if len(rows) == 1 else rows, y


def _named(path: Path, found: dict[str, Any], name: str) -> Any:
    if name not in found:
        raise ConfigError(
            f"{path} has no array {name!r}{nearest(name, list(found))}; it has: {', '.join(found)}"
        )
    return found[name]


def _tensors(path: Path) -> dict[str, Any]:
    """Return the arrays of a safetensors file by name."""
    if not path.is_file():
        raise ConfigError(f"there is no file {path}")
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        found: dict[str, Any] = load_file(path)
    except (SafetensorError, OSError, TypeError) as err:
        raise ConfigError(f"{path} cannot be read: {err}") from err
    return found


def _read(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import csv, feather, json, parquet

    readers = {
        ".csv": csv.read_csv,
        ".parquet": parquet.read_table,
        ".arrow": feather.read_table,
        ".feather": feather.read_table,
        ".jsonl": json.read_json,
    }
    if path.suffix not in readers:
        raise ConfigError(f"{path}: expected a file that ends in one of {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise ConfigError(f"there is no file {path}")
    try:
        return readers[path.suffix](path)
    except (pa.ArrowException, OSError) as err:
        raise ConfigError(f"{path} cannot be read: {err}") from err
