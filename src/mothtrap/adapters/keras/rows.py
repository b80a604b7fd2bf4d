"""Rows passed to `fit`, and evaluation rows that were trained on."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from mothtrap.adapters.keras.fits import Fit
from mothtrap.adapters.keras.weights import value_of
from mothtrap.adapters.tensorflow.internals import (
    Parts,
    reshuffled_by,
    shuffled_apart,
    sources_of,
    split_apart,
)
from mothtrap.core.adapters import Job
from mothtrap.core.facts.data import RowsShared
from mothtrap.core.facts.pipelines import ShuffledApart, SplitReshuffled
from mothtrap.core.window import Bools
from mothtrap.statistics import numpy as arithmetic
from mothtrap.statistics.digest import Digests
from mothtrap.tracing.describe.copied_rows import (
    KNOWN_REPEATED,
    LEAST_REPEATED,
    MAX_ROWS,
    RowSample,
)
from mothtrap.tracing.describe.input_scales import MAX_CELLS

Array = npt.NDArray[Any]
MAX_KEPT: Final = 1 << 20
"""Maximum number of stored rows of earlier training runs."""
MAX_FITS: Final = 32
"""Maximum number of training runs of a model whose rows are stored; more are steps of a loop."""
TOGETHER: Final = 16
"""Maximum number of consecutive rows of a series that are compared together; chosen by hand."""
PRIME: Final = np.uint64(1099511628211)
HARDLY: Final = 0.5
"""Share of known rows among unrepeated evaluation rows, relative to the share among repeated rows,
up to which the repeated rows were copied before the split; chosen by hand.
"""


@dataclass(slots=True, eq=False)
class _Trained:
    """Rows that a model was trained on in some `fits`, and a sum of its weights afterwards."""

    fits: int
    digests: npt.NDArray[np.uint64] | None = None
    state: float | None = None


class Rows:
    """Compares evaluation rows with training rows.

    Args:
        job: receives the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._trained: weakref.WeakKeyDictionary[Any, _Trained] = weakref.WeakKeyDictionary()
        self._split: set[tuple[str, str]] = set()

    def piped(self, fit: Fit, data: Any) -> None:
        """Record the pipeline passed to a `fit`."""
        fit.shuffles = [(weakref.ref(one), parts) for one, parts in _shuffles(data)]
        if not isinstance(data, tf.data.Dataset):
            return
        if shuffled_apart(data):
            self._job.fact(ShuffledApart(step=self._job.now.step, location=fit.location))
        self._given(fit, _pipeline_digests(data)[0])

    def given(self, fit: Fit, array: Array) -> None:
        """Record the rows passed to a `fit`."""
        self._given(fit, _row_digests(array))

    def _given(self, fit: Fit, digest_R: Digests | None) -> None:
        if digest_R is None:
            return
        fit.digests = np.unique(digest_R)
        fit.duplicates = 1.0 - len(fit.digests) / len(digest_R)
        before = self._trained.get(fit.model)
        if before is None or before.state is None:
            return
        if before.state == _state_of(fit.model):
            fit.earlier = before.digests

    def fitted(self, fit: Fit) -> None:
        """Record the training data of a `fit` that ends."""
        before = self._trained.get(fit.model)
        ended = self._trained[fit.model] = _Trained(before.fits + 1 if before is not None else 1)
        if fit.digests is None or ended.fits > MAX_FITS:
            return
        every = [fit.digests] if fit.earlier is None else [fit.digests, fit.earlier]
        if sum(map(len, every)) <= MAX_KEPT:
            ended.digests, ended.state = np.unique(np.concatenate(every)), _state_of(fit.model)

    def evaluated(self, fit: Fit | None, array: Array, name: str, *, alone: bool) -> None:
        """Report how many rows of an evaluation were trained on, once per `fit`.

        Args:
            fit: fit in progress, or the latest one of the model.
            array: evaluated array.
            name: name of the evaluation.
            alone: the model has no other input.
        """
        if fit is not None and fit.digests is not None and name not in fit.compared:
            fit.compared.add(name)
            digest_R = _row_digests(array)
            if digest_R is not None:
                self._share(fit, name, digest_R, array=array if alone else None)

    def evaluated_pipeline(self, fit: Fit | None, data: Any, name: str) -> None:
        """Report pipelines that use parts of one shuffle, or are cut out of the same rows."""
        if fit is None or not isinstance(data, tf.data.Dataset):
            return
        if fit.digests is not None and name not in fit.compared:
            fit.compared.add(name)
            digest_R, span = _pipeline_digests(data)
            if digest_R is not None:
                self._share(fit, name, digest_R, span=span)
        if (fit.label, name) in self._split:
            return
        theirs = list(_shuffles(data))
        for shuffle, ours in fit.shuffles:
            if any(shuffle() is one and split_apart(ours, parts) for one, parts in theirs):
                self._split.add((fit.label, name))
                step = self._job.now.step
                self._job.fact(SplitReshuffled(step=step, source=name, location=fit.location))
                return

    def _share(
        self, fit: Fit, name: str, digest_R: Digests, *, array: Array | None = None, span: int = 1
    ) -> None:
        """Report the share of evaluated rows, or windows of `span` rows, that were trained on."""
        if fit.digests is None:
            return
        trained, is_earlier = fit.digests, False
        known_R = np.isin(digest_R, trained)
        if fit.earlier is not None:
            before_R = np.isin(digest_R, fit.earlier)
            is_earlier = bool(before_R.mean() > 2 * known_R.mean())
            if is_earlier:
                trained, known_R = fit.earlier, before_R
        if span > 1:
            digest_R, known_R = digest_R[: len(digest_R) - span + 1], _all_known(known_R, span)
        _, row_N, count_N = np.unique(digest_R, return_index=True, return_counts=True)
        known_N = known_R[row_N]
        is_copied = (
            array is not None
            and not is_earlier
            and _only_repeated_are_known(known_N, count_N)
            and _are_copies(array, digest_R, known_R)
        )
        self._job.fact(
            RowsShared(
                step=self._job.now.step,
                module=str(fit.model.name),
                argument="x",
                source=name,
                train_rows=len(trained),
                eval_rows=len(known_N),
                shared=int(known_N.sum()),
                expected_share=fit.duplicates,
                copied=is_copied,
                earlier=is_earlier,
                share_of_all=float(known_R.mean()),
                location=fit.location,
            )
        )


