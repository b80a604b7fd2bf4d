"""Fits that scikit-learn makes in one call, and the predictions that scripts make, are recorded."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LinearRegression
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import KFold, cross_val_score, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from tests.adapters.boosted import losses, of, watched
from tests.rules.windows import window

from mothtrap.adapters.sklearn import ADAPTER
from mothtrap.core.facts.data import RowsShared
from mothtrap.core.facts.estimators import (
    EstimatorFitted,
    PredictionsCompared,
    TransformRefitted,
)
from mothtrap.core.facts.layers import DataTaken
from mothtrap.core.facts.trees import BoostingBegan, TablesDiffer, TableSeen, TreesGrown
from mothtrap.rules.preprocessing_refitted import preprocessing_refitted
from mothtrap.rules.train_eval_overlap import TrainEvalOverlap

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 5))
Y = (X[:, 0] + X[:, 1] > 0).astype(int)
Z = X[:, 0] + X[:, 1] ** 2
XT, YT, ZT = X[:250], Y[:250], Z[:250]
XV, YV, ZV = X[250:], Y[250:], Z[250:]


def test_a_forest_is_the_same_and_recorded() -> None:
    plain = RandomForestClassifier(8, random_state=0).fit(XT, YT)
    model = RandomForestClassifier(8, random_state=0)

    def train() -> Any:
        model.fit(XT, YT)
        return accuracy_score(YV, model.predict(XV))

    process, score = watched(ADAPTER, train)
    assert score == plain.score(XV, YV)
    assert len(pickle.dumps(model)) == len(pickle.dumps(plain))
    [fitted] = of(process, EstimatorFitted)
    assert (fitted.estimator, fitted.rows, fitted.task) == (
        "RandomForestClassifier",
        250,
        "classes",
    )
    [one] = of(process, PredictionsCompared)
    assert (one.rows, one.trained, one.fit) == (150, False, fitted.fit)
    assert one.relation > one.chance
    assert {table.site for table in of(process, TableSeen)} == {"", one.site}
    assert len(process.steps()) == 1


def test_rows_of_training_are_recognized() -> None:
    def train() -> None:
        model = KNeighborsClassifier().fit(XT, YT)
        model.score(XT, YT)

    process, _ = watched(ADAPTER, train)
    [shared] = of(process, RowsShared)
    assert (shared.shared, shared.module) == (250, "KNeighborsClassifier")
    assert of(process, PredictionsCompared)[0].trained
    assert of(process, DataTaken)


def test_training_rows_beside_others_are_not_reported() -> None:
    def train() -> None:
        model = DecisionTreeClassifier().fit(XT, YT)
        model.score(XT, YT)
        model.score(XV, YV)

    process, _ = watched(ADAPTER, train)
    assert [one.shared for one in of(process, RowsShared)] == [0]


def test_another_scale_in_evaluation() -> None:
    def train() -> None:
        model = LinearRegression().fit(XT, ZT)
        r2_score(ZV, model.predict(XV * 100 + 7))

    process, _ = watched(ADAPTER, train)
    assert of(process, TablesDiffer)
    assert of(process, PredictionsCompared)[0].label_std > 0


def test_a_scaler_that_is_fitted_twice() -> None:
    def train(*, again: bool) -> None:
        scaler = StandardScaler()
        rows = scaler.fit_transform(XT)
        model = SVC().fit(rows, YT)
        model.predict(scaler.fit_transform(XV) if again else scaler.transform(XV))

    process, _ = watched(ADAPTER, lambda: train(again=True))
    [refitted] = of(process, TransformRefitted)
    assert (refitted.train_rows, refitted.eval_rows) == (250, 150)
    process, _ = watched(ADAPTER, lambda: train(again=False))
    assert of(process, TransformRefitted) == []


@pytest.mark.parametrize("supervised", [False, True])
def test_a_transformer_that_is_fitted_before_the_split(supervised: bool) -> None:
    def train(*, first: bool) -> None:
        made = SelectKBest(k=2) if supervised else StandardScaler()
        rows = made.fit_transform(X, Y) if first else X
        rows_train, rows_test, labels_train, labels_test = train_test_split(rows, Y, test_size=0.25)
        if not first:
            rows_train = made.fit_transform(rows_train, labels_train)
            rows_test = made.transform(rows_test)
        SVC().fit(rows_train, labels_train).score(rows_test, labels_test)

    process, _ = watched(ADAPTER, lambda: train(first=True))
    [one] = of(process, TransformRefitted)
    assert isinstance(one, TransformRefitted)
    assert (one.whole, one.supervised) == (True, supervised)
    assert one.train_rows + one.eval_rows == len(X)
    process, _ = watched(ADAPTER, lambda: train(first=False))
    assert of(process, TransformRefitted) == []


def test_a_scaler_that_is_fitted_before_the_split_and_thrown_away() -> None:
    def train() -> None:
        rows = StandardScaler().fit_transform(X)
        rows_train, rows_test, labels_train, labels_test = train_test_split(rows, Y, test_size=0.25)
        SVC().fit(rows_train, labels_train).score(rows_test, labels_test)

    process, _ = watched(ADAPTER, train)
    [one] = of(process, TransformRefitted)
    assert isinstance(one, TransformRefitted)
    assert one.whole


def test_a_pipeline_is_one_fit() -> None:
    def train() -> None:
        model = make_pipeline(StandardScaler(), SVC()).fit(XT, YT)
        accuracy_score(YV, model.predict(XV))

    process, _ = watched(ADAPTER, train)
    assert [one.estimator for one in of(process, EstimatorFitted)] == ["Pipeline"]
    assert [one.estimator for one in of(process, PredictionsCompared)] == ["Pipeline"]


def test_folds_are_fits() -> None:
    def train() -> None:
        cross_val_score(SVC(), X, Y, cv=KFold(4))

    process, _ = watched(ADAPTER, train)
    assert len(of(process, EstimatorFitted)) == 4
    assert [one.rows for one in of(process, PredictionsCompared)] == [100] * 4
    assert all(not one.shared for one in of(process, RowsShared))


def test_rounds_of_boosted_trees_are_steps() -> None:
    model = GradientBoostingRegressor(n_estimators=12, random_state=0)
    process, _ = watched(ADAPTER, lambda: (model.fit(XT, ZT), model.predict(XV)))
    assert losses(process) == pytest.approx(model.train_score_.tolist())
    [began] = of(process, BoostingBegan)
    assert (began.library, began.learning_rate, began.task) == ("sklearn", 0.1, "regression")
    assert len(of(process, TreesGrown)) == 12


def test_histogram_boosting_is_read_after_the_fit() -> None:
    model = HistGradientBoostingClassifier(max_iter=7, min_samples_leaf=300)
    process, _ = watched(ADAPTER, lambda: (model.fit(XT, YT), model.predict(XV)))
    assert [one.leaves for one in of(process, TreesGrown)] == [1.0] * 7


def test_a_fit_that_fails_is_no_fit() -> None:
    def train() -> None:
        with pytest.raises(ValueError, match="NaN"):
            LinearRegression().fit(np.full((300, 3), np.nan), ZT[:300].repeat(2)[:300])
        LinearRegression().fit(XT, ZT)

    process, _ = watched(ADAPTER, train)
    assert len(of(process, EstimatorFitted)) <= 1


def test_rows_on_a_coarse_grid_are_equal_by_chance() -> None:
    flowers = load_iris()
    x = StandardScaler().fit_transform(flowers.data[:, 2:])
    xt, xv, yt, yv = train_test_split(x, flowers.target, random_state=1, test_size=0.3)
    model = KNeighborsClassifier()
    process, _ = watched(ADAPTER, lambda: model.fit(xt, yt).score(xv, yv))
    [shared] = of(process, RowsShared)
    assert isinstance(shared, RowsShared)
    assert shared.shared > 5
    assert shared.expected_share > 0.1
    assert TrainEvalOverlap().check(window(shared)) == []


def test_parameters_are_numbers() -> None:
    model = SVC(C=1e-4, gamma="scale")
    process, _ = watched(ADAPTER, lambda: model.fit(XT, YT).score(XV, YV))
    [fitted] = of(process, EstimatorFitted)
    assert isinstance(fitted, EstimatorFitted)
    assert fitted.parameters["C"] == 1e-4
    assert "gamma" not in fitted.parameters
    assert "probability" not in fitted.parameters


@pytest.mark.parametrize("rows", [XT, XV])
def test_a_scaler_that_is_fitted_to_the_evaluation_rows_only(rows: np.ndarray) -> None:
    def train() -> Any:
        scaler = StandardScaler().fit(rows)
        model = KNeighborsClassifier().fit(scaler.transform(XT), YT)
        return model.score(scaler.transform(XV), YV)

    process, _ = watched(ADAPTER, train)
    found = of(process, TransformRefitted)
    assert len(found) == (rows is XV)
    for one in found:
        assert isinstance(one, TransformRefitted)
        assert (one.only, one.train_rows, one.eval_rows) == (True, 250, 150)
        [finding] = preprocessing_refitted().check(window(one))
        assert "fitted to the 150 rows that the model predicts" in finding.message
        assert finding.fixes[0].startswith("Fit the scaler to the training rows")


UNSCALED = X * [1.0, 1.0, 300.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("model", "found"),
    [
        (PCA(2), {"PCA"}),
        (PCA(4), set()),
        (PCA(), set()),
        (make_pipeline(StandardScaler(), PCA(2)), set()),
        (make_pipeline(PCA(2), StandardScaler()), {"PCA"}),
        (KMeans(2, n_init=1, random_state=0), {"KMeans"}),
        (make_pipeline(StandardScaler(), KMeans(2, n_init=1, random_state=0)), set()),
    ],
)
def test_columns_of_other_scales_mislead_a_transformer(model: Any, found: set[str]) -> None:
    def train() -> Any:
        rows = model.fit_transform(UNSCALED)
        return DecisionTreeClassifier(max_depth=2).fit(rows, Y)

    process, _ = watched(ADAPTER, train)
    named = [one for one in process.findings() if one.code == "DAT502"]
    assert {layer for one in named for layer in one.layers} == found
    assert all("test_whole_fits.py" in (one.location or "") for one in named)


def test_components_have_different_scales_and_are_no_fault() -> None:
    def train() -> Any:
        rows = PCA().fit_transform(X @ np.diag([40.0, 4.0, 1.0, 0.5, 0.1]))
        KMeans(2, n_init=1, random_state=0).fit(rows)
        return SVC().fit(rows, Y)

    process, _ = watched(ADAPTER, train)
    assert "DAT502" not in {one.code for one in process.findings()}
