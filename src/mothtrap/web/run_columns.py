"""Columns and order of the table of runs: parameters and last metrics."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from mothtrap.core.errors import QueryError, nearest
from mothtrap.core.ledger import LedgerValue
from mothtrap.web.row_cache import Row

PARAMETER, METRIC = "param.", "metric."
OWN = ("state", "run", "verdict", "steps", "started", "script")
"""Columns that every run has."""
SEVERITIES = ("error", "warning", "")
MOST_COLUMNS = 500
"""Maximum number of columns in an answer; chosen by hand."""


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter or metric of runs.

    `id` is `param.NAME` or `metric.NAME`. `runs` have it, and `varies` is False if all of them
    have the same value.
    """

    id: str
    runs: int
    varies: bool


def columns_of(rows: Iterable[Row]) -> tuple[Column, ...]:
    """Return metrics and parameters of runs, most common first."""
    counts: Counter[str] = Counter()
    values: dict[str, set[str]] = {}
    for row in rows:
        for name, value in _named(row):
            counts[name] += 1
            known = values.setdefault(name, set())
            if len(known) < 2:
                known.add(str(value))
    order = sorted(counts, key=lambda name: (-counts[name], name))
    return tuple(
        Column(id=name, runs=counts[name], varies=len(values[name]) > 1)
        for name in order[:MOST_COLUMNS]
    )


def in_order(rows: Sequence[Row], sort: str) -> list[Row]:
    """Return rows in the order of a column; runs without a value come last.

    Args:
        rows: the latest start first.
        sort: one of `OWN`, or the id of a column; `-` before it means the largest first. Empty
            leaves the order as it is.

    Raises:
        QueryError: there is no such column.
    """
    if not sort:
        return list(rows)
    name, is_descending = sort.removeprefix("-"), sort.startswith("-")
    if name not in OWN and not name.startswith((PARAMETER, METRIC)):
        raise QueryError(f"runs cannot be sorted by {name!r}{nearest(name, OWN)}")
    known, unknown = [], []
    for row in rows:
        value = _value(row, name)
        if value is None or (isinstance(value, float) and math.isnan(value)):
            unknown.append(row)
        else:
            known.append((_key(value), row))
    known.sort(key=lambda pair: pair[0], reverse=is_descending)
    return [row for _, row in known] + unknown


def _named(row: Row) -> Iterable[tuple[str, LedgerValue]]:
    for name, number in row.metrics.items():
        yield METRIC + name, number
    for name, value in row.parameters.items():
        yield PARAMETER + name, value


def _value(row: Row, name: str) -> LedgerValue:
    if row.pending:
        return None
    if name.startswith(PARAMETER):
        return row.parameters.get(name.removeprefix(PARAMETER))
    if name.startswith(METRIC):
        return row.metrics.get(name.removeprefix(METRIC))
    own: dict[str, LedgerValue] = {
        "state": row.ending or row.state,
        "run": row.name,
        "verdict": SEVERITIES.index(row.severity) if row.severity in SEVERITIES else 0,
        "steps": row.steps,
        "started": row.started_s,
        "script": row.script,
    }
    return own[name]


def _key(value: LedgerValue) -> tuple[bool, float, str]:
    """Order numbers, including numbers written as text, before words."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return True, 0.0, str(value)
    return False, number, ""
