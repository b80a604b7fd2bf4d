"""Evaluation rows in custom loops that were also trained on, found by digests of both."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.core.adapters import Job
from mothtrap.core.facts.data import RowsShared
from mothtrap.core.steps import Mode
from mothtrap.statistics import numpy as arithmetic
from mothtrap.statistics.digest import Digests

Array = npt.NDArray[Any]

TRAIN_ROWS: Final = 200_000
"""Maximum number of stored training rows. Chosen by hand: 8 MB."""
CALLS_ALONE: Final = 1024
"""Training calls that are recorded before the first evaluation. Chosen by hand."""
EVAL_ROWS: Final = 20_000
PHASES: Final = 3
"""Maximum number of reported evaluations of one source."""
STEPS_APART: Final = 3
"""Minimum number of steps between two evaluations; closer evaluations are part of the training.
Chosen by hand."""
NEW_SHARE: Final = 0.02
"""Share of new rows below which the training data counts as known."""
STRETCH_ROWS, STRETCH_SHARE = 64, 0.25
"""Number of consecutive rows, and their share of all known rows, in which so few are new."""


@dataclass(slots=True)
class _Trained:
    """Rows of one shape that were trained on; `complete`: they are most of the training data."""

    rows: set[int] = field(default_factory=set)
    latest: deque[tuple[int, int]] = field(default_factory=deque)
    seen: int = 0
    new: int = 0
    total: int = 0
    repeated: int = 0
    complete: bool = False

    def add(self, digest_R: Digests) -> None:
        """Record the rows of a batch."""
        distinct = set(digest_R.tolist())
        new = len(distinct - self.rows)
        self.rows |= distinct
        self.total += len(digest_R)
        self.repeated += len(digest_R) - len(distinct)
        self.latest.append((len(digest_R), new))
        self.seen, self.new = self.seen + len(digest_R), self.new + new
        stretch = max(STRETCH_ROWS, STRETCH_SHARE * len(self.rows))
        while self.latest and self.seen - self.latest[0][0] >= stretch:
            rows, fresh = self.latest.popleft()
            self.seen, self.new = self.seen - rows, self.new - fresh
        self.complete |= self.seen >= stretch and self.new <= NEW_SHARE * self.seen


@dataclass(slots=True)
class _Evaluated:
    """Rows of the evaluation in progress of one source."""

    trained: _Trained
    location: str | None
    rows: list[Digests] = field(default_factory=list)
    count: int = 0


class LoopRows:
    """Compares the rows of evaluations with training rows.

    Args:
        job: receives the facts.
        module: name of the model.
    """

    def __init__(self, job: Job, module: str) -> None:
        self._job, self._module = job, module
        self._trained: dict[tuple[int, ...], _Trained] = {}
        self._evaluated: dict[str, _Evaluated] = {}
        self._reported: dict[str, int] = {}
        self._latest: dict[str, int] = {}
        self._calls = 0

    def trained(self, arrays: Sequence[Array]) -> None:
        """Record the inputs of a training call."""
        self._calls += 1
        if self._calls > CALLS_ALONE and not self._latest:
            return
        for array in arrays:
            if not _has_rows(array):
                continue
            trained = self._trained.setdefault(array.shape[1:], _Trained())
            if not trained.complete and trained.total < TRAIN_ROWS:
                trained.add(_digests(array))

    def evaluated(self, source: str, arrays: Sequence[Array], location: str | None) -> None:
        """Record the inputs of an evaluation call; the first of a known shape is compared."""
        if self._reported.get(source, 0) >= PHASES:
            return
        for array in arrays:
            trained = self._trained.get(array.shape[1:]) if _has_rows(array) else None
            if trained is None:
                continue
            one = self._evaluated.setdefault(source, _Evaluated(trained, location))
            if one.count < EVAL_ROWS:
                one.rows.append(_digests(array))
                one.count += len(array)
            return

    def ended(self) -> None:
        """Report the evaluations that have ended."""
        found, self._evaluated = self._evaluated, {}
        step = self._job.now.step
        for source, one in found.items():
            before = self._latest.get(source, -STEPS_APART)
            self._latest[source] = step
            if not one.trained.complete or step - before < STEPS_APART:
                continue
            self._reported[source] = self._reported.get(source, 0) + 1
            self._report(source, one)

    def _report(self, source: str, one: _Evaluated) -> None:
        digest_N = np.concatenate(one.rows)
        distinct_N, count_N = np.unique(digest_N, return_counts=True)
        known_N = np.array([row in one.trained.rows for row in distinct_N.tolist()], dtype=bool)
        self._job.fact(
            RowsShared(
                step=self._job.now.step,
                mode=Mode.EVAL,
                module=self._module,
                argument="x",
                source=source,
                train_rows=len(one.trained.rows),
                eval_rows=len(distinct_N),
                shared=int(known_N.sum()),
                expected_share=one.trained.repeated / max(1, one.trained.total),
                share_of_all=float(count_N[known_N].sum() / len(digest_N)),
                location=one.location,
            )
        )


def _has_rows(array: Array) -> bool:
    """Return whether the rows of an array distinguish examples, unlike labels."""
    rows = array.ndim >= 2 and len(array) >= 2 and array[0].size >= 2
    return bool(rows) and array.dtype.kind in "fiu"


def _digests(array: Array) -> Digests:
    plain = np.ascontiguousarray(array.reshape(len(array), -1))
    return arithmetic.row_digests(plain, plain.shape[1])
