"""Tables that LightGBM is trained and evaluated on, for `mothtrap check`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import lightgbm

from mothtrap.checks.fitted_tables import FittedTable
from mothtrap.tracing.source import frames

NUMBERS = (
    "regression",
    "l1",
    "l2",
    "huber",
    "fair",
    "poisson",
    "quantile",
    "mape",
    "gamma",
    "tweedie",
)
"""Prefixes of regression objectives."""


def collect(take: Callable[[FittedTable], None]) -> None:
    """Report tables until the process ends."""
    train: Callable[..., Any] = lightgbm.train

    @functools.wraps(train)
    def trained(params: Any, train_set: Any, *args: Any, **kwargs: Any) -> Any:
        objective = str((params or {}).get("objective", "regression"))
        sets = [(train_set, True)]
        sets += [(one, False) for one in kwargs.get("valid_sets") or () if one is not train_set]
        for one, trains in sets:
            # A dataset that was constructed earlier may have released its rows.
            if getattr(one, "data", None) is not None and not isinstance(one.data, str):
                take(
                    FittedTable(
                        x=one.data,
                        y=one.label,
                        role="train" if trains else "evaluation",
                        task="numbers" if objective.startswith(NUMBERS) else "classes",
                        model="Booster",
                        location=frames.user_location(),
                    )
                )
        return train(params, train_set, *args, **kwargs)

    for module in (lightgbm, lightgbm.engine, lightgbm.sklearn):
        setattr(module, "train", trained)  # noqa: B010  # for the type checker
