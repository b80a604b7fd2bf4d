"""scikit-learn's iterative estimators: networks step by step, linear models fit by fit.

Classes of the library are patched, never objects of the user's: estimators pickle and clone
unchanged. Models that are fitted at once are not observed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import sklearn
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor

from mothtrap.adapters.sklearn.patches import OF_EVALUATIONS, OF_FITS, SklearnHandle
from mothtrap.core.adapters import Environment, Job
from mothtrap.core.replays import ReplayPlan
from mothtrap.core.reports import Reports
from mothtrap.core.steps import Mode

FRAMEWORK: Final = "sklearn"
REQUIRES: Final = "scikit-learn>=1.4"
ARRAYS: Final = "numpy"
STEPS: Final[Literal["own", "base", "none"]] = "own"
REPORTS: Final = Reports(
    kinds=frozenset({"weight", "gradient"}),
    scalars=frozenset({"loss", "lr"}),
    facts=frozenset({*OF_FITS, *OF_EVALUATIONS}),
    modes=frozenset({Mode.TRAIN, Mode.EVAL}),
)
WATCHED: Final = (MLPClassifier, MLPRegressor, SGDClassifier, SGDRegressor)


def refines() -> str | None:
    """Return None: scikit-learn trains on no other framework."""
    return None


def accepts(target: object) -> bool:
    """Return whether `attach` can watch an object: a network or a linear model by SGD."""
    return isinstance(target, WATCHED)


def attach(job: Job, targets: Sequence[object]) -> SklearnHandle:
    """Watch the fits of some estimators; no others.

    Raises:
        TypeError: a target is none that is fitted step by step.
    """
    for target in targets:
        if not accepts(target):
            raise TypeError(
                f"cannot watch a {type(target).__qualname__}: expected an MLP or SGD estimator"
            )
    return SklearnHandle(job, tuple(targets))


def attach_process(job: Job) -> SklearnHandle:
    """Watch every fit of this process."""
    return SklearnHandle(job)


def attach_replay(plan: ReplayPlan) -> None:
    """Do nothing: fits leave no snapshot that could be replayed."""


def environment() -> Environment:
    """Return the version; an estimator is fitted in one process."""
    return Environment(versions={"sklearn": sklearn.__version__})
