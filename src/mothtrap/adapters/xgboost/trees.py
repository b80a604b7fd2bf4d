"""The trees of a booster: their shape in one round, and what its features have gained."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import xgboost

from mothtrap.core.facts.trees import FeatureGains, TreesGrown

EACH_ROUND: Final = 10
"""Rounds from the first whose trees are all looked at; then one in as many."""
GROWTH: Final = 1.25
"""Importance is read when so many times the rounds are made as at the last reading, as it takes
time by the number of trees."""
SHOWN: Final = 32
LINEAR: Final = "gblinear"


def is_looked_at(made: int) -> bool:
    """Return whether the trees of a round are looked at, by its number from 0."""
    return made < EACH_ROUND or made % EACH_ROUND == 0


class Importance:
    """Rounds at which importance is read."""

    def __init__(self) -> None:
        self._next = 1

    def is_due(self, rounds: int) -> bool:
        """Return whether importance is to be read once so many rounds are made."""
        if rounds < self._next:
            return False
        self._next = max(rounds + 1, int(rounds * GROWTH))
        return True


def leaves_of(booster: xgboost.Booster, made: int) -> tuple[list[npt.NDArray[np.float64]], int]:
    """Return the leaf values of each tree of a round, and the depth of the deepest.

    Args:
        booster: of trees.
        made: number of the round in the booster, from 0.
    """
    found: list[npt.NDArray[np.float64]] = []
    deepest = 0
    for text in booster[made : made + 1].get_dump():
        values: list[float] = []
        for line in text.splitlines():
            _, leaf, value = line.partition("leaf=")
            if leaf:
                deepest = max(deepest, len(line) - len(line.lstrip("\t")))
                # A tree with several outputs has a vector in each leaf.
                values += [float(part) for part in value.strip("[]").split(",")]
        found.append(np.array(values))
    return found, deepest


def grown(
    trees: list[npt.NDArray[np.float64]], depth: int, *, step: int, fit: str, made: int, rows: int
) -> TreesGrown:
    """Return the shape of the trees of a round."""
    sizes = [len(values) for values in trees]
    largest = max((float(np.abs(values).max()) for values in trees if len(values)), default=0.0)
    return TreesGrown(
        step=step,
        fit=fit,
        round=made,
        trees=len(trees),
        leaves=float(np.mean(sizes)) if sizes else 0.0,
        depth=depth,
        largest_leaf=largest,
        rows=rows,
    )


def gains(
    booster: xgboost.Booster, *, step: int, fit: str, made: int, columns: int
) -> FeatureGains | None:
    """Return the shares of features in the gain of all splits; None while there is none."""
    scores: dict[str, Any] = booster.get_score(importance_type="total_gain")
    gain = {name: float(np.sum(value)) for name, value in scores.items()}
    total = sum(gain.values())
    if not total > 0:
        return None
    largest = sorted(gain, key=lambda name: -gain[name])[:SHOWN]
    return FeatureGains(
        step=step,
        fit=fit,
        round=made,
        features=tuple(largest),
        shares=tuple(gain[name] / total for name in largest),
        used=len(gain),
        columns=columns,
    )
