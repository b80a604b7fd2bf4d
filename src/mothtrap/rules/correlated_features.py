"""DAT513: features of a table repeat one another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import DataTaken
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._data import MOSTLY_ONE_VALUE, by_layer, pooled_features

PAIRS_TOLD = 5
"""Pairs that a message names, at most."""


@dataclass(frozen=True)
class CorrelatedFeatures(Rule):
    """Features of a table repeat one another.

    What it detects:
        Two features of a layer's data of which one is, in every batch looked at, a
        multiple of the other plus a constant, or nearly so.

    Why it matters:
        The second one adds nothing but weight: what the model learned of each alone
        cannot be told, importances are split between them, and a feature that was copied
        by mistake, or made from the target, may hide among them.

    Fires:
        Info when the absolute correlation of two features is at least `correlation` in
        each of `looks` looks.

    Stays quiet:
        Features that nearly always have one value, channels of pictures, data of more
        features than are compared, batches of few rows.

    What to do:
        - Drop one of the two columns, or find out why the same values come twice.
        - Encode a category of two values as one column, not as two.

    Example:
        x = torch.cat([celsius, fahrenheit, others], dim=1)   # the same twice
        x = torch.cat([celsius, others], dim=1)

    References:
        Hastie, Tibshirani, Friedman 2009, The Elements of Statistical Learning, section
        3.3, https://hastie.su.domains/ElemStatLearn
    """

    code = "DAT513"
    needs = (Need(facts=(DataTaken,)),)

    correlation: float = threshold(
        0.999, unit="absolute correlation", source="chosen by hand: copies, not relatives"
    )
    looks: int = threshold(3, unit="looks at different batches", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Look for pairs in the data of every first layer."""
        taken = by_layer(window)
        compared = {
            layer: told
            for layer, looks in taken.items()
            if (told := [look for look in looks if look.partners])
        }
        if not compared:
            if window.total_steps < self.looks:
                raise NotEnoughData("no layer was seen to take data")
            raise NotApplicable("no layer takes a table of few enough float features")
        if max(len(looks) for looks in compared.values()) < self.looks:
            raise NotEnoughData(f"fewer than {self.looks} batches were looked at")
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
        more = f" and {len(pairs) - PAIRS_TOLD} more" if len(pairs) > PAIRS_TOLD else ""
        last = looks[-1]
        return self.finding(
            window,
            severity=Severity.INFO,
            step=looks[0].step,
            last_step=last.step,
            count=len(looks),
            layers=(last.layer,),
            message=(
                f"of the {len(std_F)} features that {last.layer} ({last.layer_type}) is given, "
                f"these say the same: {', '.join(pairs[:PAIRS_TOLD])}{more}"
            ),
            evidence={"pairs": len(pairs), "limit": self.correlation},
            location=last.location,
        )
