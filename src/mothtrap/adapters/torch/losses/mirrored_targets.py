"""Masks and images that fit the predictions of a loss when they are mirrored."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.nn import functional

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import LossTerm, Node
from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.adapters.torch.losses import loss_values
from mothtrap.adapters.torch.losses.line_looks import Line, LineObserver
from mothtrap.adapters.torch.losses.shifted_targets import Shifts, shifts_of
from mothtrap.core.facts.targets import MirroredTargets, ShiftedTargets

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

LOOK_AT = range(24, 1 << 20, 6)
"""Observed backward passes of a line at which its loss is inspected, once it has learned a little.
Chosen by hand.
"""
LATEST, FEWEST = 8, 3
"""Number of latest inspections that are summed up, and number that is needed."""
MAX_ROWS, LEAST_ROWS = 16, 4
"""Maximum number of inspected rows of a batch; and minimum, because their mean is subtracted."""
MAX_SIZE, LEAST_SIZE = 64, 8
"""Height and width to which maps are averaged, and minimum of both."""
FITS = 0.5
"""Correlation from which a target fits its prediction; chosen by hand."""
UNLIKE = 0.5
"""Correlation with its mirror image up to which a target is unlike it; chosen by hand."""
ALIKE = 0.5
"""Mean absolute correlation of the predictions of two rows, up to which they depend on the images;
chosen by hand: a model that knows no places predicts the same blob everywhere."""
SHIFTS_EVERY = 4
"""One in this many inspections also compares shifted targets, which takes longer."""
TIE = 0.05
"""Difference of correlations up to which both orientations fit equally; chosen by hand."""
DIRECTIONS = {"left to right": (-1,), "top to bottom": (-2,), "in both directions": (-2, -1)}


class _Counts(NamedTuple):
    rows: int
    mirrored: int


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, and the counts of the latest inspected ones by direction."""

    latest: deque[dict[str, _Counts]] = field(default_factory=lambda: deque(maxlen=LATEST))
    shifts: deque[Shifts] = field(default_factory=lambda: deque(maxlen=LATEST))


class MirroredTargetObserver(LineObserver[_Line]):
    """Compares predicted maps with their targets, and with mirrored and shifted targets.

    A model cannot know whether a mask was mirrored or cropped independently of its image. So it
    predicts the orientation and the place in the image, which are wrong for many masks, or the mean
    of all possible masks.
    """

    def __init__(self, job: Job) -> None:
        super().__init__(job, _Line, LOOK_AT)

    def _inspect(self, line: _Line, root: Node, place: str | None) -> None:
        with torch.no_grad():
            maps = next(_maps_of(root), None)
            if maps is None:
                return
            line.looks += 1
            line.latest.append(_compared(*maps))
            if line.looks % SHIFTS_EVERY == 0:
                line.shifts.append(_shifted(*maps))
        if len(line.latest) >= FEWEST:
            self._report(line, place)
        if line.looks % SHIFTS_EVERY == 0 and len(line.shifts) >= FEWEST:
            self._report_shifts(line, place)

    def _report(self, line: _Line, place: str | None) -> None:
        sums = {
            name: _Counts(*map(sum, zip(*(look[name] for look in line.latest), strict=True)))
            for name in DIRECTIONS
        }
        direction = max(sums, key=lambda name: sums[name].mirrored)
        if sums[direction].rows:
            self._job.recorder.notes.observe(
                MirroredTargets(
                    step=self._job.grouper.step,
                    looks=len(line.latest),
                    rows=sums[direction].rows,
                    mirrored=sums[direction].mirrored,
                    direction=direction,
                    location=place,
                )
            )

    def _report_shifts(self, line: _Line, place: str | None) -> None:
        joined = [sum(counts) for counts in zip(*line.shifts, strict=True)]
        rows, shifted, distance, across, down = joined
        if rows:
            self._job.recorder.notes.observe(
                ShiftedTargets(
                    step=self._job.grouper.step,
                    looks=len(line.shifts),
                    rows=int(rows),
                    shifted=int(shifted),
                    distance=distance / shifted if shifted else 0.0,
                    drift=float(torch.tensor([across, down]).norm()) / shifted if shifted else 0.0,
                    location=place,
                )
            )


