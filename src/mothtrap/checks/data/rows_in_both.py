"""PRE301: evaluation rows are training rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from mothtrap.checks import tables
from mothtrap.checks.check import Check
from mothtrap.checks.subject import DataSet, Subject
from mothtrap.checks.tables import Digested
from mothtrap.core.errors import NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

LEAST_DISTINCT = 30
"""Least number of distinct rows to decide whether a column identifies them; chosen by hand."""
IDENTIFIES = 0.9
"""Distinct values of a column that identifies rows, by distinct rows; chosen by hand."""


@frozen
class RowsInBoth(Check):
    """Rows are in both the training data and the evaluation data.

    What it detects:
        Samples that training and evaluation datasets share by index, and evaluation samples whose
        inputs equal those of a training sample. Samples that change each time they are read, such
        as augmented images, are compared in the form in which the dataset stores them: in an array
        attribute, in the files of a list, or in a wrapped dataset.

    Why it matters:
        The model can memorize these rows. The score is too good, and overfitting stays hidden.

    Fires:
        Error when two parts of one dataset share samples, or when `rows` or more evaluation rows,
        and `share` of them more than `times` the equal rows within a dataset, are in training. A
        note below `share`. Warning instead of an error when the purpose of the dataset is unclear:
        its loader shuffles, `whole` of it is in training, or there are more than `sets` such
        datasets, as in cross-validation. Also a warning when rows repeat just as often within a
        dataset, but at least `copied` of the evaluation rows are in training, and a column with a
        different value in nearly every row shows that the rows are copies. A note when `whole` of
        an evaluation dataset is in training and there is another evaluation dataset: some scripts
        measure the training score this way.

    Stays quiet:
        Data in which rows repeat anyway, such as a few discrete columns; augmented samples whose
        originals are stored in another way; blank samples, whose values are all equal.

    What to do:
        - PyTorch: Split once, by indices that do not overlap: `random_split(data, lengths,
          generator=torch.Generator().manual_seed(0))`.
        - Keras, scikit-learn, LightGBM, CatBoost: Split once, by indices that do not overlap:
          `train_test_split(x, y, random_state=0)`.
        - Drop copies before the split, and repeat rare rows after it.

    Example:
        train, held_out = Subset(data, range(800)), Subset(data, range(700, 1000))

    References:
        Kapoor, Narayanan 2023, Leakage and the reproducibility crisis in
        machine-learning-based science, https://doi.org/10.1016/j.patter.2023.100804
    """

    code = "PRE301"
    title = "evaluation rows are training rows"
    uses = ("datasets",)
    passed = "no evaluation row is a training row"
    costs = 3
    explains = ("too_good_to_be_true",)
    rows: int = threshold(5, unit="rows", source="as in DAT510")
    share: float = threshold(0.01, unit="of the evaluation rows", source="chosen by hand")
    copied: float = threshold(0.05, unit="of the evaluation rows", source="chosen by hand")
    whole: float = threshold(
        0.95,
        unit="of the rows",
        source="as in DAT510: above it, the evaluation data are training data",
    )
    times: float = threshold(
        3.0, unit="times the equal rows within a dataset", source="chosen by hand"
    )
    sets: int = threshold(2, unit="evaluation datasets", source="validation and test")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Compare indices, then digests of inputs."""
        others = tables.evaluation_sets(subject)
        left: list[DataSet] = []
        trains = subject.of("train")
        for other in others:
            shared = sorted({place for train in trains for place in _shared(train, other)})
            if shared:
                yield self._by_index(other, shared, len(others))
            else:
                left.append(other)
        pairs = [pair for train in trains for other in left if (pair := _comparable(train, other))]
        if not pairs:
            if len(left) < len(others) or _are_parts(subject):
                return
            raise NotEnoughData("samples change each time they are read")
        for train, other in pairs:
            known = tables.digested(train, subject)
            yield from self._by_value(known, other, subject, len(others))

    def _by_index(self, other: DataSet, shared: Sequence[int], sets: int) -> Found:
        size = other.size or len(shared)
        return Found(
            step=0,
            severity=self._severity(other, len(shared) / size, sets),
            message=f"{len(shared)} of {size} evaluation samples of {other.name} are training "
            f"samples, by index: {tables.named(list(shared))}",
            location=other.location,
            evidence={"indices": [float(one) for one in shared[:100]], "rows": len(shared)},
        )

    def _by_value(
        self, known: Digested, other: DataSet, subject: Subject, sets: int
    ) -> Iterable[Found]:
        seen = tables.digested(other, subject)
        first = {digest: n for n, digest in zip(known.indices, known.digests, strict=True)}
        pairs = [
            (index, first[digest])
            for index, digest in zip(seen.indices, seen.digests, strict=True)
            if digest and digest in first
        ]
        count = len(seen.indices)
        if not count or not known.indices:
            raise NotEnoughData("no rows of a dataset could be read")
        subject.figures["rows of training"] = len(known.indices)
        subject.figures["rows of evaluation"] = count
        usual = min(_repeated(known), _repeated(seen) * len(known.indices) / max(1, count))
        usual = min(usual, 1.0)
        noise = 3 * math.sqrt(usual * (1 - usual) / max(1, count))
        share = len(pairs) / max(1, count)
        copied = share >= self.copied and _has_identifying_column(other, subject)
        beyond = share > self.times * usual + noise
        if len(pairs) < self.rows or not (beyond or copied):
            return
        certain = beyond and share >= usual + self.share
        names = ", ".join(f"{index} = {equal}" for index, equal in sorted(pairs)[:5])
        yield Found(
            step=0,
            severity=self._severity(other, share, sets)
            if certain
            else "warning"
            if copied and share < self.whole
            else "info",
            message=f"{len(pairs)} of {count} evaluation rows of {other.name} equal training "
            f"rows ({share:.1%}; within a dataset {usual:.1%} repeat): {names}",
            location=other.location,
            evidence={
                "indices": [float(index) for index, _ in pairs[:100]],
                "training_indices": [float(equal) for _, equal in pairs[:100]],
                "share": share,
            },
        )

    def _severity(self, other: DataSet, share: float, sets: int) -> Severity:
        if share >= self.whole and sets > 1:
            return Severity.INFO
        doubtful = share >= self.whole or other.shuffled or sets > self.sets
        return Severity.WARNING if doubtful else Severity.ERROR


