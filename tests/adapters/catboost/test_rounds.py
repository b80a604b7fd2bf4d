"""CatBoost trains the same models with the adapter, and its rounds are recorded."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

catboost = pytest.importorskip("catboost")

from tests.adapters.boosted import losses, of, watched  # noqa: E402
from tests.adapters.catboost.data import X, Y, model_bytes, small, small_regressor  # noqa: E402

from mothtrap.adapters.catboost import ADAPTER  # noqa: E402
from mothtrap.core.facts.trees import (  # noqa: E402
    BoostingBegan,
    BoostingEnded,
    FeatureGains,
    ScoresSeen,
    TableSeen,
)
from mothtrap.core.steps import Mode  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402


def test_a_classifier_is_the_same_and_stops_at_the_same_round() -> None:
    def fit() -> catboost.CatBoostClassifier:
        model = small(iterations=300, learning_rate=0.5)
        return model.fit(X[:300], Y[:300], eval_set=(X[300:], Y[300:]), early_stopping_rounds=5)

    plain = fit()
    process, model = watched(ADAPTER, fit)
    assert model_bytes(model) == model_bytes(plain)
    assert isinstance(model, catboost.CatBoostClassifier)
    assert model.evals_result_ == plain.evals_result_
    assert losses(process) == plain.evals_result_["learn"]["Logloss"]
    assert losses(process, Mode.EVAL, "Logloss") == plain.evals_result_["validation"]["Logloss"]
    assert pickle.loads(pickle.dumps(model)).predict(X).tolist() == plain.predict(X).tolist()
    [began] = of(process, BoostingBegan)
    assert isinstance(began, BoostingBegan)
    assert (began.stops_after, began.learning_rate, began.max_depth) == (5, 0.5, 3)
    assert (began.task, began.train_site, began.call) == ("two_classes", "learn", "fit")
    assert began.keeps_best
    assert "test_rounds.py" in (began.location or "")
    [ended] = of(process, BoostingEnded)
    assert isinstance(ended, BoostingEnded)
    assert ended.best_round == plain.best_iteration_
    assert ended.rounds == len(process.steps()) == plain.best_iteration_ + 6


def test_labels_may_be_texts_and_columns_categories() -> None:
    rows = np.array([[f"c{int(v > 0)}", v] for v in X[:, 0]], dtype=object)
    texts = np.where(Y > 0, "yes", "no")

    def fit() -> catboost.CatBoostClassifier:
        model = small(iterations=10, eval_metric="AUC")
        pool = catboost.Pool(rows[:300], texts[:300], cat_features=[0])
        return model.fit(pool, eval_set=catboost.Pool(rows[300:], texts[300:], cat_features=[0]))

    plain = fit()
    process, model = watched(ADAPTER, fit)
    assert isinstance(model, catboost.CatBoostClassifier)
    assert model.predict(rows).tolist() == plain.predict(rows).tolist()
    table = of(process, TableSeen)[0]
    assert isinstance(table, TableSeen)
    assert table.label_counts == tuple(np.bincount(Y[:300]))
    scores = of(process, ScoresSeen)[-1]
    assert isinstance(scores, ScoresSeen)
    assert scores.accuracy == pytest.approx(
        float((plain.predict(rows[300:]) == texts[300:]).mean())
    )


def test_a_regressor_is_the_same_without_an_evaluation() -> None:
    def fit() -> catboost.CatBoostRegressor:
        return small_regressor(iterations=15).fit(X, X[:, 0] + X[:, 1])

    plain = fit()
    process, model = watched(ADAPTER, fit)
    assert model_bytes(model) == model_bytes(plain)
    assert len(losses(process)) == 15
    gains = of(process, FeatureGains)[-1]
    assert isinstance(gains, FeatureGains)
    assert set(gains.features[:2]) == {"0", "1"}


def test_callbacks_of_the_user_are_called_and_may_stop() -> None:
    called: list[int] = []

    class Stops:
        def after_iteration(self, info: object) -> bool:
            called.append(info.iteration)  # type: ignore[attr-defined]
            return info.iteration < 4  # type: ignore[attr-defined]

    process, _ = watched(ADAPTER, lambda: small(iterations=20).fit(X, Y, callbacks=[Stops()]))
    assert called == [1, 2, 3, 4]
    assert len(process.steps()) == 4


def test_a_stop_ends_the_training_after_the_round() -> None:
    process = Process("numpy")
    with process.watched(ADAPTER) as handle:

        class Asks:
            def after_iteration(self, info: object) -> bool:
                if info.iteration == 3:  # type: ignore[attr-defined]
                    assert handle.stop("asked")
                return True

        model = small(iterations=20).fit(X, Y, callbacks=[Asks()])
    assert model.tree_count_ == len(process.steps()) == 3


def test_only_trainings_of_what_is_watched_are_recorded() -> None:
    one, other = small(iterations=4), small(iterations=3)
    process, _ = watched(ADAPTER, lambda: (one.fit(X, Y), other.fit(X, Y)), other)
    assert len(process.steps()) == 3


def test_an_error_of_the_library_passes() -> None:
    def fails() -> None:
        with pytest.raises(catboost.CatBoostError):
            small(iterations=3, loss_function="Nothing").fit(X, Y)
        small(iterations=2).fit(X, Y)

    process, _ = watched(ADAPTER, fails)
    assert len(process.steps()) == 2


def test_the_best_rounds_are_kept_unless_the_script_says_otherwise() -> None:
    def keeps(**settings: object) -> bool:
        def fit() -> None:
            held_out = None if settings.pop("alone", False) else (X[300:], Y[300:])
            small(iterations=5, **settings).fit(X[:300], Y[:300], eval_set=held_out)

        process, _ = watched(ADAPTER, fit)
        [began] = of(process, BoostingBegan)
        assert isinstance(began, BoostingBegan)
        return began.keeps_best

    assert keeps()
    assert not keeps(use_best_model=False)
    assert not keeps(alone=True)


class Squared:
    """A custom objective, in the library's sign or the opposite one."""

    def __init__(self, sign: int) -> None:
        self.sign = sign

    def calc_ders_range(self, approxes: Any, targets: Any, weights: Any) -> list[Any]:
        return [(self.sign * (t - a), -1.0) for a, t in zip(approxes, targets, strict=True)]


@pytest.mark.filterwarnings("ignore:Failed to import numba")
@pytest.mark.parametrize(("sign", "right"), [(1, True), (-1, False)])
def test_predictions_of_a_custom_objective_are_compared_with_labels(sign: int, right: bool) -> None:
    def fit() -> catboost.CatBoostClassifier:
        model = small(iterations=8, loss_function=Squared(sign), eval_metric="AUC")
        return model.fit(X[:300], Y[:300])

    process, _ = watched(ADAPTER, fit)
    scores = of(process, ScoresSeen)[-1]
    assert isinstance(scores, ScoresSeen)
    assert scores.relation is not None
    assert (scores.relation > 0.3, scores.relation < -0.3) == (right, not right)
