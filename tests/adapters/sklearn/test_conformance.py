"""The adapter of scikit-learn passes the suite that every adapter passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.linear_model import SGDClassifier
from sklearn.linear_model import _stochastic_gradient as linear
from sklearn.neural_network import MLPClassifier
from sklearn.neural_network import _multilayer_perceptron as network
from sklearn.neural_network._stochastic_optimizers import BaseOptimizer

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
        *([] if CallbackSupportMixin is None else [CallbackSupportMixin]),
    )

    def train(self) -> bytes:
        model = MLPClassifier((8,), batch_size=100, max_iter=4, random_state=0)
        model.fit(X, Y)
        return b"".join(weight.tobytes() for weight in model.coefs_ + model.intercepts_)

    def reported(self) -> Sequence[Callable[[], object]]:
        return [self.train_until_a_score_is_best, self.train_a_linear_model]

    def train_until_a_score_is_best(self) -> None:
        MLPClassifier((8,), max_iter=4, random_state=0, early_stopping=True).fit(X, Y)

    def train_a_linear_model(self) -> None:
        SGDClassifier(random_state=0).fit(X, Y)
