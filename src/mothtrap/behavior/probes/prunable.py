"""BEH703: many channels of a network can be removed without loss of score."""

from __future__ import annotations

from collections.abc import Iterator

from mothtrap.behavior.probe import Probe, Suspicion, percent
from mothtrap.behavior.pruning import pruning_curve
from mothtrap.behavior.subject import Subject
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold


@frozen
class Prunable(Probe):
    """A third or more of the hidden channels are not needed.

    What it detects:
        Channels of linear and convolutional layers that can be removed from a network. They are
        ordered by the mean of |deviation x gradient of the prediction| in one half of the rows. The
        least important channels are held at their mean, as if they were removed and the next bias
        corrected, and the score is measured in the other half.

    Why it matters:
        A smaller network is faster and cheaper, and often as good.

    Fires:
        When, without a third of the channels, the accuracy falls by less than 1 point (for
        regression: the mean squared error rises by less than 1 %).

    Stays quiet:
        Models of other frameworks.

    What to do:
        - Train a smaller network, or remove the channels and continue training for a few epochs.
        - Look at `report.figure("pruning")` for the whole curve.

    References:
        Molchanov et al., Pruning convolutional neural networks for resource efficient inference,
        2017.
    """

    code = "BEH703"
    severity = Severity.INFO
    title = "channels that are not needed"
    cost = 2

    least: float = threshold(1 / 3, unit="share of the channels", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Hold an increasing number of channels at their mean."""
        curve = pruning_curve(subject)
        if curve.kept < self.least:
            return
        after = curve.scores[curve.shares.index(curve.kept)]
        what = "mean squared error" if curve.is_regression else "accuracy"
        yield Suspicion(
            message=f"{percent(curve.kept)} of the {curve.units:,} hidden channels can be removed: "
            f"the {what} is then {after:.4g}, with all channels {curve.scores[0]:.4g}",
            exact=True,
            evidence={
                "n": curve.units,
                "value": curve.kept,
                "reference": self.least,
                "scores": list(curve.scores),
            },
        )
