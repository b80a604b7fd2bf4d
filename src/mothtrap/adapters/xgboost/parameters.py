"""Parameters of a booster as it reports them, and the sense of its metrics."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

import xgboost

HIGHER_IS_BETTER: Final = ("auc", "aucpr", "pre", "map", "ndcg", "interval-regression-accuracy")
"""Metrics of the library that grow as the model becomes better; all others shrink."""
LOSSES: Final = (
    *("logloss", "mlogloss", "rmse", "rmsle", "mae", "mape", "mphe", "error", "merror"),
    *("poisson-nloglik", "gamma-nloglik", "gamma-deviance", "tweedie-nloglik", "cox-nloglik"),
    *("aft-nloglik", "quantile", "expectile"),
)
"""Metrics of the library that are a loss, or may stand for one."""


def settings(booster: xgboost.Booster) -> tuple[str, dict[str, str]]:
    """Return the name of the objective, and all parameters by name, as texts."""
    config: dict[str, Any] = json.loads(booster.save_config())
    found: dict[str, str] = {}
    _collect(config["learner"], found)
    return config["learner"]["objective"]["name"], found


def _collect(node: dict[str, Any], found: dict[str, str]) -> None:
    for name, value in node.items():
        if isinstance(value, dict):
            _collect(value, found)
        elif isinstance(value, str) and value:
            found.setdefault(name, value)


def number(parameters: dict[str, str], name: str) -> float:
    """Return a parameter as a number; 0 where the booster has none of the name."""
    try:
        return float(parameters.get(name, "0"))
    except ValueError:
        return 0.0


def is_higher_better(metric: str) -> bool:
    """Return whether a metric of the library grows as the model becomes better."""
    return metric.partition("@")[0] in HIGHER_IS_BETTER


def is_known(metric: str) -> bool:
    """Return whether a metric is one of the library's own, whose sense is known."""
    base = metric.partition("@")[0]
    return base in HIGHER_IS_BETTER or base in LOSSES


def loss_among(metrics: Iterable[str]) -> str | None:
    """Return the metric that is taken for the loss: the first that shrinks, best no error rate."""
    falling = [name for name in metrics if is_known(name) and not is_higher_better(name)]
    smooth = [name for name in falling if name.partition("@")[0] not in ("error", "merror")]
    return next(iter(smooth or falling), None)
