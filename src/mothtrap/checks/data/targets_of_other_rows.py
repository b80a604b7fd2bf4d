"""PRE311: batches pair inputs with the targets of other rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from mothtrap.checks import tables
from mothtrap.checks.check import Check
from mothtrap.checks.subject import Array, DataSet, Rows, Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold


@frozen
class TargetsOfOtherRows(Check):
    """Batches pair inputs with the targets of other rows.

    What it detects:
        Batches that contain the targets of other rows. The check finds the rows of a batch in the
        dataset, even if they are padded, and compares their targets. If one loader provides inputs
        and another provides targets, and their datasets have the same number of rows, the rows are
        compared by index. For a Keras `PyDataset`, its array attributes are compared.

    Why it matters:
        The model can memorize such batches, but learns nothing that helps with other rows. The loss
        may fall as usual.

    Fires:
        Error when in `share` of the watched batches, and in at least two, the targets are correct,
        but in a different order. At least `rows` rows of a batch must be found in the dataset.
        Warning when the targets of two loaders or of a `PyDataset` belong to other rows, and agree
        with the correct targets no more often than by chance.

    Stays quiet:
        Batches that are augmented, mixed, or relabeled; datasets with equal rows; streams.

    What to do:
        - Sort, shuffle, or pad inputs and targets together, with one order of indices.

    Example:
        x, y = x[torch.randperm(len(x))], y[torch.randperm(len(y))]

    References:
        http://karpathy.github.io/2019/04/25/recipe/
    """

    code = "PRE311"
    title = "targets belong to other rows"
    uses = ("datasets",)
    passed = "each row of a batch has its own target"
    costs = 3
    explains = ("labels_unrelated", "stuck_at_chance", "cannot_overfit", "overfit")
    share: float = threshold(0.5, unit="of the watched batches", source="chosen by hand")
    rows: int = threshold(4, unit="rows", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Compare the watched batches with the rows of their data set."""
        judged = 0
        for train in subject.of("train"):
            if train.random or not train.handed:
                continue
            for digest, digests in (
                (tables.digests, _digests),
                (tables.sequence_digests, _padded_digests),
            ):
                rows = tables.digested(train.origin or train, subject, digest)
                if rows.targets is None:
                    break
                known = _targets_by_digest(rows.digests, rows.targets)
                pairs = [self._compared(known, batch, digests(batch)) for batch in train.handed]
                compared = [pair for pair in pairs if pair is not None]
                judged += len(compared)
                yield from self._found(train, compared, rows.targets)
                if compared:
                    break
        if not judged:
            raise NotApplicable(
                "the rows of the watched batches were not found in a dataset with targets"
            )
        subject.figures["batches"] = judged

    def _found(
        self, train: DataSet, compared: Sequence[tuple[Array, Array]], targets: Array
    ) -> Iterable[Found]:
        """Compare the batches of one data set; `targets` are the targets of its rows."""
        differ = [pair for pair in compared if not _is_same(*pair)]
        moved, severity = [pair for pair in differ if _is_reordered(*pair)], Severity.ERROR
        is_apart = train.origin is not None and len(moved) < self.share * len(compared)
        if is_apart and differ and _are_unrelated(differ, targets):
            moved, severity = differ, Severity.WARNING
        if len(moved) < 2 or len(moved) < self.share * len(compared):
            return
        right, given = moved[-1]
        place = int(np.argmax((right != given).reshape(len(right), -1).any(1)))
        yield Found(
            step=0,
            severity=severity,
            message=f"{len(moved)} of {len(compared)} batches pair inputs with the targets of "
            f"other rows: a row with the target {right[place]} got {given[place]}",
            location=train.location,
            evidence={"moved": len(moved), "batches": len(compared)},
        )

    def _compared(
        self,
        known: Mapping[bytes, Array | None],
        batch: Rows,
        digests: Iterable[tuple[bytes, ...]],
    ) -> tuple[Array, Array] | None:
        """Return the targets that rows of a batch have in the data set, and in the batch."""
        if batch.targets is None or batch.targets.dtype.kind not in "biuf":
            return None
        found = [
            next((target for one in row if (target := known.get(one)) is not None), None)
            for row in digests
        ]
        places = [place for place, target in enumerate(found) if target is not None]
        if len(places) < max(self.rows, len(found) // 2):
            return None
        right, given = np.stack([one for one in found if one is not None]), batch.targets[places]
        return (right, given) if right.shape == given.shape else None


def _digests(batch: Rows) -> Iterator[tuple[bytes, ...]]:
    return ((digest,) for digest in tables.digests(batch))


def _padded_digests(batch: Rows) -> Iterator[tuple[bytes, ...]]:
    """Yield the digests that each row of a batch may have without its padding.

    Padding is the run of equal values at the end or at the beginning of a sequence.
    """
    for place in range(len(batch.indices)):
        values = tables.longest_input(batch, place)
        ends = values[: len(values) - _run(values[::-1])]
        begins = values[_run(values) :]
        yield tuple(tables.sequence_digest(one) for one in (values, ends, begins))


def _run(values: Array) -> int:
    """Return the number of equal values at the beginning."""
    differs = (values != values[:1]).reshape(len(values), -1).any(axis=1)
    return int(differs.argmax()) if differs.any() else len(values)


def _targets_by_digest(digests: Sequence[bytes], targets: Array) -> dict[bytes, Array | None]:
    """Return the target of each row by the digest of its inputs; None for rows that repeat."""
    known: dict[bytes, Array | None] = {b"": None}
    for digest, target in zip(digests, targets, strict=True):
        known[digest] = None if digest in known else target
    return known


def _is_same(right: Array, given: Array) -> bool:
    return bool(np.allclose(right.astype(float), given.astype(float), equal_nan=True))


def _is_reordered(right: Array, given: Array) -> bool:
    """Return whether two arrays have the same rows in a different order."""
    return bool(np.allclose(_sorted(right), _sorted(given), equal_nan=True))


def _are_unrelated(pairs: Sequence[tuple[Array, Array]], targets: Array) -> bool:
    """Return whether given targets belong to other rows, and agree only by chance.

    False if the right target determines the given target, as when classes are renamed.
    """
    right, given = (
        np.concatenate([one.reshape(-1) for one in part]) for part in zip(*pairs, strict=True)
    )
    if len(right) != sum(len(one) for one, _ in pairs) or not np.isin(given, targets).all():
        return False
    values, counts = np.unique(right, return_counts=True)
    if counts.max() > 1 and all(len(np.unique(given[right == one])) == 1 for one in values):
        return False
    chance = sum(float((right == one).mean() * (given == one).mean()) for one in values)
    noise = 3 * float(np.sqrt(chance * (1 - chance) / len(right)))
    return float((right == given).mean()) <= chance + noise


def _sorted(targets: Array) -> Array:
    flat = targets.reshape(len(targets), -1).astype(float)
    return np.asarray(flat[np.lexsort(flat.T)])
