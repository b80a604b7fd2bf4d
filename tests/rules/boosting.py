"""Trainings of boosted trees made by hand, for the tests of rules."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.rules.evaluations import evaluations
from tests.rules.windows import loss

from mothtrap.core.fact import Fact
from mothtrap.core.facts.trees import (
    BoostingBegan,
    BoostingEnded,
    ColumnsSeen,
    FeatureGains,
    TableSeen,
    TreesGrown,
)
from mothtrap.core.window import Series

FIT, SERIES, SITE, PLACE = "train.py:9 train", "train.py:9 train logloss", "valid", "train.py:9"


def began(**changed: Any) -> BoostingBegan:
    """A classifier that is evaluated on its own rows and on others."""
    told = {
        "step": 0,
        "fit": FIT,
        "call": "train",
        "objective": "binary:logistic",
        "learning_rate": 0.3,
        "max_depth": 6,
        "metrics": ("logloss",),
        "series": SERIES,
        "sites": ("train", SITE),
        "train_site": "train",
        "location": PLACE,
    }
    return BoostingBegan(**{**told, **changed})


def held_out(values: np.ndarray) -> list[Fact]:
    """One evaluation after each round."""
    return [*evaluations(values, every=1, site=SITE)]


def training(values: np.ndarray) -> Series:
    """The training losses, one per round."""
    return loss(values, of=SERIES, early=values[:10].tolist())


def trees(leaves: float, depth: int, *, rows: int = 1000, rounds: int = 12) -> list[Fact]:
    """Several trees of equal shape."""
    return [
        TreesGrown(
            step=n,
            fit=FIT,
            round=n,
            trees=1,
            leaves=leaves,
            depth=depth,
            largest_leaf=0.5,
            rows=rows,
        )
        for n in range(rounds)
    ]


def gains(share: float, *, rounds: int = 20, columns: int = 8) -> FeatureGains:
    """One feature has a share of the gain, the others have the rest."""
    return FeatureGains(
        step=rounds,
        fit=FIT,
        round=rounds - 1,
        features=("days", "f1"),
        shares=(share, 1 - share),
        used=2,
        columns=columns,
    )


def table(site: str = "", counts: tuple[int, ...] | None = (500, 500), **more: Any) -> TableSeen:
    """A table with as many labels of each class."""
    rows = sum(counts) if counts else 1000
    return TableSeen(
        step=0,
        fit=FIT,
        site=site,
        rows=rows,
        columns=8,
        label_counts=counts,
        location=PLACE,
        **more,
    )


def columns(**more: Any) -> ColumnsSeen:
    """Return an unremarkable description of the columns of the training table."""
    return ColumnsSeen(**{"step": 0, "fit": FIT, "looked_at": 1000, "columns": 8} | more)


def ended(rounds: int, best: int | None = None) -> BoostingEnded:
    """The training is over."""
    return BoostingEnded(step=rounds, fit=FIT, rounds=rounds, best_round=best)
