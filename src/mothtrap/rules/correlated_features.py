"""DAT513: features of a table duplicate each other."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import DataTaken
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._data import MOSTLY_ONE_VALUE, pooled_features, tables_by_layer

MAX_PAIRS = 5
"""Most pairs that a message names."""


@frozen
class CorrelatedFeatures(Rule):
    """Features of a table duplicate each other.

    What it detects:
        Pairs of input features in which, in every observed batch, one feature is (nearly) a
        multiple of the other plus a constant.

    Why it matters:
        The second feature adds no information. Their effects cannot be separated, feature
        importances are split between them, and one may be an accidental copy or derived from the
        target.

    Fires:
        Info when the absolute correlation of two features is at least `correlation` in each of
        `looks` batches.

    Stays quiet:
        For features that are nearly constant, image channels, tables with more features than are
        compared, and batches of few rows.

    What to do:
        - Drop one of the two columns, or find out why the values are duplicated.
        - Encode a binary category as one column, not as two.

    Example:
        x = torch.cat([celsius, fahrenheit, others], dim=1)   # duplicates
        x = torch.cat([celsius, others], dim=1)

    References:
        Hastie, Tibshirani, Friedman 2009, The Elements of Statistical Learning, section
        3.3, https://hastie.su.domains/ElemStatLearn
    """

    code = "DAT513"
    needs = (Need(facts=(DataTaken,)),)

    correlation: float = threshold(
        0.999, unit="absolute correlation", source="chosen by hand: only copies reach it"
    )
    looks: int = threshold(3, unit="different batches", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Find pairs of features in the input of every first layer."""
        taken = tables_by_layer(window)
        compared = {
            layer: told
            for layer, looks in taken.items()
            if (told := [look for look in looks if look.partners])
        }
        if not compared:
            if window.total_steps < self.looks:
                raise NotEnoughData("no layer that receives input data was observed")
            raise NotApplicable("no layer receives a table with few enough float features")
        if max(len(looks) for looks in compared.values()) < self.looks:
            raise NotEnoughData(f"fewer than {self.looks} batches were observed")
        found = [self._judge(window, looks) for looks in compared.values()]
        return [finding for finding in found if finding][:1]

    def _judge(self, window: Window, looks: list[DataTaken]) -> Finding | None:
        if len(looks) < self.looks:
            return None
        std_F, ties_F = pooled_features(looks)
        usable_F = (std_F > 0) & (ties_F < MOSTLY_ONE_VALUE)
        partner_LF = np.array([look.partners for look in looks])
        same_F = (partner_LF == partner_LF[0]).all(axis=0)
        tight_F = np.array([look.correlations for look in looks]).min(axis=0) >= self.correlation
        repeated = np.flatnonzero(same_F & tight_F & usable_F & usable_F[partner_LF[0]])
        if not len(repeated):
            return None
        pairs = [f"{int(partner_LF[0][place])} and {int(place)}" for place in repeated]
        more = f" and {len(pairs) - MAX_PAIRS} more" if len(pairs) > MAX_PAIRS else ""
        last = looks[-1]
        return self.finding(
            window,
            severity=Severity.INFO,
            step=looks[0].step,
            last_step=last.step,
            count=len(looks),
            layers=(last.layer,),
            message=(
                f"of the {len(std_F)} input features of {last.layer} ({last.layer_type}), these "
                f"pairs duplicate each other: {', '.join(pairs[:MAX_PAIRS])}{more}"
            ),
            evidence={"pairs": len(pairs), "limit": self.correlation},
            location=last.location,
        )
