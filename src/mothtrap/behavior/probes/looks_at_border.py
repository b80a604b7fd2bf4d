"""BEH701: an image classifier decides by the border or a corner of the images.

Shape suffixes: R = rows, H = height, W = width.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.attribution import attribute
from mothtrap.behavior.confirm import LEAST_ROWS, binomial_above
from mothtrap.behavior.inside import Floats, channel_axis, in_plane, network_of
from mothtrap.behavior.probe import REFUTED, Probe, Suspicion, percent
from mothtrap.behavior.subject import Subject
from mothtrap.behavior.table import Table
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

ROWS = 256
"""Rows whose attribution is computed; chosen by hand."""
LEAST_OF_CLASS = 5
"""Minimum number of rows of a class to average the share of a corner; chosen by hand."""
CORNERS = ("upper left corner", "upper right corner", "lower left corner", "lower right corner")
Rows = npt.NDArray[np.int64]
Plane = npt.NDArray[np.bool_]


@frozen
class LooksAtBorder(Probe):
    """The class depends on the border or on one corner of the images.

    What it detects:
        In one half of the rows, integrated gradients give the border's share of the decision. In
        the other half, the border is replaced by the mean border of all rows, and the check counts
        the classes that change. The border is a tenth of the image on each side, at least one
        pixel. For each predicted class, each corner (a quarter of both sides) is tested in the same
        way, and replaced by the mean corner of the other classes.

    Why it matters:
        Objects are rarely at the border. If a frame, a watermark, or a scanner's mark occurs with
        one class, the model is right for the wrong reason, and fails where the mark is missing.

    Fires:
        When more than 45 % of the attribution is at the border, and the class changes in more than
        15 % of the rows without the border. Or when more than a quarter of the attribution of a
        class is in one corner, and the class changes in more than 30 % of its rows without the
        corner.

    Stays quiet:
        Inputs that are not images, and models that are not PyTorch or Keras networks.

    What to do:
        - Look at the border of the training images by class; crop the images if it differs.
        - Look at `report.figure("integrated_gradients")` for single images.

    References:
        Sundararajan et al., Axiomatic attribution for deep networks, 2017. Lapuschkin et al.,
        Unmasking Clever Hans predictors, 2019.
    """

    code = "BEH701"
    severity = Severity.WARNING
    title = "decision by the border or a corner"
    cost = 3

    share: float = threshold(
        0.45,
        unit="share of the attribution",
        source="measured: 0.17 with a frame at random, 0.52 with a frame for each class",
    )
    flips: float = threshold(
        0.15, unit="share of the rows", source="measured: 0.02 to 0.13 with a random frame"
    )

    corner_share: float = threshold(
        0.25,
        unit="share of the attribution",
        source="measured: 0.1 without a mark, 0.4 with a mark",
    )
    corner_flips: float = threshold(
        0.3, unit="share of the rows", source="measured: 0.1 without a mark, 0.7 to 1.0 with a mark"
    )

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Compare border and center in half of the rows, and remove the border in the others."""
        network_of(subject)
        if subject.reading.is_regression:
            raise NotApplicable("the model predicts numbers")
        if len(subject.judged) < 2 * LEAST_ROWS:
            raise NotEnoughData(f"needs {2 * LEAST_ROWS} rows, has {len(subject.judged)}")
        proposing = np.flatnonzero(subject.propose_R)
        rows = np.sort(subject.rng("border").permutation(proposing)[:ROWS])
        found = in_plane(np.abs(attribute(subject, rows, "integrated_gradients").values))
        border = border_of(found.shape[1:])
        total = float(found.sum())
        share = float(found[:, border].sum()) / total if total else 0.0
        if share > self.share:
            yield self._border(subject, border, share)
        elif total:
            yield from self._corners(subject, rows, found)

    def _border(self, subject: Subject, border: Plane, share: float) -> Suspicion:
        """Remove the border from the confirming rows, and count the classes that change."""
        asked = np.intersect1d(np.flatnonzero(subject.confirm_R), subject.asked)
        everything = np.arange(len(subject.judged))
        changed_R = _changed(subject, asked, border, everything)
        flips = float(changed_R.mean())
        if flips <= self.flips:
            return REFUTED
        return Suspicion(
            message=f"{percent(share)} of the decision comes from the border of the images, and "
            f"{percent(flips)} of the classes change without it (limit {percent(self.flips)})",
            p=binomial_above(int(changed_R.sum()), len(changed_R), self.flips),
            rows=subject.judged.rows_R[asked[changed_R]],
            evidence={
                "n": len(asked),
                "value": share,
                "reference": self.share,
                "changed without the border": flips,
            },
        )

    def _corners(self, subject: Subject, rows: Rows, found: Floats) -> Iterator[Suspicion]:
        """Remove a corner from the rows of the classes that seem to depend on it."""
        class_R = subject.judged.scores.argmax(axis=1)
        share_R = found.sum(axis=(1, 2))
        for name, corner in zip(CORNERS, corners_of(found.shape[1:]), strict=True):
            corner_R = found[:, corner].sum(axis=1) / np.maximum(share_R, 1e-12)
            means = {
                int(k): float(corner_R[class_R[rows] == k].mean())
                for k in np.unique(class_R[rows])
                if (class_R[rows] == k).sum() >= LEAST_OF_CLASS
            }
            suspected = [k for k, mean in means.items() if mean > self.corner_share]
            if suspected:
                mean = float(np.mean([means[k] for k in suspected]))
                yield self._corner(subject, name, corner, suspected, mean)

    def _corner(
        self, subject: Subject, name: str, corner: Plane, classes: list[int], share: float
    ) -> Suspicion:
        class_R = subject.judged.scores.argmax(axis=1)
        of_classes_R = np.isin(class_R, classes)
        confirming = np.flatnonzero(subject.confirm_R & of_classes_R)
        asked, others = np.intersect1d(confirming, subject.asked), np.flatnonzero(~of_classes_R)
        if not len(asked) or not len(others):
            return REFUTED
        changed_R = _changed(subject, asked, corner, others)
        flips = float(changed_R.mean())
        if flips <= self.corner_flips:
            return REFUTED
        named = " and ".join(str(subject.reading.classes[k]) for k in classes)
        return Suspicion(
            message=f"{percent(share)} of the decision for {named} comes from the {name} of the "
            f"images, and {percent(flips)} of {len(asked):,} rows get another class without it "
            f"(limit {percent(self.corner_flips)})",
            p=binomial_above(int(changed_R.sum()), len(changed_R), self.corner_flips),
            features=(name,),
            rows=subject.judged.rows_R[asked[changed_R]],
            evidence={
                "n": len(asked),
                "value": share,
                "reference": self.corner_share,
                "classes": named,
                "changed without the corner": flips,
            },
        )


