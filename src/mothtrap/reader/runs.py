"""Many runs, selected by an expression, as rows of a table."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, overload

from mothtrap.core.display import grid
from mothtrap.core.errors import MothtrapError
from mothtrap.core.findings import Severity
from mothtrap.core.ledger import LedgerValue
from mothtrap.core.run_filter import Facts, RunFilter, read_filter
from mothtrap.reader.run import Run, open_run
from mothtrap.reader.run_columns import Row, as_csv, joined_facts, joined_row
from mothtrap.store import find_runs

if TYPE_CHECKING:
    import pyarrow as pa

OWN = ("run", "kind", "started", "state", "steps", "errors", "warnings", "findings", "verdict")
LABELS = ("tags", "group", "user", "host", "commit")
SHOWN = 8
"""Maximum number of parameters and metrics of a table in a notebook; chosen by hand."""


def runs(
    runs_dir: str | Path = "runs", where: str | None = None, *, archived: bool = False
) -> Runs:
    """Return the runs of a folder, latest start first.

    Runs that cannot be opened are skipped with a warning.

    Args:
        runs_dir: a folder, or the URL of an object store.
        where: an expression that selects runs, see `Runs.where`.
        archived: also return archived runs.

    Raises:
        QueryError: the expression is invalid, or contains a name that no run has.
    """
    found = []
    for path in find_runs.list_runs(runs_dir):
        try:
            run = open_run(path)
        except (MothtrapError, OSError) as err:
            warnings.warn(f"{path.name} cannot be opened: {err}", stacklevel=2)
            continue
        if archived or not run.labels.archived:
            found.append(run)
    chosen = Runs(found)
    return chosen if where is None else chosen.where(where)


class Runs(Sequence[Run]):
    """Sequence of runs, returned by `mothtrap.runs`."""

    def __init__(self, of: Iterable[Run]) -> None:
        self._runs = tuple(of)

    def __len__(self) -> int:
        return len(self._runs)

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> Runs: ...
    def __getitem__(self, index: int | slice) -> Run | Runs:
        return Runs(self._runs[index]) if isinstance(index, slice) else self._runs[index]

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __repr__(self) -> str:
        names = ", ".join(run.id for run in self._runs[:5])
        return f"<Runs {len(self)}: {names}{' ...' if len(self) > 5 else ''}>"

    def where(self, expression: str) -> Runs:
        """Return the runs for which an expression is true.

        Args:
            expression: comparisons of parameters, metrics, `state`, `steps`, `user`, `group` ...
                with numbers and quoted strings, joined by `and`, `or`, `not`. The code of a rule,
                such as `GRD101`, or a tag is true for runs that have it. Example:
                `lr > 1e-3 and GRD101`.

        Raises:
            QueryError: the expression is invalid, or contains a name that no run has.
        """
        wanted = read_filter(expression)
        known = [facts_of(run, wanted) for run in self._runs]
        names = [name for facts in known for name in (*facts.values, *facts.marks)]
        if known:
            wanted.check(names)
        return Runs(run for run, facts in zip(self._runs, known, strict=True) if wanted.test(facts))

    def rows(self) -> list[Row]:
        """Return one row per run: a dict of its properties, labels, parameters and last metrics."""
        return [row_of(run) for run in self._runs]

    def table(self) -> pa.Table:
        """Return the rows as an Arrow table; columns with mixed types become strings."""
        import pyarrow as pa

        rows, names = self.rows(), []
        for row in rows:
            names += [name for name in row if name not in names]
        columns = {name: _of_one_type([row.get(name) for row in rows]) for name in names}
        return pa.table(columns)

    def to_csv(self) -> str:
        """Return the rows as CSV; values that a spreadsheet would read as a formula are quoted."""
        return as_csv(self.rows())

    def _repr_html_(self) -> str:
        rows = self.rows()
        more = [n for row in rows for n in row if n not in (*OWN, *LABELS)]
        names = ["run", "state", "steps", "findings", "tags", *dict.fromkeys(more)]
        names = names[: 5 + SHOWN]
        return grid(names, [[row.get(name, "") for name in names] for row in rows])


def row_of(run: Run) -> Row:
    """Return the properties, labels, parameters and metrics of a run, by name.

    A metric with the same name as a parameter is `metric.NAME`.
    """
    return joined_row(own_columns(run), run.record.parameters, run.metrics)


def own_columns(run: Run) -> Row:
    """Return the first columns of a run: its properties and labels."""
    return {**_own(run), **_labels(run)}


def facts_of(run: Run, wanted: RunFilter) -> Facts:
    """Return the names an expression can use; metrics are read only if the expression names one."""
    columns, parameters = own_columns(run), run.record.parameters
    marks = [word for f in run.findings for word in (f.code, f.name)] + list(run.labels.tags)
    found = joined_facts(columns, parameters, {}, marks)
    if any(name not in found.values and name not in marks for name in wanted.names):
        return joined_facts(columns, parameters, run.metrics, marks)
    return found


def _own(run: Run) -> Row:
    info, findings = run.info, run.findings
    started_s = info.created_s if info is not None else 0.0
    return {
        "run": run.id,
        "kind": run.kind.value,
        "started": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(started_s)),
        "state": run.state,
        "steps": run.steps,
        "errors": sum(f.severity is Severity.ERROR for f in findings),
        "warnings": sum(f.severity is Severity.WARNING for f in findings),
        "findings": " ".join(dict.fromkeys(f.code for f in findings)),
        "verdict": run.verdict,
    }


def _labels(run: Run) -> Row:
    labels, record = run.labels, run.record
    return {
        "tags": " ".join(labels.tags),
        "group": labels.group,
        "user": record.user,
        "host": record.host,
        "commit": record.commit[:12] + ("+" if record.changed_count else ""),
    }


def _of_one_type(values: list[LedgerValue]) -> list[LedgerValue]:
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) <= 1:
        return values
    if kinds <= {int, float}:
        return [None if value is None else float(value) for value in values]
    return [None if value is None else str(value) for value in values]
