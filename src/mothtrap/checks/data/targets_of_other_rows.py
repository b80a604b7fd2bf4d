"""PRE311: batches pair inputs with the targets of other rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from mothtrap.checks import tables
from mothtrap.checks.check import Check
from mothtrap.checks.subject import Array, Rows, Subject
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.found import Found
from mothtrap.core.thresholds import threshold


@dataclass(frozen=True)
class TargetsOfOtherRows(Check):
    """Batches pair inputs with the targets of other rows.

    What it detects:
        Batches that hold the right targets, but in another order than the inputs. The check finds
        the rows of a batch in the data set, and compares their targets.

    Why it matters:
        The model can memorize such batches, but learns nothing that helps with other rows. The loss
        may fall as usual.

    Fires:
        Error when in `share` of the watched batches, and in at least two, the targets are those of
        the rows in another order. At least `rows` rows of a batch must be found in the data set.

    Stays quiet:
        Batches that are augmented, mixed, or relabeled; data sets with equal rows; streams.

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
        judged, moved, example = 0, 0, ""
        trains = subject.of("train")
        for train in trains:
            if train.random or not train.handed:
                continue
            known = _targets_by_digest(tables.digested(train, subject))
            for batch in train.handed:
                pair = self._compared(known, batch)
                if pair is None:
                    continue
                judged += 1
                right, given = pair
                if not _is_same(right, given) and _is_reordered(right, given):
                    moved += 1
                    place = int(np.argmax((right != given).reshape(len(right), -1).any(1)))
                    example = f"a row with the target {right[place]} got {given[place]}"
        if not judged:
            raise NotApplicable("the rows of the watched batches were not found in the data set")
        subject.figures["batches"] = judged
        if moved >= 2 and moved >= self.share * judged:
            yield Found(
                step=0,
                severity="error",
                message=f"{moved} of {judged} batches pair inputs with the targets of other rows: "
                f"{example}",
                location=trains[0].location,
                evidence={"moved": moved, "batches": judged},
            )

    def _compared(
        self, known: Mapping[bytes, Array | None], batch: Rows
    ) -> tuple[Array, Array] | None:
        """Return the targets that rows of a batch have in the data set, and in the batch."""
        if batch.targets is None or batch.targets.dtype.kind not in "biuf":
            return None
        found = [known.get(digest) for digest in tables.digests(batch)]
        places = [place for place, target in enumerate(found) if target is not None]
        if len(places) < max(self.rows, len(found) // 2):
            return None
        right, given = np.stack([one for one in found if one is not None]), batch.targets[places]
        return (right, given) if right.shape == given.shape else None


def _targets_by_digest(rows: tables.Digested) -> dict[bytes, Array | None]:
    """Return the target of each row by the digest of its inputs; None for rows that repeat.

    Raises:
        NotEnoughData: the rows have no targets.
    """
    if rows.targets is None:
        raise NotEnoughData("the rows of the data set have no targets that could be read")
    known: dict[bytes, Array | None] = {b"": None}
    for digest, target in zip(rows.digests, rows.targets, strict=True):
        known[digest] = None if digest in known else target
    return known


def _is_same(right: Array, given: Array) -> bool:
    return bool(np.allclose(right.astype(float), given.astype(float), equal_nan=True))


def _is_reordered(right: Array, given: Array) -> bool:
    """Return whether two arrays have the same rows in another order."""
    return bool(np.allclose(_sorted(right), _sorted(given), equal_nan=True))


def _sorted(targets: Array) -> Array:
    flat = targets.reshape(len(targets), -1).astype(float)
    return np.asarray(flat[np.lexsort(flat.T)])
