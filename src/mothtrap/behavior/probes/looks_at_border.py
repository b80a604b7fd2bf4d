"""BEH701: an image classifier decides by the border of the images.

Shape suffixes: R = rows, H = height, W = width.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.attribution import attribute
from mothtrap.behavior.confirm import LEAST_ROWS, binomial_above
from mothtrap.behavior.inside import channel_axis, in_plane, network_of
from mothtrap.behavior.probe import REFUTED, Probe, Suspicion, percent
from mothtrap.behavior.subject import Subject
from mothtrap.behavior.table import Table
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.core.thresholds import threshold

ROWS = 128
"""Rows whose attribution is computed; chosen by hand."""


@dataclass(frozen=True)
class LooksAtBorder(Probe):
    """The class depends on the border of the images.

    What it detects:
        In one half of the rows, integrated gradients give the border's share of the decision. In
        the other half, the border is replaced by the mean border of all rows, and the classes that
        change are counted. The border is a tenth of the image on each side, at least one pixel.

    Why it matters:
        Objects are rarely at the border. A frame, a watermark, or a scanner's mark that belongs to
        a class lets a model be right for the wrong reason, and it fails where the mark is missing.

    Fires:
        More than half of the attribution is at the border, and the class changes in more than 15 %
        of the rows without it.

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
    title = "decision by the border"
    cost = 3

    share: float = threshold(
        0.5, unit="share of the attribution", source="measured: 0.17 with a frame at random"
    )
    flips: float = threshold(
        0.15, unit="share of the rows", source="measured: 0.02 to 0.13 with a frame at random"
    )

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Compare border and center in one half, and remove the border in the other."""
        network_of(subject)
        if subject.reading.is_regression:
            raise NotApplicable("the model predicts numbers")
        if len(subject.judged) < 2 * LEAST_ROWS:
            raise NotEnoughData(f"needs {2 * LEAST_ROWS} rows, has {len(subject.judged)}")
        rows = np.flatnonzero(subject.propose_R)[:ROWS]
        found = in_plane(np.abs(attribute(subject, rows, "integrated_gradients").values))
        border = border_of(found.shape[1:])
        total = float(found.sum())
        share = float(found[:, border].sum()) / total if total else 0.0
        if share <= self.share:
            return
        asked = np.intersect1d(np.flatnonzero(subject.confirm_R), subject.asked)
        before = subject.judged.scores[asked].argmax(axis=1)
        hidden = without_border(subject.table, asked, border)
        changed_R = subject.ask(hidden).argmax(axis=1) != before
        flips = float(changed_R.mean())
        if flips <= self.flips:
            yield REFUTED
            return
        yield Suspicion(
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


def border_of(shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Return the mask (H, W) of the outer tenth on each side, at least one pixel."""
    found = np.ones(shape, bool)
    high, wide = (max(1, round(0.1 * side)) for side in shape)
    found[high:-high, wide:-wide] = False
    return found


def without_border(
    table: Table, rows: npt.NDArray[np.int64], border: npt.NDArray[np.bool_]
) -> Table:
    """Return some rows with the mean border of all rows."""
    axis = channel_axis(table.data.shape)
    images = table.data[rows].astype(np.result_type(table.data, np.float32))
    mean = table.data.mean(axis=0, keepdims=True)
    shown = border if axis is None else np.expand_dims(border, axis - 1)
    return Table(np.where(shown, mean, images).astype(images.dtype))
