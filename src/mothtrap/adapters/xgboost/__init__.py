"""XGBoost: rounds of boosting as steps, with metrics, trees, importance and data.

Classes of the library are patched, never objects of the user's: models pickle and clone unchanged,
and callbacks are the user's own. Without data to evaluate nothing is predicted.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, Literal

import xgboost

from mothtrap.adapters.xgboost.patches import XGBoostHandle
from mothtrap.adapters.xgboost.values import KINDS
from mothtrap.core.adapters import Environment, Job
from mothtrap.core.replays import ReplayPlan
from mothtrap.core.reports import Reports
from mothtrap.tracing.boosting import rounds

FRAMEWORK: Final = "xgboost"
REQUIRES: Final = "xgboost>=2"
ARRAYS: Final = "numpy"
STEPS: Final[Literal["own", "base", "none"]] = "own"
REPORTS: Final = Reports(
    kinds=frozenset(KINDS),
    scalars=rounds.REPORTS.scalars,
    facts=rounds.REPORTS.facts,
    modes=rounds.REPORTS.modes,
)
WATCHED: Final = (xgboost.Booster, xgboost.DMatrix, xgboost.XGBModel)


def refines() -> str | None:
    """Return None: XGBoost trains on no other framework."""
    return None


def accepts(target: object) -> bool:
    """Return whether `attach` can watch an object: a booster, training data, an estimator."""
    return isinstance(target, WATCHED)


def attach(job: Job, targets: Sequence[object]) -> XGBoostHandle:
    """Watch the trainings of a booster, on training data, or of an estimator; no others.

    Raises:
        TypeError: a target is none of these; an optimizer, say.
    """
    for target in targets:
        if not accepts(target):
            raise TypeError(
                f"cannot watch a {type(target).__qualname__} beside an XGBoost model: expected a "
                "Booster, a DMatrix or an estimator"
            )
    return XGBoostHandle(job, tuple(targets))


def attach_process(job: Job) -> XGBoostHandle:
    """Watch every training of this process."""
    return XGBoostHandle(job)


def attach_replay(plan: ReplayPlan) -> None:
    """Do nothing: rounds of boosting leave no snapshot that could be replayed."""


def environment() -> Environment:
    """Return the place of this process among the workers of a distributed training."""
    from xgboost import collective

    versions = {"xgboost": xgboost.__version__}
    if collective.is_distributed():
        rank, size = collective.get_rank(), collective.get_world_size()
        return Environment(rank=rank, size=size, versions=versions)
    rank_text = os.environ.get("RANK", "")
    return Environment(rank=int(rank_text) if rank_text.isdigit() else None, versions=versions)
