"""Trees of one round as columns, and the importance of all features, in table order.

Shape suffixes: N = nodes of the trees of one round, F = features.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import xgboost
from xgboost.core import XGBoostError

Floats = npt.NDArray[np.float64]

IMPORTANCES: Final = ("weight", "gain", "cover", "total_gain", "total_cover")
COLUMNS: Final = ("tree", "node", "feature", "split", "yes", "no", "missing", "gain", "cover")
"""Columns as in `Booster.trees_to_dataframe`, with numbers instead of names."""
NONE: Final = -1.0
"""Feature number and child node numbers of a leaf."""


def importances(booster: xgboost.Booster) -> dict[str, Floats]:
    """Return the values of all features by kind of importance, float64[F]; 0 if unused."""
    names = _names(booster)
    found = {}
    for kind in IMPORTANCES:
        values_F = np.zeros(len(names))
        for name, value in booster.get_score(importance_type=kind).items():
            values_F[names[name]] = np.sum(value)
        found[kind] = values_F
    return found


def nodes(booster: xgboost.Booster, made: int) -> dict[str, Floats]:
    """Return the nodes of the trees of a round by column, float64[N].

    `gain` is the value of a leaf, NaN if it has several values; `split` is NaN in leaves and in
    categorical splits; `gain` of splits and `cover` are NaN in trees with several outputs.

    Args:
        booster: booster of trees.
        made: number of the round, from 0.
    """
    names = _names(booster)
    rows = [
        (float(number), *_row(node, names))
        for number, text in enumerate(_texts(booster[made : made + 1]))
        for node in sorted(_walk(json.loads(text)), key=lambda node: int(node["nodeid"]))
    ]
    table_NC = np.array(rows, np.float64).reshape(len(rows), len(COLUMNS))
    return {name: table_NC[:, column] for column, name in enumerate(COLUMNS)}


def _texts(trees: xgboost.Booster) -> Sequence[str]:
    try:
        texts: list[str] = trees.get_dump(with_stats=True, dump_format="json")
    except XGBoostError:  # in 3.2, trees with several outputs have no statistics
        texts = trees.get_dump(dump_format="json")
    return texts


def _names(booster: xgboost.Booster) -> dict[str, int]:
    names = booster.feature_names or [f"f{number}" for number in range(booster.num_features())]
    return {name: number for number, name in enumerate(names)}


def _walk(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.get("children", ())


def _row(node: Mapping[str, Any], names: Mapping[str, int]) -> tuple[float, ...]:
    feature = names[node["split"]] if "split" in node else NONE
    split = _number(node.get("split_condition"))
    below = (float(node.get(key, NONE)) for key in ("yes", "no", "missing"))
    gain = _number(node.get("gain", node.get("leaf")))
    return (node["nodeid"], feature, split, *below, gain, _number(node.get("cover")))


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else np.nan
