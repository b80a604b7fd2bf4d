"""SQL over the tables of a run, answered by DuckDB."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa

from mothtrap.core.errors import MissingExtraError, QueryError
from mothtrap.reader.files.parts import Span
from mothtrap.reader.tables import TABLES


def answer(query: str, span: Span, table: Callable[[str], pa.Table]) -> pa.Table:
    """Answer a query.

    Only the columns and rows of `stats` that the query needs are created.

    The query can access the tables of the run, but no files, network, or program variables.

    Args:
        query: one or more statements; the rows of the last statement are returned, if it has rows.
        span: the run, or a part of it.
        table: creates a table by name; called only for tables that the query mentions.

    Raises:
        MissingExtraError: duckdb is not installed.
        QueryError: the query failed.
    """
    try:
        import duckdb
    except ImportError as err:
        raise MissingExtraError("Run.sql", "duckdb", "sql") from err
    # Not at the top, because it imports Arrow's compute functions and datasets.
    from mothtrap.reader.statistics_scan import StatisticsScan

    with duckdb.connect(":memory:", config={"python_enable_replacements": False}) as connection:
        for name in TABLES:
            if re.search(rf"\b{name}\b", query, re.IGNORECASE):
                rows = StatisticsScan(span) if name == "stats" else table(name)
                connection.register(name, rows)
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        try:
            relation = connection.sql(query)
            return pa.table({}) if relation is None else relation.to_arrow_table()
        except duckdb.Error as err:
            raise QueryError(
                f"the query cannot be answered: {err}; tables: {', '.join(TABLES)}"
            ) from err
