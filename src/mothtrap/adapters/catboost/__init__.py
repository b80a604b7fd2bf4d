"""CatBoost: rounds of boosting as steps, with metrics, trees, importance and data.

Classes of the library are patched, never objects of the user's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import catboost

from mothtrap.adapters.catboost.patches import CatBoostHandle
from mothtrap.core.adapters import Environment, Job
from mothtrap.core.facts.trees import GradientsGiven
from mothtrap.core.replays import ReplayPlan
from mothtrap.core.reports import Reports
from mothtrap.tracing.boosting import rounds

FRAMEWORK: Final = "catboost"
REQUIRES: Final = "catboost>=1.2"
ARRAYS: Final = "numpy"
STEPS: Final[Literal["own", "base", "none"]] = "own"
REPORTS: Final = Reports(
    scalars=rounds.REPORTS.scalars,
    facts=rounds.REPORTS.facts - {GradientsGiven},
    modes=rounds.REPORTS.modes,
)
WATCHED: Final = (catboost.CatBoost, catboost.Pool)


def refines() -> str | None:
    """Return None: CatBoost trains on no other framework."""
    return None


def accepts(target: object) -> bool:
    """Return whether `attach` can watch an object: a model or training data."""
    return isinstance(target, WATCHED)


def attach(job: Job, targets: Sequence[object]) -> CatBoostHandle:
    """Watch the trainings of a model or on training data; no others.

    Raises:
        TypeError: a target is none of these; an optimizer, say.
    """
    for target in targets:
        if not accepts(target):
            raise TypeError(
                f"cannot watch a {type(target).__qualname__} beside a CatBoost model: expected a "
                "model or a Pool"
            )
    return CatBoostHandle(job, tuple(targets))


def attach_process(job: Job) -> CatBoostHandle:
    """Watch every training of this process."""
    return CatBoostHandle(job)


def attach_replay(plan: ReplayPlan) -> None:
    """Do nothing: rounds of boosting leave no snapshot that could be replayed."""


def environment() -> Environment:
    """Return the version; CatBoost trains in one process."""
    return Environment(versions={"catboost": catboost.__version__})