def _has_identifying_column(data: DataSet, subject: Subject) -> bool:
    """Return whether rows are equal because they were copied, and not by chance.

    True if a column of real numbers has a different value in nearly every distinct row.
    """
    table = tables.columns(tables.read(data, subject))
    if table is None or not len(table):
        return False
    distinct = np.unique(table, axis=0)
    values = (len(np.unique(column)) for column in distinct.T)
    return len(distinct) >= LEAST_DISTINCT and max(values) >= IDENTIFIES * len(distinct)


def _comparable(train: DataSet, other: DataSet) -> tuple[DataSet, DataSet] | None:
    """Return two datasets in a form in which equal rows have equal values; None if there is none.

    Rows that change when they are read are compared as they are stored.
    """
    if not train.random and not other.random:
        return train, other
    first, second = train.stored, other.stored
    if first is None or second is None or not first.size or not second.size:
        return None
    one, two = (part.read([0], math.inf).inputs for part in (first, second))
    forms = [[(array.shape[1:], array.dtype) for array in part] for part in (one, two)]
    return (first, second) if forms[0] == forms[1] else None


def _shared(train: DataSet, other: DataSet) -> set[int]:
    """Return the indices that two parts of one dataset share."""
    if train.base != other.base or train.size is None or other.size is None:
        return set()
    return set(_places(train)) & set(_places(other))


def _places(part: DataSet) -> Sequence[int]:
    return range(part.size or 0) if part.places is None else part.places


def _are_parts(subject: Subject) -> bool:
    """Return whether indices alone decide, because all datasets are parts of one dataset."""
    bases = {one.base for one in subject.datasets}
    return len(bases) == 1 and all(one.size is not None for one in subject.datasets)


def _repeated(seen: Digested) -> float:
    """Return the share of rows that have an equal row in their own dataset."""
    counts = Counter(digest for digest in seen.digests if digest)
    return sum(n for n in counts.values() if n > 1) / max(1, len(seen.digests))
