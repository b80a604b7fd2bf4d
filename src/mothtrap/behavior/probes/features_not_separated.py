"""BEH702: the classes lie mixed in the features of a network that distinguishes them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mothtrap.behavior.confirm import mean_above
from mothtrap.behavior.inside import features, network_of, questions
from mothtrap.behavior.probe import REFUTED, Probe, Suspicion, percent
from mothtrap.behavior.sklearn.comparisons import neighbor_classes
from mothtrap.behavior.subject import Subject
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

ROWS = 2_000
LEAST_ROWS = 120
NEIGHBORS = 5
DOMINATES = 0.5
"""Share of the variance above which a single feature is named; chosen by hand."""


@frozen
class FeaturesNotSeparated(Probe):
    """Nearest neighbors in the features are wrong where the network is right.

    What it detects:
        The features are the input of the last layer. For each row of one half, the five nearest
        rows of the other half, by the distance of their features, vote on its class. Their error
        rate is compared with the error rate of the network.

    Why it matters:
        The distance between such features says nothing about the class. Pictures of the latent
        space, searches for similar rows, and models that reuse the features do not work.

    Fires:
        When the neighbors' error rate is at least 10 points above the network's and at least twice
        as high, and the difference is significant.

    Stays quiet:
        Regression, and models that are not PyTorch or Keras networks.

    What to do:
        - Scale the inputs: a column with large values can dominate all distances.
        - Normalize the features before you compare rows, or use the scores instead.

    References:
        Alain and Bengio, Understanding intermediate layers using linear classifier probes, 2016.
    """

    code = "BEH702"
    severity = Severity.INFO
    title = "mixed classes in the latent space"
    cost = 2

    least_points: float = threshold(0.1, unit="error rate", source="chosen by hand")
    least_ratio: float = threshold(2.0, unit="times the network's error", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Compare the nearest neighbors' votes with the network's predictions."""
        network, judged = network_of(subject), subject.judged
        if subject.reading.is_regression:
            raise NotApplicable("the network predicts numbers, not classes")
        rows = np.sort(subject.asked[:ROWS])
        if len(rows) < LEAST_ROWS:
            raise NotEnoughData(f"needs {LEAST_ROWS} rows, has {len(rows)}")
        given = subject.table.take(rows).data
        with questions(subject, len(rows)):
            feature_RF = features(network.layers(given))
        known_R = subject.propose_R[rows]
        voted_R = neighbor_classes(
            feature_RF[known_R], judged.target_R[rows][known_R], feature_RF[~known_R], NEIGHBORS
        )
        near_R = (voted_R != judged.target_R[rows][~known_R]).astype(np.float64)
        own_R = judged.wrong_R[rows][~known_R]
        near, own = float(near_R.mean()), float(own_R.mean())
        if near - own < self.least_points or near < self.least_ratio * own:
            yield REFUTED
            return
        variance_F = feature_RF.var(axis=0)
        share = float(variance_F.max() / variance_F.sum())
        largest = ""
        if len(variance_F) > 1 and share > DOMINATES:
            largest = (
                f"; feature {int(variance_F.argmax())} of {len(variance_F):,} has "
                f"{percent(share)} of their variance"
            )
        yield Suspicion(
            message=f"by nearest neighbors in the features, {percent(near, 1)} of the rows are "
            f"wrong, by the network {percent(own, 1)}{largest}",
            p=mean_above(near_R - own_R)[0],
            evidence={"n": len(own_R), "value": near, "reference": own, "largest_share": share},
        )