def _changed(subject: Subject, asked: Rows, hidden: Plane, others: Rows) -> Plane:
    """Return a mask (R,) of the rows whose class changes if the mean replaces a part of them."""
    before = subject.judged.scores[asked].argmax(axis=1)
    rows = without(subject.table, asked, hidden, others)
    return np.asarray(subject.ask(rows).argmax(axis=1) != before)


def border_of(shape: tuple[int, ...]) -> Plane:
    """Return the mask (H, W) of the outer tenth on each side, at least one pixel."""
    found = np.ones(shape, bool)
    high, wide = (max(1, round(0.1 * side)) for side in shape)
    found[high:-high, wide:-wide] = False
    return found


def corners_of(shape: tuple[int, ...]) -> list[Plane]:
    """Return the masks (H, W) of the four corners, a quarter of both sides; as in `CORNERS`."""
    high, wide = (max(1, round(side / 4)) for side in shape)
    found = []
    for rows in (slice(None, high), slice(-high, None)):
        for columns in (slice(None, wide), slice(-wide, None)):
            corner = np.zeros(shape, bool)
            corner[rows, columns] = True
            found.append(corner)
    return found


def without(table: Table, rows: Rows, hidden: Plane, others: Rows) -> Table:
    """Return rows in which a part of the image is replaced by the mean of other rows."""
    axis = channel_axis(table.data.shape)
    images = table.data[rows].astype(np.result_type(table.data, np.float32))
    mean = table.data[others].mean(axis=0, keepdims=True)
    shown = hidden if axis is None else np.expand_dims(hidden, axis - 1)
    return Table(np.where(shown, mean, images).astype(images.dtype))
