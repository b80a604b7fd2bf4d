"""The adapter of scikit-learn passes the suite that every adapter passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn import base
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LinearRegression, SGDClassifier
from sklearn.linear_model import _stochastic_gradient as linear
from sklearn.neural_network import MLPClassifier
from sklearn.neural_network import _multilayer_perceptron as network
from sklearn.neural_network._stochastic_optimizers import BaseOptimizer
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _param_validation, validation
from tests.adapters.boosted import shuffled

from mothtrap.adapters.sklearn import ADAPTER
from mothtrap.adapters.sklearn.callbacks import CallbackSupportMixin
from mothtrap.testing import AdapterTests

_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(300, 5))
Y = (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
class TestSklearn(AdapterTests):
    adapter = ADAPTER
    steps = 12  # 4 passes of 3 batches
    replaced = (
        network.BaseMultilayerPerceptron,
        linear.BaseSGDClassifier,
        linear.BaseSGDRegressor,
        BaseOptimizer,
        base.BaseEstimator,
        _param_validation,
        validation,
        *([] if CallbackSupportMixin is None else [CallbackSupportMixin]),
    )

    def train(self) -> bytes:
        model = MLPClassifier((8,), batch_size=100, max_iter=4, random_state=0)
        model.fit(X, Y)
        return b"".join(weight.tobytes() for weight in model.coefs_ + model.intercepts_)

    def reported(self) -> Sequence[Callable[[], object]]:
        return [
            self.train_until_a_score_is_best,
            self.train_a_linear_model,
            self.train_trees,
            self.train_on_shuffled_labels,
        ]

    def train_trees(self) -> None:
        scaler = StandardScaler()
        model = GradientBoostingClassifier(n_estimators=3)
        model.fit(scaler.fit_transform(X[:200]), Y[:200])
        scaler.fit(X[200:])
        model.score(X[200:] * 100, Y[200:])

    def train_on_shuffled_labels(self) -> None:
        x, y = shuffled()
        model = LinearRegression().fit(x, y)
        model.predict(x)

    def train_until_a_score_is_best(self) -> None:
        MLPClassifier((8,), max_iter=4, random_state=0, early_stopping=True).fit(X, Y)

    def train_a_linear_model(self) -> None:
        SGDClassifier(random_state=0).fit(X, Y)
