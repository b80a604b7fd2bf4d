"""Score of a network while its least important channels are held at their mean.

Shape suffixes: R = rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.channels import hidden_channels
from mothtrap.behavior.inside import network_of
from mothtrap.behavior.subject import Judged, Subject
from mothtrap.core.errors import NotEnoughData
from mothtrap.reader.plots import SCHEMA, Chart

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
LEAST_ROWS = 60
TOLERANCE = 0.01
"""Loss of score that is accepted: 1 point of accuracy, or 1 % of the mean squared error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningCurve:
    """Score by share of constant channels, on rows that were not used to compute the importance.

    Attributes:
        units: number of hidden channels.
        shares: shares of constant channels, beginning with 0.
        scores: accuracy for each share; for regression the mean squared error.
        is_regression: the scores are errors, so lower is better.
        kept: largest share up to which the score stays within 1 %.
    """

    units: int
    shares: tuple[float, ...]
    scores: tuple[float, ...]
    is_regression: bool
    kept: float

    def chart(self) -> Chart:
        """Draw the curve."""
        rows = [{"x": x, "y": y} for x, y in zip(self.shares, self.scores, strict=True)]
        name = "mean squared error" if self.is_regression else "accuracy"
        return Chart(
            {
                "$schema": SCHEMA,
                "title": f"score with the least important of {self.units:,} channels constant",
                "width": 480,
                "height": 260,
                "layer": [
                    {
                        "data": {"values": rows},
                        "mark": {"type": "line", "strokeWidth": 3, "point": True},
                        "encoding": {
                            "x": {
                                "field": "x",
                                "type": "quantitative",
                                "title": "share of constant channels",
                            },
                            "y": {
                                "field": "y",
                                "type": "quantitative",
                                "title": name,
                                "scale": {"zero": False},
                            },
                        },
                    }
                ],
            }
        )


def pruning_curve(subject: Subject) -> PruningCurve:
    """Hold the least important channels of all layers at their mean, and score the model.

    The importance is computed in the proposing half of the rows, the score in the other half. Each
    layer keeps its most important channel.

    Raises:
        NotApplicable: the model is not a network whose channels can be masked.
        NotEnoughData: there are too few rows.
    """
    network = network_of(subject)
    if len(subject.judged) < LEAST_ROWS:
        raise NotEnoughData(f"needs {LEAST_ROWS} rows, has {len(subject.judged)}")
    fit = np.flatnonzero(subject.propose_R)
    layers = hidden_channels(subject, network, subject.table.take(fit).data)
    importance = [each.importance_U for each in layers]
    asked = np.intersect1d(np.flatnonzero(subject.confirm_R), subject.asked)
    scores = [_score(subject, asked)]
    for share in SHARES:
        dropped = least_important(importance, share)
        held = {
            layer.layer: (mask_U, layer.mean_U)
            for layer, mask_U in zip(layers, dropped, strict=True)
        }
        with network.holding(held):
            scores.append(_score(subject, asked))
    kept = 0.0
    for share, score in zip(SHARES, scores[1:], strict=True):
        if not _is_kept(scores[0], score, subject.reading.is_regression):
            break
        kept = share
    return PruningCurve(
        units=sum(map(len, importance)),
        shares=(0.0, *SHARES),
        scores=tuple(scores),
        is_regression=subject.reading.is_regression,
        kept=kept,
    )


def least_important(
    layers: list[npt.NDArray[np.float64]], share: float
) -> list[npt.NDArray[np.bool_]]:
    """Return masks of the least important channels; each layer keeps its most important one."""
    safe = [each == each.max() for each in layers]
    values = np.concatenate(
        [np.where(kept, np.inf, each) for each, kept in zip(layers, safe, strict=True)]
    )
    wanted = min(round(share * len(values)), int(np.isfinite(values).sum()))
    dropped = np.zeros(len(values), bool)
    dropped[np.argsort(values, kind="stable")[:wanted]] = True
    return np.split(dropped, np.cumsum([len(each) for each in layers])[:-1])


def _score(subject: Subject, asked: npt.NDArray[np.int64]) -> float:
    judged, rows = subject.judged, subject.table.take(asked)
    found = Judged(
        rows,
        judged.target_R[asked],
        subject.ask(rows),
        subject.reading,
        judged.rows_R[asked],
    )
    if subject.reading.is_regression:
        return float(found.loss_R.mean())
    return 1 - float(found.wrong_R.mean())


def _is_kept(before: float, after: float, is_regression: bool) -> bool:
    if is_regression:
        return after <= (1 + TOLERANCE) * before
    return after >= before - TOLERANCE
