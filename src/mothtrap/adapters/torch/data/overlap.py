"""Rows of an evaluation's inputs that were also trained on, found by digests of both."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from mothtrap.adapters.torch.data.data_sources import Source
from mothtrap.adapters.torch.job.tensor_refs import UnchangedRef
from mothtrap.core.facts.data import RowsShared
from mothtrap.core.steps import Mode
from mothtrap.statistics.digest import Digests
from mothtrap.statistics.torch.in_place import as_array
from mothtrap.statistics.torch.row_digests import row_digests
from mothtrap.tracing.describe.copied_rows import (
    LEAST_TRAINED,
    RowSample,
    only_repeated_are_known,
    thinned,
)
from mothtrap.tracing.jobs.identity import ByIdentity, OwnRef
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.forward_uses import Use
    from mothtrap.adapters.torch.job.job import Job

TRAIN_ROWS, TRAIN_CALLS = 200_000, 4096
"""Maximum number of inspected rows and calls of training. Chosen by hand: 8 MB, 0.1 s."""
EVAL_ROWS = 20_000
"""Maximum number of inspected rows of an evaluation."""
PHASES = 3
"""Maximum number of reported evaluations of one source."""
NEW_SHARE = 0.02
"""Share of new rows below which the training data counts as known."""
STRETCH_ROWS, STRETCH_SHARE = 64, 0.25
"""Number of consecutive rows, and their share of all known rows, in which so few are new."""
WITHOUT_REPLACEMENT = ("sequential", "shuffled")
STEPS_APART = 3
"""Evaluations that are closer than this, and of different rows, are part of the training."""
HELD = 16
"""Consecutive evaluations of the same rows after which they are reported. Fewer repetitions also
occur in reinforcement learning, which trains several times on the rows that it has just collected.
Chosen by hand.
"""
BY_HAND = "calls"
"""First word of the name of evaluations whose rows do not come from a loader."""
MAX_ENTRIES = 1 << 20
"""Maximum number of entries of a sparse matrix whose rows are inspected. Chosen by hand: 20 ms."""
STEPS_OF_LINES = 64
"""Number of first steps in which the lines that call a model for the current step are recorded."""
STEPS_BETWEEN = 3
"""A line that runs a model between a forward and its step in this many steps is part of the
training, such as one that computes targets. Chosen by hand.
"""
KNOWN_SHARE = 0.8
"""If this share of a call's rows was trained on, the call evaluates the training data."""


@dataclass(slots=True)
class _Trained:
    """Rows that a module was trained on. `complete`: they are most of the training data.

    `latest` contains the number of rows and of new rows of the latest calls; `seen` and `new` are
    their sums, `total` counts all rows.
    """

    rows: set[int] = field(default_factory=set)
    calls: int = 0
    latest: deque[tuple[int, int]] = field(default_factory=deque)
    seen: int = 0
    new: int = 0
    total: int = 0
    pairs: int = 0
    equal_pairs: int = 0
    complete: bool = False
    source: Source | None = None

    def is_complete(self) -> bool:
        """Return whether rows repeat, or all rows of an exhausted loader were inspected."""
        within = self.calls < TRAIN_CALLS and self.total < TRAIN_ROWS
        source = self.source
        if source is not None and source.done and source.plan.sampler in WITHOUT_REPLACEMENT:
            self.complete = self.complete or within
        return self.complete


@dataclass(slots=True)
class _Evaluated:
    """Rows of one source in the evaluation in progress.

    `partial`: not all training data is known yet.
    """

    module: str
    argument: str
    location: str | None
    trained: _Trained
    partial: bool
    sample: RowSample = field(default_factory=RowSample)
    rows: list[Digests] = field(default_factory=list)
    count: int = 0
    by_hand: bool = False
    own_dataset: bool = False


@dataclass(slots=True)
class _Held:
    """Finding about an evaluation, reported once the next evaluation of the same kind is known.

    `step` is the step of the latest evaluation of the same distinct rows, `count` their number.
    """

    told: RowsShared
    distinct_N: Digests
    step: int
    count: int


