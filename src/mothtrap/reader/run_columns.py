"""Columns of a table of runs: identity, labels, parameters, and metrics."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from mothtrap.core.ledger import LedgerValue
from mothtrap.core.masking import without_secrets
from mothtrap.core.run_filter import Facts
from mothtrap.core.texts import printable

Row = dict[str, LedgerValue]


def joined_row(
    columns: Mapping[str, LedgerValue],
    parameters: Mapping[str, LedgerValue],
    metrics: Mapping[str, float],
) -> Row:
    """Return one row of the columns of a run, its parameters, and its last metrics."""
    row = dict(columns)
    for name, value in parameters.items():
        row[name if name not in row else f"param.{name}"] = value
    for name, number in metrics.items():
        row[name if name not in row else f"metric.{name}"] = number
    return row


def joined_facts(
    columns: Mapping[str, LedgerValue],
    parameters: Mapping[str, LedgerValue],
    metrics: Mapping[str, float],
    marks: Sequence[str],
) -> Facts:
    """Return the names an expression can use; a column hides a parameter, which hides a metric.

    Args:
        columns: properties of a run, and its labels.
        parameters: parameters of the run, by name.
        metrics: last value by name.
        marks: codes and names of the findings, and tags.
    """
    values: Row = {**metrics, **{f"metric.{name}": value for name, value in metrics.items()}}
    values |= parameters
    values |= {f"param.{name}": value for name, value in parameters.items()}
    return Facts(values=values | dict(columns), marks=marks)


def as_csv(rows: Sequence[Row]) -> str:
    """Return rows as CSV without secrets, with the union of their names as the header."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(_harmless, names))
    for row in rows:
        writer.writerow([_harmless(row.get(name)) for name in names])
    return out.getvalue()


def _harmless(value: object) -> object:
    if not isinstance(value, str):
        return value
    shown = printable(without_secrets(value))
    return f"'{shown}" if value[:1] in ("=", "+", "-", "@", "\t", "\r") else shown
