"""LightGBM trains the same models with the adapter, and its rounds are recorded."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest

lightgbm = pytest.importorskip("lightgbm")
sklearn_base = pytest.importorskip("sklearn.base")

from tests.adapters.boosted import losses, of, watched  # noqa: E402
from tests.adapters.lightgbm.data import PARAMS, X, Y  # noqa: E402

from mothtrap.adapters.lightgbm import ADAPTER  # noqa: E402
from mothtrap.core.facts.evaluations import Evaluation  # noqa: E402
from mothtrap.core.facts.trees import (  # noqa: E402
    BoostingBegan,
    BoostingEnded,
    FeatureGains,
    GradientsGiven,
    ScoresSeen,
    TableSeen,
    TreesGrown,
)
from mothtrap.core.steps import Mode  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

OBJECTIVES = {
    "binary": Y,
    "regression": X[:, 0] + X[:, 1],
    "multiclass": (X[:, 0] > 0).astype(int) + Y,
    "poisson": np.abs(np.round(X[:, 0])),
    "lambdarank": Y,
}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_model_is_the_same_text_whatever_its_objective(objective: str) -> None:
    params = {**PARAMS, "objective": objective}
    if objective == "multiclass":
        params["num_class"] = 3

    def train() -> str:
        group = [100, 100, 200] if objective == "lambdarank" else None
        table = lightgbm.Dataset(X, OBJECTIVES[objective], group=group)
        return lightgbm.train(params, table, 12, valid_sets=[table]).model_to_string()

    plain = train()
    process, found = watched(ADAPTER, train)
    assert found == plain
    assert [step for step, _ in process.steps()] == list(range(12))


@pytest.mark.parametrize("boosting", ["dart", "rf"])
def test_a_model_is_the_same_text_whatever_its_boosting(boosting: str) -> None:
    def train() -> str:
        table = lightgbm.Dataset(X, Y)
        valid = lightgbm.Dataset(X[::2], Y[::2], reference=table)
        params = {**PARAMS, "boosting": boosting}
        return lightgbm.train(params, table, 12, valid_sets=[valid]).model_to_string()

    plain = train()
    _, found = watched(ADAPTER, train)
    assert found == plain


@pytest.mark.filterwarnings("ignore:The argument 'eval_set'")
def test_an_estimator_is_the_same_and_stops_at_the_same_round() -> None:
    def fit() -> lightgbm.LGBMClassifier:
        model = lightgbm.LGBMClassifier(n_estimators=200, n_jobs=1, verbose=-1)
        stop = lightgbm.early_stopping(5, verbose=False)
        return model.fit(X[:300], Y[:300], eval_set=[(X[300:], Y[300:])], callbacks=[stop])

    plain = fit()
    process, model = watched(ADAPTER, fit)
    assert isinstance(model, lightgbm.LGBMClassifier)
    assert model.best_iteration_ == plain.best_iteration_
    assert model.booster_.model_to_string() == plain.booster_.model_to_string()
    assert model.evals_result_ == plain.evals_result_
    assert len(process.steps()) == model.best_iteration_ + 5
    assert pickle.loads(pickle.dumps(model)).predict(X).tolist() == plain.predict(X).tolist()
    assert sklearn_base.clone(model).get_params() == plain.get_params()
    [began] = of(process, BoostingBegan)
    assert isinstance(began, BoostingBegan)
    assert (began.call, began.stops_after) == ("fit", 5)
    assert (began.stops_on, began.stops_rising) == ("valid_0/binary_logloss", False)
    assert (began.task, began.library, began.rounds_asked) == ("two_classes", "lightgbm", 200)
    assert "test_rounds.py" in (began.location or "")
    [ended] = of(process, BoostingEnded)
    assert isinstance(ended, BoostingEnded)
    assert len(process.steps()) == ended.rounds
    assert of(process, ScoresSeen)[-1].last  # type: ignore[attr-defined]


def test_gains_are_of_all_trees_where_early_stopping_took_the_first() -> None:
    """A leak that the first tree did not use was taken for one that was over."""

    def train() -> lightgbm.Booster:
        table = lightgbm.Dataset(X[:300], Y[:300])
        valid = lightgbm.Dataset(X[300:], 1 - Y[300:], reference=table)
        stop = lightgbm.early_stopping(5, verbose=False)
        return lightgbm.train(
            PARAMS, table, 50, valid_sets=[valid], callbacks=[stop], keep_training_booster=True
        )

    process, booster = watched(ADAPTER, train)
    assert isinstance(booster, lightgbm.Booster)
    assert booster.best_iteration < booster.num_trees()
    gains = of(process, FeatureGains)[-1]
    assert isinstance(gains, FeatureGains)
    every = booster.feature_importance("gain", iteration=0)
    assert gains.shares[0] == pytest.approx(max(every) / sum(every))


def test_cross_validation_is_the_same_and_reports_means() -> None:
    def cv() -> dict[str, list[float]]:
        return lightgbm.cv(PARAMS, lightgbm.Dataset(X, Y), 6, nfold=3, eval_train_metric=True)

    plain = cv()
    process, found = watched(ADAPTER, cv)
    assert found == plain
    assert losses(process) == plain["train binary_logloss-mean"]
    assert losses(process, Mode.EVAL, "binary_logloss") == plain["valid binary_logloss-mean"]


def test_rounds_are_described() -> None:
    def train() -> lightgbm.Booster:
        rows = X.copy()
        rows[:, 4] = 2.5
        train = lightgbm.Dataset(rows[:300], Y[:300])
        valid = lightgbm.Dataset(rows[250:], Y[250:], reference=train)
        return lightgbm.train(PARAMS, train, 20, valid_sets=[valid])

    process, booster = watched(ADAPTER, train)
    assert isinstance(booster, lightgbm.Booster)
    grown = of(process, TreesGrown)
    assert [tree.round for tree in grown] == [*range(10), 10]  # type: ignore[attr-defined]
    first = booster.dump_model(num_iteration=1)["tree_info"][0]
    assert grown[0].leaves == first["num_leaves"]  # type: ignore[attr-defined]
    gains = of(process, FeatureGains)[-1]
    assert isinstance(gains, FeatureGains)
    gain = booster.feature_importance("gain")
    assert gains.shares[0] == pytest.approx(gain.max() / gain.sum())
    table, _ = of(process, TableSeen)
    assert isinstance(table, TableSeen)
    assert (table.rows, table.columns, table.constant) == (300, 5, ("Column_4",))
    assert table.label_counts == tuple(np.bincount(Y[:300]))
    scores = of(process, ScoresSeen)[-1]
    assert isinstance(scores, ScoresSeen)
    expected = (booster.predict(X[250:] * [1, 1, 1, 1, 0] + [0, 0, 0, 0, 2.5]) > 0.5).astype(int)
    right = int((expected == Y[250:]).sum())
    assert sum(scores.confusion[k][k] for k in range(2)) == right


def test_a_loop_of_the_scripts_own_is_seen() -> None:
    def loop() -> str:
        train = lightgbm.Dataset(X[:300], Y[:300])
        booster = lightgbm.Booster(PARAMS, train)
        booster.add_valid(lightgbm.Dataset(X[300:], Y[300:], reference=train), "valid")
        for _ in range(6):
            booster.update()
            booster.eval_valid()
        return booster.model_to_string()

    plain = loop()
    process, found = watched(ADAPTER, loop)
    assert found == plain
    assert len(process.steps()) == len(of(process, Evaluation)) == 6


def test_callbacks_of_the_user_are_kept_in_order() -> None:
    def train(called: list[str]) -> None:
        def first(env: object) -> None:
            called.append("first")

        def second(env: object) -> None:
            called.append("second")

        given: list[Callable[[object], None]] = [first, second]
        table = lightgbm.Dataset(X, Y)
        lightgbm.train(PARAMS, table, 3, callbacks=given)
        assert given == [first, second]

    called: list[str] = []
    watched(ADAPTER, lambda: train(called))
    assert called == ["first", "second"] * 3


def test_a_stop_ends_the_loop_after_the_round() -> None:
    process = Process("numpy")
    with process.watched(ADAPTER) as handle:

        def asks(env: lightgbm.callback.CallbackEnv) -> None:
            if env.iteration == 2:
                assert handle.stop("asked")

        table = lightgbm.Dataset(X, Y)
        booster = lightgbm.train(PARAMS, table, 10, callbacks=[asks])
    assert booster.num_trees() == len(process.steps()) == 3


def test_only_trainings_on_what_is_watched_are_recorded() -> None:
    one, other = (lightgbm.Dataset(X, Y) for _ in range(2))

    def both() -> None:
        lightgbm.train(PARAMS, one, 4)
        lightgbm.train(PARAMS, other, 3)

    process, _ = watched(ADAPTER, both, other)
    assert len(process.steps()) == 3


def test_an_error_of_the_library_passes() -> None:
    def fails() -> None:
        with pytest.raises(lightgbm.basic.LightGBMError):
            lightgbm.train({**PARAMS, "objective": "nothing"}, lightgbm.Dataset(X, Y), 3)
        with pytest.raises(TypeError, match="unexpected"):
            lightgbm.train(PARAMS, lightgbm.Dataset(X, Y), 3, unknown=1)
        lightgbm.train(PARAMS, lightgbm.Dataset(X, Y), 2)

    process, _ = watched(ADAPTER, fails)
    assert len(process.steps()) == 2


def test_an_objective_that_is_not_given_is_the_default() -> None:
    def fit(**more: object) -> lightgbm.Booster:
        given = {"verbose": -1, "num_leaves": 4, "metric": ["l1", "l2"], **more}
        train = lightgbm.Dataset(X[:300], X[:300, 0])
        valid = train.create_valid(X[300:], X[300:, 0])
        return lightgbm.train(given, train, 3, valid_sets=[valid])

    def squared(predicted: np.ndarray, data: lightgbm.Dataset) -> tuple[np.ndarray, np.ndarray]:
        return predicted - data.get_label(), np.ones_like(predicted)

    process, _ = watched(ADAPTER, fit)
    [began] = of(process, BoostingBegan)
    assert isinstance(began, BoostingBegan)
    assert began.objective == "regression"
    process, _ = watched(ADAPTER, lambda: fit(objective=squared))
    [began] = of(process, BoostingBegan)
    assert isinstance(began, BoostingBegan)
    assert began.objective == "custom"


def test_a_parameter_that_the_library_does_not_know_is_recorded() -> None:
    def fit(**more: object) -> object:
        model = lightgbm.LGBMRegressor(n_estimators=2, n_jobs=1, verbose=-1, **more)
        return model.fit(X, X[:, 0])

    for more, ignored in (
        ({"min_child_sample": 40}, {"min_child_sample": "min_child_samples"}),
        ({"min_child_samples": 40, "own_note": 3}, {}),
    ):
        process, _ = watched(ADAPTER, lambda more=more: fit(**more))
        [began] = of(process, BoostingBegan)
        assert isinstance(began, BoostingBegan)
        assert began.ignored == ignored
    table = lightgbm.Dataset(X, Y)
    process, _ = watched(ADAPTER, lambda: lightgbm.train({**PARAMS, "feature_fracton": 0.5}, table))
    [began] = of(process, BoostingBegan)
    assert isinstance(began, BoostingBegan)
    assert began.ignored == {"feature_fracton": "feature_fraction"}


@pytest.mark.parametrize(("order", "by_row", "by_class"), [("C", True, False), ("F", False, True)])
def test_the_order_of_a_flat_gradient_of_classes(order: str, by_row: bool, by_class: bool) -> None:
    label = (X[:, 0] > 0).astype(int) + Y

    def softmax(scores: np.ndarray, table: object) -> tuple[np.ndarray, np.ndarray]:
        share = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        gradient = share - np.eye(3)[label]
        return gradient.ravel(order=order), (share * (1 - share)).ravel(order=order)

    params = {"objective": softmax, "num_class": 3, "num_threads": 1, "verbose": -1}
    table = lightgbm.Dataset(X, label)
    process, _ = watched(ADAPTER, lambda: lightgbm.train(params, table, 2))
    [seen] = of(process, GradientsGiven)
    assert isinstance(seen, GradientsGiven)
    assert (seen.by_row == 1, seen.by_class == 1) == (by_row, by_class)
    assert seen.rows == len(X)


def test_gradients_belong_to_the_fit_of_an_estimator() -> None:
    def squared(label: np.ndarray, predicted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return predicted - label, np.ones_like(label)

    model = lightgbm.LGBMRegressor(objective=squared, n_estimators=2, n_jobs=1, verbose=-1)
    process, _ = watched(ADAPTER, lambda: model.fit(X, Y))
    [seen] = of(process, GradientsGiven)
    [began] = of(process, BoostingBegan)
    assert isinstance(seen, GradientsGiven)
    assert isinstance(began, BoostingBegan)
    assert seen.fit == began.fit
