"""Curves that no file of a run contains: numbers of facts, and the norm over all tensors of a kind.

The curve of a fact has a name like `fact/OutputSpread.spread÷rms/net`; its subject is a field of
the fact, or `rank 1`. The joint norm has the name of a tensor's curve with `*` for the tensor:
`train/gradient.l2/*`. Shape suffixes: N = rows, S = steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mothtrap.core.errors import ConfigError, UnknownNameError
from mothtrap.core.fact import Fact, fact_types, tag_of
from mothtrap.core.proof import Proof
from mothtrap.core.steps import Mode
from mothtrap.core.window import Floats, Ints
from mothtrap.reader.run import Run
from mothtrap.web.buckets import Bytes
from mothtrap.web.opened import OpenRun

FACT = "fact/"
ALL = "*"
"""Name of all tensors of a kind together; no tensor has it."""
MOST_JOINED_ROWS = 1_000_000
"""Maximum number of rows that are read for a joint norm; chosen by hand: about a second."""


def fact_curves(run: Run, proof: Proof) -> dict[str, str]:
    """Return the subjects of a proof's fact, by name of their curve."""
    if proof.fact is None:
        return {}
    field = f"{proof.field}÷{proof.over}" if proof.over else proof.field
    prefix = f"{FACT}{tag_of(proof.fact)}.{field}/"
    if not proof.subject:
        return {f"{prefix}rank {worker}": f"rank {worker}" for worker in run.workers}
    subjects = dict.fromkeys(
        str(getattr(seen, proof.subject)) for seen in run.observations(proof.fact)
    )
    return {f"{prefix}{proof.subject}={subject}": subject for subject in subjects}


def fact_rows(run: Run, name: str) -> tuple[Ints, Floats]:
    """Return the steps and values of the curve of a fact, both of shape (N,).

    Raises:
        UnknownNameError: no fact has such a number.
    """
    what, _, subject = name.removeprefix(FACT).partition("/")
    tag, _, field = what.partition(".")
    number, _, over = field.partition("÷")
    kind = fact_types().get(tag)
    if kind is None or not {number, over or number} <= set(kind.__struct_fields__):
        raise UnknownNameError(f"there is no curve {name!r} in {run.id}")
    seen_N = list(_of_subject(run, kind, subject))
    step_N = np.array([seen.step for seen in seen_N], np.int64)
    value_N = np.array([_number(seen, number) for seen in seen_N])
    if over:
        with np.errstate(divide="ignore", invalid="ignore"):
            value_N = value_N / np.array([_number(seen, over) for seen in seen_N])
    order_N = np.argsort(step_N, kind="stable")
    return step_N[order_N], value_N[order_N]


def _of_subject(run: Run, kind: type[Fact], subject: str) -> Iterator[Fact]:
    """Yield the facts of a rank (`rank 1`), or the facts with a certain field (`root=net`)."""
    field, equals, wanted = subject.partition("=")
    if equals:
        yield from (s for s in run.observations(kind) if str(getattr(s, field, "")) == wanted)
        return
    worker = int(subject.rpartition(" ")[2]) if subject.rpartition(" ")[2].isdecimal() else -1
    for part in run.parts(worker) if worker in run.workers else []:
        for seen in part.view.observations:
            if isinstance(seen, kind) and part.has(seen.step, seen.mode):
                yield seen


def _number(seen: Fact, field: str) -> float:
    value: Any = getattr(seen, field)
    if isinstance(value, tuple | list):
        value = max(value, default=None)
    return float(value) if isinstance(value, int | float) else float("nan")


def can_join(run: Run) -> bool:
    """Return whether a run has few enough rows of statistics to compute a joint norm."""
    rows = [int(part.view.commits.promised("tensors").sum()) for part in run.parts()]
    return bool(rows) and sum(rows) <= MOST_JOINED_ROWS


def joint_rows(
    opened: OpenRun, mode: Mode, kind: str, statistic: str, worker: int
) -> tuple[Ints, Floats, Bytes]:
    """Return the norm over all tensors of a kind at each step: the root of the sum of squares.

    Raises:
        ConfigError: the statistic is no norm, or the run has too many rows to read each.
    """
    run = opened.run
    if statistic != "l2" or not can_join(run):
        raise ConfigError(
            f"the curve of all {kind} tensors needs the statistic l2 and at most "
            f"{MOST_JOINED_ROWS:,} rows; choose single tensors"
        )
    steps, squares, bad = [np.empty(0, np.int64)], [np.empty(0)], [np.empty(0, np.uint8)]
    for part in run.parts(worker):
        stop = part.redone.train if mode is Mode.TRAIN else part.redone.others
        ids = frozenset(n for n, info in part.view.tensors.items() if info.kind == kind)
        exact = opened.exact(part.view, ids, statistic, mode)
        for number in ids:
            step_N, value_N, bad_N = exact.rows(number, 0, stop)
            steps.append(step_N)
            squares.append(np.square(value_N))
            bad.append(bad_N)
    square_N, bad_N = np.concatenate(squares), np.concatenate(bad)
    step_S, place_N = np.unique(np.concatenate(steps), return_inverse=True)
    norm_S = np.sqrt(np.bincount(place_N, square_N, len(step_S)))
    bad_S = np.zeros(len(step_S), np.uint8)
    np.bitwise_or.at(bad_S, place_N, bad_N)
    return step_S, norm_S, bad_S