def _maps_of(root: Node) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield predicted maps and their targets, both of shape (R, C, H, W), on the host."""
    for term in graph.loss_terms(root):
        target = loss_values.target(term, checkpointed=False)
        given = loss_values.saved_prediction(term)
        if target is None or given is None or not is_plain(target) or given.ndim != 4:
            continue
        target = target.detach()
        if min(given.shape[2:]) < LEAST_SIZE or len(given) < LEAST_ROWS:
            continue
        if target.shape == given.shape and target.is_floating_point():
            with_logits = term.operation.endswith("with_logits")
            predicted = given[:MAX_ROWS].float()
            yield _small(predicted.sigmoid() if with_logits else predicted), _small(target)
        elif target.shape == (len(given), *given.shape[2:]) and not target.is_floating_point():
            yield _foregrounds(term, given[:MAX_ROWS], target[:MAX_ROWS])


def _foregrounds(
    term: LossTerm, given: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the probability that a place is not of the most frequent class, and whether it is not.

    Args:
        term: a loss of classes.
        given: log-probabilities, shape (R, K, H, W).
        labels: class numbers, shape (R, H, W).
    """
    known = (labels >= 0) & (labels < (term.classes or 0))
    most = int(torch.bincount(labels[known], minlength=1).argmax())
    predicted = (1 - given[:, most].float().exp()) * known
    return _small(predicted.unsqueeze(1)), _small(((labels != most) & known).unsqueeze(1))


def _small(maps: torch.Tensor) -> torch.Tensor:
    """Return the first maps, averaged to a small size."""
    height, width = maps.shape[2:]
    size = min(MAX_SIZE, height), min(MAX_SIZE, width)
    return functional.adaptive_avg_pool2d(maps[:MAX_ROWS].float(), size).cpu()


def _compared(predicted: torch.Tensor, targets: torch.Tensor) -> dict[str, _Counts]:
    """Count the targets that fit their predictions in one orientation, and those mirrored.

    Args:
        predicted: shape (R, C, H, W).
        targets: the same shape.
    """
    predicted, targets = predicted - predicted.mean(0), targets - targets.mean(0)
    if _alike(predicted) > ALIKE:
        return dict.fromkeys(DIRECTIONS, _Counts(0, 0))
    unmirrored_R = _correlation(predicted, targets)
    found = {}
    for name, axes in DIRECTIONS.items():
        flipped = targets.flip(axes)
        mirrored_R = _correlation(predicted, flipped)
        counts_R = torch.maximum(unmirrored_R, mirrored_R) >= FITS
        counts_R &= _correlation(targets, flipped) <= UNLIKE
        fits_R = counts_R & (mirrored_R >= unmirrored_R - TIE)
        found[name] = _Counts(int(counts_R.sum()), int(fits_R.sum()))
    return found


def _shifted(predicted: torch.Tensor, targets: torch.Tensor) -> Shifts:
    """Count the targets that fit their predictions, and those that fit better when shifted."""
    predicted, targets = predicted - predicted.mean(0), targets - targets.mean(0)
    if _alike(predicted) > ALIKE:
        return Shifts(0, 0, 0.0, 0.0, 0.0)
    return shifts_of(predicted, targets, fits=FITS)


def _alike(maps: torch.Tensor) -> float:
    """Return the mean absolute correlation of two different rows."""
    rows = maps.flatten(1) - maps.flatten(1).mean(1, keepdim=True)
    rows = functional.normalize(rows, dim=1)
    between = (rows @ rows.T).abs()
    count = len(rows)
    return float((between.sum() - between.trace()) / (count * (count - 1)))


def _correlation(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the correlation of each row, shape (R,); NaN for constant rows."""
    one, other = one.flatten(1), other.flatten(1)
    one, other = one - one.mean(1, keepdim=True), other - other.mean(1, keepdim=True)
    found: torch.Tensor = (one * other).sum(1) / (one.norm(dim=1) * other.norm(dim=1))
    return found
