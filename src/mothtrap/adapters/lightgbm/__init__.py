"""LightGBM: rounds of boosting as steps, with metrics, trees, importance and data.

Classes and functions of the library are patched, never objects of the user's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import lightgbm

from mothtrap.adapters.lightgbm.patches import LightGBMHandle
from mothtrap.core.adapters import Environment, Job
from mothtrap.core.replays import ReplayPlan
from mothtrap.tracing.boosting.rounds import REPORTS as REPORTS

FRAMEWORK: Final = "lightgbm"
REQUIRES: Final = "lightgbm>=4"
ARRAYS: Final = "numpy"
STEPS: Final[Literal["own", "base", "none"]] = "own"
WATCHED: Final = (lightgbm.Booster, lightgbm.Dataset, lightgbm.LGBMModel)


def refines() -> str | None:
    """Return None: LightGBM trains on no other framework."""
    return None


def accepts(target: object) -> bool:
    """Return whether `attach` can watch an object: a booster, training data, an estimator."""
    return isinstance(target, WATCHED)


def attach(job: Job, targets: Sequence[object]) -> LightGBMHandle:
    """Watch the trainings of a booster, on training data, or of an estimator; no others.

    Raises:
        TypeError: a target is none of these; an optimizer, say.
    """
    for target in targets:
        if not accepts(target):
            raise TypeError(
                f"cannot watch a {type(target).__qualname__} beside a LightGBM model: expected a "
                "Booster, a Dataset or an estimator"
            )
    return LightGBMHandle(job, tuple(targets))


def attach_process(job: Job) -> LightGBMHandle:
    """Watch every training of this process."""
    return LightGBMHandle(job)


def attach_replay(plan: ReplayPlan) -> None:
    """Do nothing: rounds of boosting leave no snapshot that could be replayed."""


def environment() -> Environment:
    """Return the version; processes of a distributed training do not know their rank."""
    return Environment(versions={"lightgbm": lightgbm.__version__})
