"""Kind and direction of metrics, by the names that libraries use.

Sources: the parameter pages of XGBoost 3.2, LightGBM 4.7 and CatBoost 1.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

KINDS: Final[dict[str, tuple[str, ...]]] = {
    "logloss": ("logloss", "binary_logloss", "Logloss", "CrossEntropy", "cross_entropy"),
    "mlogloss": ("mlogloss", "multi_logloss", "MultiClass", "MultiClassOneVsAll"),
    "error": ("error", "binary_error", "ZeroOneLoss"),
    "merror": ("merror", "multi_error"),
    "rmse": ("rmse", "RMSE"),
    "mse": ("mse", "l2", "mean_squared_error"),
    "mae": ("mae", "l1", "MAE", "mean_absolute_error"),
    "mape": ("mape", "MAPE"),
    "rmsle": ("rmsle", "MSLE"),
    "counts": (
        *("poisson-nloglik", "gamma-nloglik", "gamma-deviance", "tweedie-nloglik", "Poisson"),
        *("poisson", "gamma", "gamma_deviance", "tweedie", "Tweedie"),
    ),
    "robust": ("mphe", "huber", "fair", "quantile", "expectile", "LogCosh"),
    "survival": ("cox-nloglik", "aft-nloglik", "cox"),
    "auc": ("auc", "auc_mu", "AUC"),
    "aucpr": ("aucpr", "average_precision", "PRAUC"),
    "accuracy": ("accuracy", "Accuracy", "BalancedAccuracy"),
    "f1": ("f1", "F1", "TotalF1"),
    "precision": ("precision", "pre", "Precision"),
    "recall": ("recall", "Recall"),
    "kappa": ("kappa", "Kappa", "MCC"),
    "r2": ("r2", "R2"),
    "ranking": ("map", "ndcg", "MAP", "NDCG", "MRR", "PFound"),
    "interval": ("interval-regression-accuracy",),
}
"""Names that libraries use, by kind of metric."""
_KIND: Final = {name.lower(): kind for kind, names in KINDS.items() for name in names}
_RISING: Final = frozenset(
    {"auc", "aucpr", "accuracy", "f1", "precision", "recall", "kappa", "r2", "ranking", "interval"}
)
ERROR_RATES: Final = frozenset({"error", "merror", "accuracy"})
"""Kinds that count wrong rows, all with the same weight."""
OF_CLASSES: Final = frozenset(
    {"logloss", "mlogloss", "error", "merror", "auc", "aucpr", "accuracy", "f1"}
    | {"precision", "recall", "kappa"}
)
OF_NUMBERS: Final = frozenset({"rmse", "mse", "mae", "mape", "rmsle", "counts", "robust", "r2"})
SQUARED: Final = frozenset(
    {"squarederror", "regression", "regression_l2", "l2", "mse", "mean_squared_error", "RMSE"}
)
"""Objectives of the squared error, without the `reg:` of XGBoost."""
_RISING_WORDS: Final = (
    r"(\w*auc|acc|(\w*_)?accuracy|f1|fscore|f_score|precision|recall|r2"
    r"|ndcg|map|kappa|mcc|matthews|pearsonr?|spearmanr?|exact_match|bleu|rouge|gini|score|auroc"
    r"|dice|iou|jaccard)"
)
_FALLING_WORDS: Final = (
    r"(loss|logloss|error|err|rmse|mse|mae|mape|rmsle|deviance|nloglik|entropy|brier)"
)


def kind(metric: str) -> str:
    """Return the kind of a library's metric; "" if unknown."""
    name = re.split(r"[@:]", metric.lower())[0]
    return _KIND.get(name, "")


def is_rising(metric: str) -> bool:
    """Return whether a greater value of a library's metric is better."""
    return kind(metric) in _RISING


def sense_by_name(metric: str) -> bool | None:
    """Return whether a greater value of a metric is better, judged by its name.

    Also works for custom metrics; None if the name does not show it.
    """
    if known := kind(metric):
        return known in _RISING
    words = re.sub(r"([a-z])([A-Z])", r"\1_\2", metric).lower()
    rises = re.search(rf"(^|[_\W]){_RISING_WORDS}($|[_\W\d])", words) is not None
    falls = re.search(rf"(^|[_\W]){_FALLING_WORDS}($|[_\W\d])", words) is not None
    return rises if rises != falls else None


def loss_among(metrics: Iterable[str], objective: str = "") -> str | None:
    """Return the metric to use as the loss: it should fall, and preferably not be an error rate.

    Args:
        metrics: names of the evaluated metrics.
        objective: name of the loss that the library minimizes. Its metric is preferred.
    """
    falling = [name for name in metrics if kind(name) and not is_rising(name)]
    smooth = [name for name in falling if kind(name) not in ERROR_RATES]
    is_squared = objective.removeprefix("reg:") in SQUARED
    squared = [name for name in smooth if is_squared and kind(name) in ("rmse", "mse")]
    return next(iter(squared or smooth or falling), None)


def names_of(*kinds: str) -> tuple[str, ...]:
    """Return all names that libraries use for some kinds of metrics."""
    return tuple(name for each in kinds for name in KINDS[each])