def _shuffles(data: Any) -> Iterator[tuple[Any, Parts]]:
    """Yield the shuffles that a dataset is a part of, with the parts."""
    if isinstance(data, tf.data.Dataset):
        yield from reshuffled_by(data)


def _state_of(model: Any) -> float | None:
    """Return a number that changes with the weights; None if there are none yet."""
    smallest = min(model.trainable_variables, key=lambda one: math.prod(one.shape), default=None)
    return float(value_of(smallest).sum(dtype=np.float64)) if smallest is not None else None


def _pipeline_digests(data: Any) -> tuple[Digests | None, int]:
    """Return digests of the rows from which the elements of a pipeline are cut.

    Returns:
        The digests, and the number of consecutive digests that make up an element. Rows of a series
        are combined with those that follow, because single values often occur again.
    """
    tensors, span = sources_of(data)
    digest_R: Digests | None = None
    for tensor in tensors:
        own_R = _row_digests(tensor.numpy().reshape(int(tensor.shape[0]), -1))
        if own_R is None:
            return None, 1
        digest_R = own_R if digest_R is None else digest_R * PRIME + own_R
    if digest_R is None or span == 1:
        return digest_R, 1
    together = min(span, TOGETHER)
    count = max(0, len(digest_R) - together + 1)
    combined_R = np.zeros(count, np.uint64)
    for first in range(together):
        combined_R = combined_R * PRIME + digest_R[first : first + count]
    return combined_R, span - together + 1


def _all_known(known_R: Bools, span: int) -> Bools:
    """Return for each row whether it and those that follow are known, `span` in all."""
    total_R = np.concatenate([[0], np.cumsum(known_R)])
    return np.asarray(total_R[span:] - total_R[: len(total_R) - span] == span)


def _row_digests(array: Array) -> npt.NDArray[np.uint64] | None:
    """Return a digest of each row; None without rows, or if they are too large."""
    if array.ndim < 2 or not array.size or array.size > MAX_CELLS or array.dtype.kind not in "fiub":
        return None
    array = array.view(np.uint8) if array.dtype.kind == "b" else array
    plain = np.ascontiguousarray(array.reshape(len(array), -1))
    return arithmetic.row_digests(plain, plain.shape[1])


def _only_repeated_are_known(known_N: Bools, count_N: npt.NDArray[np.int64]) -> bool:
    """Return whether almost all rows of an evaluation that were trained on occur repeatedly.

    Args:
        known_N: which of its distinct rows were trained on.
        count_N: how often the evaluation contains each.
    """
    repeated, once = known_N[count_N > 1], known_N[count_N == 1]
    if len(repeated) < LEAST_REPEATED or repeated.mean() < KNOWN_REPEATED:
        return False
    return not len(once) or bool(once.mean() <= HARDLY * repeated.mean())


def _are_copies(array: Array, digest_R: npt.NDArray[np.uint64], known_R: Bools) -> bool:
    """Return whether the evaluation rows that were trained on are equal not just by chance."""
    half = MAX_ROWS // 2
    chosen = np.concatenate([np.flatnonzero(known_R)[:half], np.flatnonzero(~known_R)[:half]])
    sample = RowSample()
    sample.add(array[chosen], digest_R[chosen])
    return sample.are_copies(digest_R[known_R])
