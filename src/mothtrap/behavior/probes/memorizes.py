"""BEH401: the losses give away which rows the model was trained on.

Shape suffixes: R = rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.confirm import share_bound
from mothtrap.behavior.probe import Probe, Suspicion, percent
from mothtrap.behavior.sklearn.domains import area_error, area_under, domain_score
from mothtrap.behavior.subject import Judged, Subject
from mothtrap.behavior.table import Table
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

Floats = npt.NDArray[np.float64]

LEAST_ROWS = 200
"""Rows of each group that the false positive rate of 1 % needs; chosen by hand."""
FALSE_RATE = 0.01
Z = 2.576
"""Number of standard errors between the measured AUC and its lower bound: 99.5 % one-sided."""
MOST_PIXELS = 64
"""Values of an image by which the two groups are compared."""


@frozen
class Memorizes(Probe):
    """An attacker can distinguish training rows from other rows by their loss.

    What it detects:
        The membership inference attack by the loss: an attacker who knows a row and its target
        queries the model, and classifies rows with a small loss as training rows. The result is a
        lower bound of what an attacker can learn, because there are stronger attacks.

    Why it matters:
        If the data are about people, the model reveals who is in the data. Personal data can leak
        from a model that is published or served.

    Fires:
        When the lower bound of the AUC is above 0.6, or the lower bound of the share of training
        rows that the attacker identifies with 1 % false positives is above 3 %. A note if this
        share is at most 1 %, because then no single row can be identified with confidence.

    Stays quiet:
        Without training rows, and where a boosted model can distinguish training rows from held-out
        rows by their inputs (AUC above 0.6): then the losses differ for that reason, too.

    What to do:
        - Regularize until training and held-out loss are close: larger leaves, early stopping,
          weight decay, fewer parameters.
        - Train with differential privacy if rows must not be revealed.
        - Return classes or rounded probabilities, and limit the number of queries.

    References:
        Yeom et al., Privacy risk in machine learning, 2018. Carlini et al., Membership inference
        attacks from first principles, 2022.
    """

    code = "BEH401"
    severity = Severity.WARNING
    title = "memorized training rows"
    cost = 2
    needs_train = True

    least_auc: float = threshold(
        0.6,
        unit="AUC",
        source="measured: 0.50 for logistic regression, 0.57 for boosting, 0.74 for a forest",
    )
    least_share: float = threshold(
        0.03, unit="share of the training rows", source="measured: 0.01 to 0.02 where little leaks"
    )
    most_domain: float = threshold(0.6, unit="AUC", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Compare the losses of training rows and held-out rows."""
        train, held = subject.train, subject.judged
        if train is None:
            raise NotApplicable("no training rows were given")
        if min(len(train), len(held)) < LEAST_ROWS:
            raise NotEnoughData(f"needs {LEAST_ROWS} training rows and as many held-out rows")
        self._check_same_distribution(subject, train)
        score_R = np.concatenate([-train.loss_R, -held.loss_R])
        is_member_R = np.arange(len(score_R)) < len(train)
        auc = area_under(score_R, is_member_R)
        error = area_error(auc, len(train), len(held))
        named, share = named_at(-train.loss_R, -held.loss_R)
        low, low_share = auc - Z * error, share_bound(named, len(train))
        if low <= self.least_auc and low_share <= self.least_share:
            return
        z = (auc - self.least_auc) / error if low > self.least_auc else Z
        yield Suspicion(
            message=f"an attacker who knows the targets distinguishes training rows from others "
            f"with an AUC of {auc:.2f} (at least {low:.2f}, limit {self.least_auc:g}), and "
            f"identifies {percent(share, 1)} of them with {percent(FALSE_RATE)} false positives",
            p=math.erfc(z / math.sqrt(2)) / 2,
            severity=Severity.INFO if share <= FALSE_RATE else None,
            evidence={
                "attack": "loss",
                "n": len(train),
                "held out": len(held),
                "value": auc,
                "at least": low,
                "reference": self.least_auc,
                "named at 1 %": share,
                "loss of training rows": float(train.loss_R.mean()),
                "loss of held-out rows": float(held.loss_R.mean()),
            },
        )

    def _check_same_distribution(self, subject: Subject, train: Judged) -> None:
        subject.budget.spend()
        found = domain_score(_flat(train.table), _flat(subject.table), subject.rng("membership"))
        if found.low > self.most_domain:
            by = f" by {' and '.join(found.names[:2])}" if found.names else ""
            raise NotApplicable(
                f"training and held-out rows differ in their inputs (AUC {found.auc:.2f}{by}), so "
                "their losses cannot be compared"
            )


def named_at(member_R: Floats, other_R: Floats, rate: float = FALSE_RATE) -> tuple[int, float]:
    """Return the number and share of training rows above a score that few other rows exceed.

    Args:
        member_R: Scores of training rows.
        other_R: Scores of other rows.
        rate: Largest share of other rows above the score.
    """
    allowed = int(rate * len(other_R))
    limit = np.sort(other_R)[::-1][allowed]  # at most this number of others are above it
    count = int((member_R > limit).sum())
    return count, count / len(member_R)


def _flat(table: Table) -> Table:
    """Return rows as columns; of an image some of its values."""
    if table.columns:
        return table
    values = np.asarray(table.data).reshape(len(table), -1)
    places = np.unique(np.linspace(0, values.shape[1] - 1, MOST_PIXELS).astype(int))
    return Table(values[:, places])
