"""scikit-learn's iterative estimators: neural networks per step, linear models per fit.

Classes of the library are patched. From scikit-learn 1.9 on, logistic regression, searches, and
pipelines are observed by a callback that exists only during the fit. Estimators pickle and clone
unchanged. Other models that are fitted at once are not observed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor

from mothtrap.adapters.sklearn.boosted_fits import OF_ROUNDS
from mothtrap.adapters.sklearn.callbacks import WATCHED
from mothtrap.adapters.sklearn.hooks import (
    OF_EVALUATIONS,
    OF_FITS,
    OF_PREDICTIONS,
    SklearnHandle,
)
from mothtrap.core.reports import Reports
from mothtrap.core.steps import Mode
from mothtrap.tracing.adapter_parts import CheckParts
from mothtrap.tracing.handle import AdapterSpec

if TYPE_CHECKING:
    from mothtrap.checks.fitted_tables import FittedTable


def _tables(take: Callable[[FittedTable], None]) -> None:
    """Report tables for `mothtrap check`."""
    from mothtrap.adapters.sklearn.tables import collect

    collect(take)


ADAPTER: Final = AdapterSpec(
    framework="sklearn",
    handle=SklearnHandle,
    requires="scikit-learn>=1.4",
    reports=Reports(
        kinds=frozenset({"weight", "gradient"}),
        scalars=frozenset({"loss", "lr"}),
        facts=frozenset({*OF_FITS, *OF_EVALUATIONS, *OF_PREDICTIONS, *OF_ROUNDS}),
        modes=frozenset({Mode.TRAIN, Mode.EVAL}),
    ),
    watched=(MLPClassifier, MLPRegressor, SGDClassifier, SGDRegressor, *WATCHED),
    checks=CheckParts(tables=_tables),
)
