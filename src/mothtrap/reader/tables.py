"""Arrow tables of a run; null means not captured.

NaN is a value as it was captured, or the statistic of a tensor without finite values.
Shape suffix: N = rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mothtrap.core import jsonable
from mothtrap.core.errors import MissingExtraError, UnknownNameError, nearest
from mothtrap.core.findings import Finding
from mothtrap.core.steps import Mode
from mothtrap.core.window import Matrix
from mothtrap.reader.files.parts import Part, Span
from mothtrap.reader.files.worker_view import ScalarName
from mothtrap.reader.row_columns import STATS, TENSOR, WHEN, WORDS, Columns, stats, tensor, when
from mothtrap.reader.run_facts import RunFacts
from mothtrap.reader.series.unwatched import unwatched_rows
from mothtrap.reader.series.worker_series import summary_rows
from mothtrap.reader.tensors.choosing import all_tensors
from mothtrap.store.columns import numbers, words

if TYPE_CHECKING:
    import xarray

_SHAPE = pa.list_(pa.int64())


def table(facts: RunFacts, span: Span, name: str) -> pa.Table:
    """Return a table of a run.

    Args:
        facts: facts of the run.
        span: the run, or a part of it.
        name: one of `TABLES`.

    Raises:
        UnknownNameError: there is no such table; the message suggests one.
    """
    if name not in _MAKERS:
        raise UnknownNameError(
            f"there is no table {name!r}{nearest(name, TABLES)}; tables: {', '.join(TABLES)}"
        )
    schema, rows = _MAKERS[name]
    batches = [pa.record_batch(columns, schema=schema) for columns in rows(facts, span)]
    # Every batch has its own dictionary.
    return pa.Table.from_batches(batches, schema=schema).unify_dictionaries()


def dataset(matrices: Mapping[str, Matrix], kind: str) -> xarray.Dataset:
    """Return statistics as an xarray dataset: variables over (step, layer), NaN = absent.

    Args:
        matrices: matrices by statistic, for one kind of tensors.
        kind: kind of the tensors.

    Raises:
        MissingExtraError: xarray is not installed.
    """
    try:
        import xarray
    except ImportError as err:
        raise MissingExtraError("Run.dataset", "xarray", "analysis") from err

    arrays = {
        statistic: xarray.DataArray(
            matrix.values_ST,
            dims=("step", "layer"),
            coords={"step": matrix.steps_S, "layer": [tensor.name for tensor in matrix.tensors]},
        )
        for statistic, matrix in matrices.items()
    }
    # Each statistic may have been captured at different steps.
    aligned = xarray.align(*arrays.values(), join="outer")
    return xarray.Dataset(dict(zip(arrays, aligned, strict=True)), attrs={"kind": kind})


def _stats(_: RunFacts, span: Span) -> Iterator[Columns]:
    for worker in span.workers:
        for rows in summary_rows(span.parts(worker), lambda _: True, None):
            yield stats(worker, rows)


def _scalars(_: RunFacts, span: Span) -> Iterator[Columns]:
    for worker in span.workers:
        for part in span.parts(worker):
            found = part.view.scalars()
            if not found:
                continue
            columns = [column.commits.view() for column in found.values()]
            commit_N = np.concatenate(columns)
            which_N = np.repeat(np.arange(len(columns)), [len(column) for column in columns])
            value_N = np.concatenate([column.values.view() for column in found.values()])
            order_N = np.argsort(commit_N, kind="stable")
            order_N = order_N[part.counts(commit_N[order_N])]
            recorded = when(worker, part, commit_N[order_N]) | {
                "name": words([name for name, _, _ in found], which_N[order_N]),
                "of": words([of for _, of, _ in found], which_N[order_N]),
                "value": pa.array(value_N[order_N]),
            }
            yield _with_unwatched(worker, part, list(found), recorded)


def _with_unwatched(
    worker: int, part: Part, scalars: Sequence[ScalarName], recorded: Columns
) -> Columns:
    """Add the losses and learning rates of steps that were not observed, in order of steps."""
    rows = [unwatched_rows(part, scalar) for scalar in scalars]
    step_N, value_N = (np.concatenate(column) for column in zip(*rows, strict=True))
    if not len(step_N):
        return recorded
    which_N = np.repeat(np.arange(len(scalars)), [len(steps) for steps, _ in rows])
    more: Columns = {
        "worker": numbers(np.full(len(step_N), worker, np.int64)),
        "attempt": numbers(np.full(len(step_N), part.attempt, np.int64)),
        "step": numbers(step_N),
        "mode": words([Mode.TRAIN.value], np.zeros(len(step_N), np.int64)),
        "mode_step": numbers(step_N),
        "name": words([name for name, _, _ in scalars], which_N),
        "of": words([of for _, of, _ in scalars], which_N),
        "value": pa.array(value_N),
    }
    order_N = np.argsort(np.concatenate([recorded["step"].to_numpy(), step_N]), kind="stable")
    joined = {name: pa.concat_arrays([recorded[name], more[name]]) for name in recorded}
    return {name: column.take(pa.array(order_N)) for name, column in joined.items()}


def _steps(_: RunFacts, span: Span) -> Iterator[Columns]:
    for worker in span.workers:
        for part in span.parts(worker):
            commits, commit_N = part.view.commits, part.commits()
            optimizers = [list(names) for names in commits.optimizers(commit_N)]
            yield when(worker, part, commit_N) | {
                "wall_s": pa.array(commits.wall_s[commit_N]),
                "skipped": pa.array(commits.skipped[commit_N]),
                "optimizers": pa.array(optimizers, pa.list_(pa.string())),
                **{
                    name: pa.array(commits.promised(name)[commit_N])
                    for name in ("tensors", "scalars", "raw")
                },
            }


def _raw(_: RunFacts, span: Span) -> Iterator[Columns]:
    for worker in span.workers:
        for part in span.parts(worker):
            for piece in part.view.raw():
                rows = np.flatnonzero(part.counts(piece.commit_N))
                tensor_N = piece.column("tensor")[rows].astype(np.int64)
                known = np.isin(tensor_N, list(part.view.tensors))
                rows, tensor_N = rows[known], tensor_N[known]
                batch = piece.batch.take(pa.array(rows))
                yield (
                    when(worker, part, piece.commit_N[rows])
                    | tensor(part.view.tensors, tensor_N)
                    | {
                        "dtype": batch.column("dtype").dictionary_encode(),
                        "shape": batch.column("shape"),
                        "bytes": batch.column("size"),
                    }
                )


def _tensors(_: RunFacts, span: Span) -> Iterator[Columns]:
    known = list(all_tensors(span).values())
    infos = [tensor.info for tensor in known]
    texts = ("name", "module", "module_type", "role", "dtype", "location", "scope")
    yield {
        "kind": pa.array([info.kind for info in infos], pa.string()),
        **{t: pa.array([getattr(info, t) for info in infos], pa.string()) for t in texts},
        "shape": pa.array([list(info.shape) for info in infos], _SHAPE),
        "workers": pa.array([list(tensor.workers) for tensor in known], _SHAPE),
    }


def _findings(facts: RunFacts, _: Span) -> Iterator[Columns]:
    rows = [{name: _cell(finding, name) for name in _FINDINGS.names} for finding in facts.findings]
    yield {n: pa.array([r[n] for r in rows], _FINDINGS.field(n).type) for n in _FINDINGS.names}


def _cell(finding: Finding, name: str) -> object:
    if name == "evidence":
        return jsonable.encode(finding.evidence).decode()
    value = getattr(finding, name)
    return list(value) if isinstance(value, tuple) else value


def _events(_: RunFacts, span: Span) -> Iterator[Columns]:
    rows = [
        (worker, number, o.step, o.mode.value, type(o).__name__, jsonable.encode(o).decode())
        for number, attempt in sorted(span.attempts.items())
        for worker, view in sorted(attempt.workers.items())
        for o in view.observations
        if o.step in span.bounds
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(_EVENTS.names)
    yield {
        field.name: pa.array(column, field.type)
        for field, column in zip(_EVENTS, columns, strict=True)
    }


_EVENTS = pa.schema(
    {
        **{name: pa.int64() for name in ("worker", "attempt", "step")},
        **{name: pa.string() for name in ("mode", "type", "json")},
    }
)
_FINDINGS = pa.schema(
    {
        **{name: pa.string() for name in ("code", "name", "severity", "mode", "message")},
        **{name: pa.int64() for name in ("step", "detected_step", "last_step", "count")},
        "layers": pa.list_(pa.string()),
        "workers": _SHAPE,
        **{name: pa.string() for name in ("evidence", "confidence", "location", "fingerprint")},
    }
)
_TENSOR_TEXTS = ("kind", "name", "module", "module_type", "role", "dtype", "location", "scope")
_Maker = Callable[[RunFacts, Span], Iterator[Columns]]
_MAKERS: dict[str, tuple[pa.Schema, _Maker]] = {
    "stats": (STATS, _stats),
    "scalars": (
        pa.schema(WHEN | {"name": WORDS, "of": WORDS, "value": pa.float64()}),
        _scalars,
    ),
    "steps": (
        pa.schema(
            WHEN
            | {"wall_s": pa.float64(), "skipped": pa.bool_(), "optimizers": pa.list_(pa.string())}
            | dict.fromkeys(("tensors", "scalars", "raw"), pa.int64())
        ),
        _steps,
    ),
    "raw": (
        pa.schema(WHEN | TENSOR | {"dtype": WORDS, "shape": _SHAPE, "bytes": pa.int64()}),
        _raw,
    ),
    "tensors": (
        pa.schema(dict.fromkeys(_TENSOR_TEXTS, pa.string()) | {"shape": _SHAPE, "workers": _SHAPE}),
        _tensors,
    ),
    "findings": (_FINDINGS, _findings),
    "events": (_EVENTS, _events),
}
TABLES = tuple(_MAKERS)
"""Names of the tables: `stats`, `scalars`, `steps`, `raw`, `tensors`, `findings`, `events`."""