class _Given:
    """Rows that a module was called with.

    Attributes:
        module: the called module, without wrappers.
        argument: the name of the argument.
        shape: shape of the rows together.
        source: loader of the arguments.
        location: the line of the loader, or of the call.
        digest_R: digests of the rows; None if they were not computed.
        unchanged: returns the rows together, as long as their values are unchanged.
        is_learned: the rows are added to the training rows if they turn out to be trained on.
    """

    def __init__(
        self, module: nn.Module, argument: str, tensor: torch.Tensor, source: Source | None
    ) -> None:
        self.module: OwnRef[nn.Module] = OwnRef(module)
        self.argument, self.source = argument, source
        self.shape = tuple(tensor.shape)
        self.location: str | None = None
        self.digest_R: Digests | None = None
        self.is_learned = False
        self.unchanged = UnchangedRef(tensor)


class OverlapObserver:
    """Stores digests of training rows, and compares evaluations with them.

    Attributes:
        is_busy: training rows are recorded in each step, including light steps.
        trained_step: the step of the latest training forward.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._trained: ByIdentity[nn.Module, dict[tuple[int, ...], _Trained]] = ByIdentity()
        self._evaluated: dict[tuple[str, str], _Evaluated] = {}
        self._before: dict[tuple[str, str], _Held] = {}
        self._of_training: set[str | None] = set()
        self._between: dict[str | None, set[int]] = {}
        self._phases: dict[str, int] = {}
        self._next_partial: dict[str, int] = {}
        self.trained_step, self.is_busy = -1, True
        self._sizes: dict[str | None, tuple[int, int]] = {}

    def called(
        self,
        module: nn.Module,
        arguments: Sequence[tuple[str, torch.Tensor]],
        source: Source | None,
        *,
        trains: bool,
        use: Use | None = None,
    ) -> None:
        """Handle a model call in user code.

        Args:
            module: the called module, without wrappers.
            arguments: its tensor arguments.
            source: loader of the arguments.
            trains: autograd records the forward pass.
            use: determines later whether the forward pass was an evaluation; None if nothing does.
        """
        if trains:
            if self._evaluated and use is None:
                self.evaluation_ended()
            self.trained_step = self._job.grouper.step
        elif self.trained_step == self._job.grouper.step:
            self._ran_between()
            return  # between a forward and its step
        for chosen in arguments:
            if has_rows(chosen[1]) or _has_sparse_rows(chosen[1]):
                break
        else:
            return
        name, tensor = chosen
        by_shape = self._trained.get(module)
        if by_shape is None:
            by_shape = self._trained[module] = {}
        shape = tuple(tensor.shape[1:])
        trained = by_shape.get(shape)
        if trained is None:
            if not trains:
                return
            trained = by_shape[shape] = _Trained()
        given = _Given(module, name, tensor, source)
        if not trains:
            self.is_busy = True
            given.location = source.location if source else frames.user_location()
            self._evaluate(trained, given)
        elif use is None:
            if self._learns(trained):
                self._train(trained, row_digests(tensor), source)
        else:
            given.location = source.location if source else use.place
            given.is_learned = self._learns(trained)
            if given.is_learned or use.is_expected:
                given.digest_R = row_digests(tensor)
            use.then(functools.partial(self._settled, trained, given))

    def _ran_between(self) -> None:
        """Record the line of a forward without a graph that belongs to the step in progress."""
        if self._job.grouper.steps_applied >= STEPS_OF_LINES:
            return
        location = frames.user_location()
        steps = self._between.setdefault(location, set())
        steps.add(self._job.grouper.step)
        if len(steps) >= STEPS_BETWEEN:
            self._of_training.add(location)

    def _settled(self, trained: _Trained, given: _Given, evaluated: bool) -> None:
        """Store rows once it is known whether they were trained on or evaluated."""
        if evaluated and given.digest_R is not None:
            self.is_busy = True
            self._evaluate(trained, given)
        elif not evaluated:
            if self._evaluated:
                self.evaluation_ended()
            if given.is_learned and given.digest_R is not None:
                self._train(trained, given.digest_R, given.source)

    def evaluation_ended(self) -> None:
        """Record the completed evaluation, and report the previous one of its kind."""
        evaluated, self._evaluated = self._evaluated, {}
        for (source, apart), found in evaluated.items():
            distinct_N = np.unique(np.concatenate(found.rows))
            told = self._shared(source, found)
            if found.partial:
                self._next_partial[source] = 2 * found.trained.total
                if told.copied:
                    self._report(told)
                continue
            held = self._before.pop((source, apart), None)
            if held is not None and told.step - held.step < STEPS_APART:
                if not np.array_equal(held.distinct_N, distinct_N):
                    self._phases[source] = PHASES  # part of training: a teacher or a bootstrap
                    if found.by_hand:
                        self._of_training.add(found.location)
                    continue
                if held.count < HELD:
                    self._before[source, apart] = held
                    held.step, held.count = told.step, held.count + 1
                    continue
            if held is not None:
                self._report(held.told)
            count = held.count if held is not None else 1
            self._before[source, apart] = _Held(told, distinct_N, told.step, count)

    def _shared(self, source: str, found: _Evaluated) -> RowsShared:
        trained, digest_N = found.trained, np.concatenate(found.rows)
        distinct_N, count_N = np.unique(digest_N, return_counts=True)
        known_N = np.array([row in trained.rows for row in distinct_N.tolist()], dtype=bool)
        repeated = trained.equal_pairs > 0 and len(distinct_N) < len(digest_N)
        if found.partial:
            repeated = repeated and only_repeated_are_known(known_N, count_N, trained.total)
        copied = repeated and found.sample.are_copies(distinct_N[known_N])
        return RowsShared(
            step=self._job.grouper.step,
            mode=Mode.EVAL,
            module=found.module,
            argument=found.argument,
            source=source,
            train_rows=len(trained.rows),
            eval_rows=len(distinct_N),
            shared=int(known_N.sum()),
            expected_share=_expected(trained, digest_N),
            copied=copied,
            share_of_all=float(count_N[known_N].sum() / len(digest_N)),
            own_dataset=found.own_dataset,
            location=found.location,
        )

    def ended(self) -> None:
        """Report the last evaluations."""
        self.evaluation_ended()
        before, self._before = self._before, {}
        for held in before.values():
            self._report(held.told)

    def _report(self, told: RowsShared) -> None:
        if told.location in self._of_training and told.source.startswith(BY_HAND):
            return
        if self._phases.get(told.source, 0) < PHASES:
            self._phases[told.source] = self._phases.get(told.source, 0) + 1
            self._job.recorder.notes.observe(told)

    def _learns(self, trained: _Trained) -> bool:
        """Return whether more rows of a training run must be recorded."""
        if trained.is_complete() or trained.calls >= TRAIN_CALLS or trained.total >= TRAIN_ROWS:
            self.is_busy = bool(self._evaluated) or self._is_open()
            return False
        return True

    def _train(self, trained: _Trained, digest_R: Digests, source: Source | None) -> None:
        self.is_busy = True
        trained.calls += 1
        trained.source = source
        rows = digest_R.tolist()
        distinct = set(rows)
        fresh = len(distinct - trained.rows)
        # Equal rows within a batch count only if no epoch boundary explains them.
        trained.pairs += len(rows) * (len(rows) - 1) // 2
        trained.equal_pairs += len(rows) - len(distinct)
        trained.rows |= distinct
        trained.total += len(rows)
        trained.latest.append((len(rows), fresh))
        trained.seen += len(rows)
        trained.new += fresh
        enough = max(STRETCH_ROWS, STRETCH_SHARE * len(trained.rows))
        while trained.seen - trained.latest[0][0] >= enough:
            count, new = trained.latest.popleft()
            trained.seen -= count
            trained.new -= new
        trained.complete = trained.seen >= enough and trained.new <= NEW_SHARE * trained.seen

    def _is_open(self) -> bool:
        """Return whether some training rows have not been compared and reported yet."""
        for _, by_shape in self._trained.items():
            for trained in by_shape.values():
                within = trained.calls < TRAIN_CALLS and trained.total < TRAIN_ROWS
                if within and not trained.is_complete():
                    return True
        return False

    def _evaluate(self, trained: _Trained, given: _Given) -> None:
        source, shape = given.source, given.shape
        name = source.label if source else self._by_hand(given.location, shape[0])
        partial = not trained.is_complete()
        if self._phases.get(name, 0) >= PHASES:
            return
        if partial and trained.total < self._next_partial.get(name, LEAST_TRAINED):
            return
        if sum(found.count for found in self._evaluated.values()) >= EVAL_ROWS:
            return
        tensor = given.unchanged()
        if given.digest_R is None and tensor is not None:
            given.digest_R = row_digests(tensor)
        digest_R, module = given.digest_R, given.module()
        if digest_R is None or module is None:
            return
        known = sum(row in trained.rows for row in digest_R.tolist())
        # Without loaders, one function often evaluates both the training data and other data.
        apart = "" if source or known < KNOWN_SHARE * len(digest_R) else "trained"
        found = self._evaluated.get((name, apart))
        if found is None:
            path = self._job.book.module_name(module)
            found = _Evaluated(path, given.argument, given.location, trained, partial)
            found.by_hand = source is None
            found.own_dataset = _is_apart(source, trained.source)
            self._evaluated[name, apart] = found
        found.count += len(digest_R)
        found.rows.append(digest_R)
        if found.sample.room and tensor is not None and tensor.layout is torch.strided:
            rows = thinned(tensor.detach()[: found.sample.room])
            found.sample.add(as_array(rows.to(torch.float64)), digest_R)

    def _by_hand(self, location: str | None, rows: int) -> str:
        """Name calls by line and size; an incomplete last batch belongs to the other batches."""
        size, calls = self._sizes.get(location, (rows, 0))
        if rows < size and calls > 1:
            rows = size
        self._sizes[location] = (rows, calls + 1 if rows == size else 1)
        return f"{BY_HAND} with {rows} rows at {location}"


def _is_apart(source: Source | None, trained: Source | None) -> bool:
    """Return whether two loaders still exist and have different datasets."""
    first = source.loader() if source is not None else None
    second = trained.loader() if trained is not None else None
    return first is not None and second is not None and first.dataset is not second.dataset


def has_rows(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a batch of rows of several values on the host."""
    return (
        tensor.ndim > 1
        and tensor.shape[0] > 0
        and tensor.numel() > tensor.shape[0]
        and tensor.is_cpu
        and tensor.layout is torch.strided
        and not tensor.is_complex()
        and not tensor.is_quantized
        and tensor.dtype is not torch.bool
    )


def _has_sparse_rows(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a sparse matrix on the host whose entries are few enough."""
    return (
        tensor.layout is torch.sparse_coo
        and tensor.ndim == 2
        and tensor.is_cpu
        and not tensor.is_complex()
        and tensor.is_coalesced()
        and 0 < tensor._nnz() <= MAX_ENTRIES
    )


def _expected(trained: _Trained, digest_N: Digests) -> float:
    """Return the share of an evaluation's rows that are in the training data by chance.

    It is estimated from how often two rows are equal in a training batch or in the evaluation,
    whichever is less often. In a training batch they are equal more often if rows are drawn with
    replacement. If no row is drawn twice, equal rows of a batch are part of the data. An evaluation
    of few rows may have missed a pair, so one more is counted.
    """
    count, source = len(digest_N), trained.source
    missed = source is not None and source.plan.sampler in WITHOUT_REPLACEMENT
    chances = []
    if trained.pairs:
        chances.append(trained.equal_pairs / trained.pairs)
    if count > 1:
        equal = count - len(np.unique(digest_N))
        chances.append((equal + missed) / (count * (count - 1) / 2))
    chance = min(1.0, *chances) if chances else 0.0
    return float(1 - (1 - chance) ** len(trained.rows))
