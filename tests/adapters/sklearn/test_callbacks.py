"""Logistic regression, searches and pipelines give the same models, and are recorded."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.adapters.boosted import losses, of, watched

from mothtrap.adapters.sklearn import ADAPTER
from mothtrap.adapters.sklearn.callbacks import CallbackSupportMixin
from mothtrap.core.facts.estimators import EstimatorFitted
from mothtrap.core.facts.layers import DataTaken
from mothtrap.core.facts.trees import ColumnsSeen
from mothtrap.core.steps import Mode

pytestmark = [
    pytest.mark.skipif(
        CallbackSupportMixin is None, reason="callbacks need scikit-learn 1.9 or later"
    ),
    pytest.mark.filterwarnings("ignore:lbfgs failed", "ignore:Stochastic Optimizer"),
]
_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(400, 5))
Y = (X[:, 0] + X[:, 1] + 0.5 * _RNG.normal(size=400) > 0).astype(int)
THREE = np.where(X[:, 2] > 1, 2, Y)


def fits(process: Any) -> list[EstimatorFitted]:
    return [one for one in of(process, EstimatorFitted) if isinstance(one, EstimatorFitted)]


def scaled(**settings: Any) -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(**settings))


class Fails(ClassifierMixin, BaseEstimator):
    def fit(self, x: Any, y: Any) -> None:
        raise RuntimeError("of the user")


@pytest.mark.parametrize("solver", ["lbfgs", "liblinear", "newton-cg", "saga"])
@pytest.mark.parametrize("label", [Y, THREE, np.where(Y > 0, "yes", "no")])
def test_logistic_regression_is_the_same(solver: str, label: Any) -> None:
    if solver == "liblinear" and label is THREE:
        pytest.skip("liblinear knows two classes only")
    plain = LogisticRegression(solver=solver, random_state=0).fit(X, label)
    model = LogisticRegression(solver=solver, random_state=0)
    process, _ = watched(ADAPTER, lambda: model.fit(X, label))
    assert model.coef_.tobytes() == plain.coef_.tobytes()
    assert vars(model).keys() == vars(plain).keys()
    assert pickle.dumps(model) == pickle.dumps(plain)
    [fitted] = fits(process)
    assert (fitted.estimator, fitted.rows, fitted.call) == ("LogisticRegression", 400, "fit")
    assert fitted.iterations == plain.n_iter_.max()
    predicted = model.predict(X)
    assert list(fitted.predicted_counts) == [(predicted == one).sum() for one in model.classes_]
    assert "test_callbacks.py" in (fitted.location or "")
    assert len(of(process, ColumnsSeen)) == 1
    assert not of(process, DataTaken), "it converged"


@pytest.mark.parametrize("label", [Y, THREE])
def test_iterations_are_steps_with_the_true_loss(label: Any) -> None:
    from sklearn.metrics import log_loss

    model = LogisticRegression()
    process, _ = watched(ADAPTER, lambda: model.fit(X, label))
    seen = losses(process)
    assert len(seen) == len(process.steps()) == model.n_iter_.max()
    assert seen[-1] == pytest.approx(log_loss(label, model.predict_proba(X)))
    assert seen[-1] < seen[0]


def test_a_fit_that_does_not_converge_shows_the_scale_of_its_columns() -> None:
    x, y = load_breast_cancer(return_X_y=True)
    process, _ = watched(ADAPTER, lambda: LogisticRegression(max_iter=30).fit(x, y))
    [fitted] = fits(process)
    assert fitted.exhausted
    assert len(fitted.loss_curve) == 30
    assert of(process, DataTaken)
    assert "too_few_passes" in {one.name for one in process.findings()}


def test_a_search_is_the_same_and_its_best_score_is_recorded() -> None:
    def search() -> Any:
        return GridSearchCV(scaled(), {"logisticregression__C": [0.01, 1, 100]}, cv=3)

    plain = search().fit(X, Y)
    model = search()
    process, _ = watched(ADAPTER, lambda: model.fit(X, Y))
    assert model.best_params_ == plain.best_params_
    assert model.cv_results_["mean_test_score"].tolist() == (
        plain.cv_results_["mean_test_score"].tolist()
    )
    assert "_skl_callbacks" not in vars(model) | vars(model.best_estimator_[-1])
    assert losses(process, Mode.EVAL, "score") == [plain.best_score_]
    rows = [one.rows for one in fits(process)]
    assert rows[-1] == 400, "the fit to all rows is the last"
    assert len(rows) == 5, "of nine fits of one line the 1st, 2nd, 4th, 8th, and the last one"


@pytest.fixture
def no_workers_stay() -> Iterator[None]:
    """End the worker processes that joblib keeps."""
    yield
    loky = pytest.importorskip("joblib.externals.loky")
    loky.get_reusable_executor().shutdown(wait=True, kill_workers=True)


@pytest.mark.usefixtures("no_workers_stay")
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_search_over_forests_is_one_step(jobs: int) -> None:
    model = GridSearchCV(RandomForestClassifier(3), {"max_depth": [1, 2]}, cv=2, n_jobs=jobs)
    process, _ = watched(ADAPTER, lambda: model.fit(X, Y))
    assert len(process.steps()) == 1
    [fitted] = fits(process)
    assert (fitted.estimator, fitted.rows) == ("GridSearchCV", 400)
    assert losses(process, Mode.EVAL, "score") == [model.best_score_]


def test_a_column_that_leaks_the_label_is_found_in_a_pipeline_of_trees() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=list("abcde")).assign(paid=Y * 10 + 3)
    model = make_pipeline(StandardScaler(), RandomForestClassifier(3))
    process, _ = watched(ADAPTER, lambda: model.fit(table, Y))
    [found] = [one for one in process.findings() if one.name == "label_among_features"]
    assert found.layers == ("paid",)


def test_columns_of_a_frame_keep_their_names() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=list("abcde")).assign(paid=Y * 10 + 3)
    process, _ = watched(ADAPTER, lambda: LogisticRegression().fit(table, Y))
    [found] = [one for one in process.findings() if one.name == "label_among_features"]
    assert found.layers == ("paid",)


def test_a_preparation_without_labels_is_no_training() -> None:
    model = make_pipeline(StandardScaler(), StandardScaler())
    process, _ = watched(ADAPTER, lambda: (model.fit(X), model.fit_transform(X, Y)))
    assert not process.steps()
    assert not fits(process)


def test_a_network_in_a_search_is_seen_batch_by_batch() -> None:
    network = MLPClassifier((4,), max_iter=2, batch_size=100, random_state=0)
    model = GridSearchCV(network, {"alpha": [0.1]}, cv=2)
    process, _ = watched(ADAPTER, lambda: model.fit(X, Y), model)
    assert len(process.steps()) == 2 * (2 + 2 + 4)


class Counts:
    """A callback that is also passed to the estimators of a pipeline."""

    max_propagation_depth = None

    def __init__(self) -> None:
        self.called: list[tuple[str, str]] = []

    def setup(self, estimator: Any, context: Any) -> None:
        self.called.append(("setup", type(estimator).__name__))

    def teardown(self, estimator: Any, context: Any) -> None:
        self.called.append(("teardown", type(estimator).__name__))

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        self.called.append(("begin", type(estimator).__name__))

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        self.called.append(("end", type(estimator).__name__))


def test_the_users_callbacks_stay_and_are_called() -> None:
    plain, mine = Counts(), Counts()
    scaled().set_callbacks(plain).fit(X, Y)
    model = scaled().set_callbacks(mine)
    given = model._skl_callbacks
    process, _ = watched(ADAPTER, lambda: model.fit(X, Y))
    assert mine.called == plain.called
    assert len(mine.called) > 20
    assert model._skl_callbacks is given
    assert given == [mine]
    assert "_skl_callbacks" not in vars(model[-1])
    assert fits(process)


def test_pickles_and_copies_during_a_fit_are_without_the_callback() -> None:
    class Copies:
        def setup(self, estimator: Any, context: Any) -> None: ...
        def teardown(self, estimator: Any, context: Any) -> None: ...
        def on_fit_task_begin(self, estimator: Any, context: Any) -> None: ...
        def on_fit_task_end(self, estimator: Any, context: Any) -> None:
            made = copy.deepcopy(estimator)
            kept.append([type(one).__name__ for one in made._skl_callbacks])
            kept.append([type(one).__name__ for one in made._skl_callbacks_to_teardown])

    kept: list[list[str]] = []
    model = LogisticRegression(max_iter=3).set_callbacks(Copies())
    process, _ = watched(ADAPTER, lambda: model.fit(X, Y))
    assert set(map(tuple, kept)) == {("Copies",)}
    assert fits(process)


@pytest.mark.parametrize("fails", [Fails(), make_pipeline(StandardScaler(), Fails())])
def test_a_fit_that_fails_leaves_nothing(fails: Any) -> None:
    model = GridSearchCV(fails, {}, cv=2, error_score="raise")

    def train() -> None:
        with pytest.raises(RuntimeError, match="of the user"):
            model.fit(X, Y)
        LogisticRegression().fit(X, Y)

    process, _ = watched(ADAPTER, train)
    assert "_skl_callbacks" not in vars(model)
    assert [one.estimator for one in fits(process)] == ["LogisticRegression"]


def test_a_fit_while_an_error_is_handled_counts() -> None:
    def train() -> None:
        try:
            raise ValueError("first")
        except ValueError:
            LogisticRegression().fit(X, Y)

    process, _ = watched(ADAPTER, train)
    assert len(fits(process)) == 1


def test_only_the_estimator_that_is_watched_is_recorded() -> None:
    one, other = LogisticRegression(), scaled()
    process, _ = watched(ADAPTER, lambda: (one.fit(X, Y), other.fit(X, Y)), other)
    [fitted] = fits(process)
    assert fitted.iterations == other[-1].n_iter_.max()


def test_sparse_tables_and_clones() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    model = clone(LogisticRegression())
    process, _ = watched(ADAPTER, lambda: model.fit(sparse.csr_matrix(X), Y))
    assert len(losses(process)) == model.n_iter_.max()
    assert fits(process)[0].rows == 400


def test_healthy_models_are_without_warnings() -> None:
    x, y = load_iris(return_X_y=True)

    def train() -> None:
        cross_val_score(scaled(), x, y)
        GridSearchCV(scaled(), {"logisticregression__C": [0.1, 1, 10]}).fit(x, y)
        LogisticRegression(max_iter=500).fit(x, y)
        scaled().fit(*load_breast_cancer(return_X_y=True))

    process, _ = watched(ADAPTER, train)
    found = [one for one in process.findings() if one.severity.value in ("error", "warning")]
    assert not found, [one.message for one in found]
