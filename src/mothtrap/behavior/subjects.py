"""Makes a subject from a predict function, rows and targets as users give them.

Shape suffixes: R = rows.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from mothtrap.behavior.budget import PREDICTIONS, SECONDS, Budget
from mothtrap.behavior.reading import Loss, Reading, read
from mothtrap.behavior.subject import (
    MAX_ROWS,
    Judged,
    NewRows,
    Options,
    Predict,
    Refit,
    Subject,
)
from mothtrap.behavior.table import Table
from mothtrap.core.audited import AuditedFile, Origin
from mothtrap.core.error_texts import in_one_line
from mothtrap.core.errors import ConfigError, MissingExtraError, nearest
from mothtrap.core.wrapped_models import Network


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a probe run; see `mothtrap.probe` for their meaning."""

    task: str | None = None
    classes: tuple[Any, ...] = ()
    monotone: Mapping[str, int | str] = {}
    expect_used: tuple[str, ...] = ()
    time: Any = None
    about: Any = None
    loss: Loss | None = None
    refit: Refit | None = None
    network: Network | None = None
    files: Sequence[AuditedFile] = ()
    origin: Origin | None = None
    budget_s: float = SECONDS
    predictions: int = PREDICTIONS
    seed: int = 0


def make_subject(
    predict: Predict,
    X: Any,
    y: Any,
    train: tuple[Any, Any] | None = None,
    request: Request | None = None,
    new: Any = None,
) -> tuple[Subject, Table]:
    """Create the subject of a probe run; also return all given rows.

    Raises:
        ConfigError: data, targets, predictions, or settings do not fit together.
        MissingExtraError: scikit-learn is not installed.
    """
    if importlib.util.find_spec("sklearn") is None:
        raise MissingExtraError("mothtrap probe", "scikit-learn", "probe")
    request = request or Request()
    everything = Table(X, about=request.about)
    target_R = np.asarray(y).ravel()
    if len(everything) != len(target_R):
        raise ConfigError(f"there are {len(everything):,} rows, but {len(target_R):,} targets")
    if not len(target_R):
        raise ConfigError("there are no rows")
    budget = Budget(request.budget_s, request.predictions)
    rng = np.random.default_rng([request.seed, 1])
    rows_R = _sample(target_R, rng)
    table = everything.take(rows_R)
    budget.spend(len(table))
    answer = _answered(predict, table)
    reading = read(answer, target_R[rows_R], request.task, request.classes)
    loss = request.loss
    judged = _judged(table, reading, answer, target_R[rows_R], rows_R, loss)
    options = Options(
        monotone=_directions(request.monotone, table.names),
        expect_used=request.expect_used,
        time_R=_times(request.time, everything, rows_R),
        refit=request.refit,
        network=request.network,
        files=request.files,
        origin=request.origin,
        loss=loss,
    )
    trained = None
    if train is not None:
        train_y = np.asarray(train[1]).ravel()
        train_rows = _sample(train_y, rng)
        train_table = Table(train[0]).take(train_rows)
        budget.spend(len(train_table))
        trained = _judged(
            train_table,
            reading,
            _answered(predict, train_table),
            train_y[train_rows],
            train_rows,
            loss,
        )
    later = None
    if new is not None:
        later = _new_rows(predict, new, judged, budget, rng)
    return Subject(predict, judged, budget, options, trained, request.seed, later), everything


def _answered(predict: Predict, table: Table) -> Any:
    """Return the model's answers; raise ConfigError where it refuses the rows as they are."""
    try:
        return predict(table.for_model())
    except Exception as err:  # whatever the model raises
        shape = f"{len(table):,} rows of {len(table.names) or 'no'} columns"
        raise ConfigError(f"the model failed on {shape}: {in_one_line(err)}") from err


def _new_rows(
    predict: Predict, new: Any, judged: Judged, budget: Budget, rng: np.random.Generator
) -> NewRows:
    """Return new rows with the model's answers; `new` are rows, or rows and targets."""
    rows, targets = new if isinstance(new, tuple) else (new, None)
    table = Table(rows)
    if lacking := [name for name in judged.table.names if name not in table.names]:
        raise ConfigError(f"the new rows have no column {lacking[0]!r}")
    target_R = np.arange(len(table)) if targets is None else np.asarray(targets).ravel()
    if len(target_R) != len(table):
        raise ConfigError(f"there are {len(table):,} new rows, but {len(target_R):,} targets")
    at = _sample(target_R, rng)
    table = table.take(at)
    budget.spend(len(table))
    answer = _answered(predict, table)
    found = None
    if targets is not None:
        found = _judged(table, judged.reading, answer, target_R[at], at, judged.loss)
    scores = judged.reading.scores(answer)
    return NewRows(table=table, scores=scores, judged=found, rows_R=at)


def _judged(
    table: Table,
    reading: Reading,
    answer: Any,
    target_R: npt.NDArray[Any],
    rows_R: npt.NDArray[np.int64],
    loss: Loss | None,
) -> Judged:
    """Return rows with finite answers and targets; others cannot be compared."""
    scores = reading.scores(answer)
    targets = reading.targets(target_R)
    fine_R = np.isfinite(scores).all(axis=1)
    fine_R &= np.isfinite(targets) if reading.is_regression else targets >= 0
    if not fine_R.any():
        raise ConfigError("no row has both a finite prediction and a known target")
    if fine_R.all():
        return Judged(table, targets, scores, reading, rows_R, loss)
    return Judged(
        table.take(fine_R), targets[fine_R], scores[fine_R], reading, rows_R[fine_R], loss
    )


def _sample(target_R: npt.NDArray[Any], rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return indices of at most `MAX_ROWS` rows, ascending, with the shares of all classes kept."""
    count = len(target_R)
    if count <= MAX_ROWS:
        return np.arange(count)
    groups = np.unique(target_R, return_inverse=True)[1]
    if groups.max() >= MAX_ROWS // 100:  # numbers: a plain sample
        return np.sort(rng.choice(count, MAX_ROWS, replace=False))
    order = np.argsort(groups[shuffled := rng.permutation(count)], kind="stable")
    places = np.linspace(0, count - 1, MAX_ROWS).astype(int)
    return np.sort(shuffled[order[places]])


def _directions(given: Mapping[str, int | str], names: Sequence[str]) -> dict[str, int]:
    """Return +1 or -1 by column."""
    found = {}
    for name, sign in given.items():
        if name not in names:
            raise ConfigError(f"monotone: no column {name!r}{nearest(name, names)}")
        if sign not in (1, -1, "+", "-"):
            raise ConfigError(f"monotone: expected + or - for {name!r}, found {sign!r}")
        found[name] = 1 if sign in (1, "+") else -1
    return found


def _times(time: Any, everything: Table, rows_R: npt.NDArray[np.int64]) -> Any:
    if time is None:
        return None
    if isinstance(time, str):
        try:
            given = everything.column(time).given_R
        except KeyError as err:
            raise ConfigError(f"time: {err.args[0]}") from err
    else:
        given = time
    return np.asarray(given)[rows_R]
