"""DAT513: features of a table duplicate each other."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import DataTaken
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._data import MOSTLY_ONE_VALUE, pooled_features, tables_by_layer

MAX_PAIRS = 5
"""Most pairs that a message names."""


@rule("DAT513", severity="info", needs=[Need(facts=(DataTaken,))])
def correlated_features(
    window: Window,
    *,
    correlation: float = threshold(
        0.999, unit="absolute correlation", source="chosen by hand: only copies reach it"
    ),
    looks: int = threshold(3, unit="different batches", source="chosen by hand"),
) -> Found | None:
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
    compared = {
        layer: told
        for layer, every in tables_by_layer(window).items()
        if (told := [look for look in every if look.partners])
    }
    if not compared:
        if window.total_steps < looks:
            raise NotEnoughData("no layer that receives input data was observed")
        raise NotApplicable("no layer receives a table with few enough float features")
    enough = [told for told in compared.values() if len(told) >= looks]
    if not enough:
        raise NotEnoughData(f"fewer than {looks} batches were observed")
    for told in enough:
        std_F, ties_F = pooled_features(told)
        usable_F = (std_F > 0) & (ties_F < MOSTLY_ONE_VALUE)
        partner_LF = np.array([look.partners for look in told])
        same_F = (partner_LF == partner_LF[0]).all(axis=0)
        tight_F = np.array([look.correlations for look in told]).min(axis=0) >= correlation
        repeated = np.flatnonzero(same_F & tight_F & usable_F & usable_F[partner_LF[0]])
        if not len(repeated):
            continue
        pairs = [f"{int(partner_LF[0][place])} and {int(place)}" for place in repeated]
        more = f" and {len(pairs) - MAX_PAIRS} more" if len(pairs) > MAX_PAIRS else ""
        last = told[-1]
        return Found.of(
            told,
            f"of the {len(std_F)} input features of {last.layer} ({last.layer_type}), these pairs "
            f"duplicate each other: {', '.join(pairs[:MAX_PAIRS])}{more}",
            count=len(told),
            evidence={"pairs": len(pairs), "limit": correlation},
            location=last.location,
        )
    return None
