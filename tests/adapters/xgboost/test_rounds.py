"""XGBoost trains the same models with the adapter, and its rounds are recorded."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest

xgboost = pytest.importorskip("xgboost")
sklearn_base = pytest.importorskip("sklearn.base")

from tests.adapters.xgboost.tables import EVALS, PARAMS, TRAIN, VALID, X, Y  # noqa: E402

from mothtrap.adapters.xgboost import ADAPTER  # noqa: E402
from mothtrap.core.adapters import Handle, Job  # noqa: E402
from mothtrap.core.fact import Fact  # noqa: E402
from mothtrap.core.facts.captures import Blind  # noqa: E402
from mothtrap.core.facts.data import RowsShared  # noqa: E402
from mothtrap.core.facts.evaluations import Evaluation, EvaluationMetrics  # noqa: E402
from mothtrap.core.facts.looks import Cannot  # noqa: E402
from mothtrap.core.facts.trees import (  # noqa: E402
    BoostingBegan,
    BoostingEnded,
    FeatureGains,
    TableSeen,
    TreesGrown,
)
from mothtrap.core.findings import Severity  # noqa: E402
from mothtrap.core.steps import Mode  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

QUIET = {"verbose_eval": False}
OBJECTIVES = {
    "binary:logistic": Y,
    "reg:squarederror": X[:, 0] + X[:, 1],
    "multi:softprob": (X[:, 0] > 0).astype(int) + Y,
    "count:poisson": np.abs(np.round(X[:, 0])),
    "rank:ndcg": Y,
}


def watched(train: Callable[[], object], *targets: object) -> tuple[Process, object]:
    process = Process("numpy")

    def begin(job: Job) -> Handle:
        return ADAPTER.attach(job, targets)

    with process.watched(ADAPTER, begin):
        result = train()
    assert not [line for line in process.said if "failed" in line], process.said
    return process, result


def of(process: Process, kind: type[Fact]) -> list[Fact]:
    return [fact for fact in process.facts() if isinstance(fact, kind)]


def losses(process: Process, mode: Mode = Mode.TRAIN, name: str = "loss") -> list[float]:
    return [
        scalar.value
        for record in process.records
        if record.key.mode is mode
        for scalar in record.scalars
        if scalar.name == name
    ]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_model_is_the_same_bytes_whatever_its_objective(objective: str) -> None:
    label = OBJECTIVES[objective]
    params = {**PARAMS, "objective": objective}
    if objective.startswith("multi:"):
        params["num_class"] = 3

    def train() -> bytes:
        table = xgboost.DMatrix(X, label)
        if objective.startswith("rank:"):
            table.set_group([100, 100, 200])
        evals = [(table, "train")]
        return bytes(xgboost.train(params, table, 12, evals=evals, **QUIET).save_raw("json"))

    plain = train()
    process, found = watched(train)
    assert found == plain
    assert [step for step, _ in process.steps()] == list(range(12))


@pytest.mark.parametrize("booster", ["gbtree", "dart", "gblinear"])
def test_a_model_is_the_same_bytes_whatever_its_booster(booster: str) -> None:
    params = {"objective": "binary:logistic", "booster": booster, "nthread": 1}
    if booster == "gblinear":
        params["updater"] = "coord_descent"

    def train() -> bytes:
        return bytes(xgboost.train(params, TRAIN, 12, evals=EVALS, **QUIET).save_raw("json"))

    plain = train()
    process, found = watched(train)
    assert found == plain
    assert bool(of(process, TreesGrown)) == (booster != "gblinear")
    lacking = {tag for cannot in of(process, Cannot) for tag in cannot.facts}
    assert ("TreesGrown" in lacking) == (booster == "gblinear")


def test_an_estimator_is_the_same_and_stops_at_the_same_round() -> None:
    def fit() -> xgboost.XGBClassifier:
        model = xgboost.XGBClassifier(n_estimators=200, n_jobs=1, early_stopping_rounds=5)
        return model.fit(X[:300], Y[:300], eval_set=[(X[300:], Y[300:])], verbose=False)

    plain = fit()
    process, model = watched(fit)
    assert isinstance(model, xgboost.XGBClassifier)
    assert model.best_iteration == plain.best_iteration
    assert model.get_booster().save_raw("json") == plain.get_booster().save_raw("json")
    assert model.evals_result() == plain.evals_result()
    assert len(process.steps()) == model.best_iteration + 6
    assert pickle.loads(pickle.dumps(model)).predict(X).tolist() == plain.predict(X).tolist()
    assert sklearn_base.clone(model).get_params() == plain.get_params()
    [began] = of(process, BoostingBegan)
    assert isinstance(began, BoostingBegan)
    assert (began.call, began.stops_after, began.stops_on) == ("fit", 5, "validation_0/logloss")
    assert "test_rounds.py" in (began.location or "")
    [ended] = of(process, BoostingEnded)
    assert isinstance(ended, BoostingEnded)
    assert ended.best_round == model.best_iteration


def test_cross_validation_is_the_same_and_reports_means() -> None:
    def cv() -> object:
        return xgboost.cv(PARAMS, TRAIN, 6, nfold=3, seed=1, as_pandas=False)

    plain = cv()
    process, found = watched(cv)
    assert found == plain
    assert isinstance(found, dict)
    assert losses(process) == found["train-logloss-mean"]
    assert losses(process, Mode.EVAL, "logloss") == found["test-logloss-mean"]


def test_callbacks_of_the_user_are_kept_in_order() -> None:
    called: list[str] = []

    class Says(xgboost.callback.TrainingCallback):
        def __init__(self, name: str) -> None:
            self.name = name

        def after_iteration(self, model, epoch, evals_log) -> bool:
            called.append(self.name)
            return epoch == 3 and self.name == "b"

    given = [Says("b"), Says("a")]
    process, _ = watched(
        lambda: xgboost.train(PARAMS, TRAIN, 10, evals=EVALS, callbacks=given, **QUIET)
    )
    assert called == ["b", "a"] * 3 + ["b"]
    assert [callback.name for callback in given] == ["b", "a"]
    assert len(process.steps()) == 4


def test_losses_and_metrics_are_those_of_the_library() -> None:
    result: dict = {}
    params = {**PARAMS, "eval_metric": ["auc", "logloss"]}
    process, _ = watched(
        lambda: xgboost.train(params, TRAIN, 8, evals=EVALS, evals_result=result, **QUIET)
    )
    assert losses(process) == result["train"]["logloss"]
    assert losses(process, Mode.EVAL, "auc") == result["valid"]["auc"]
    [metrics] = of(process, EvaluationMetrics)
    assert isinstance(metrics, EvaluationMetrics)
    assert (metrics.loss, metrics.higher_is_better) == ("logloss", ("auc",))
    evaluations = of(process, Evaluation)
    assert [e.value for e in evaluations] == result["valid"]["logloss"]
    assert list(evaluations[3].train_losses.values()) == [
        pytest.approx(result["train"]["logloss"][3])
    ]


def test_without_evals_nothing_is_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    def predicts(*_: object, **__: object) -> None:
        raise AssertionError("a prediction that the library does not make")

    monkeypatch.setattr(xgboost.Booster, "predict", predicts)
    monkeypatch.setattr(xgboost.Booster, "inplace_predict", predicts)
    process, _ = watched(lambda: xgboost.train(PARAMS, TRAIN, 8))
    assert losses(process) == []
    assert [blind.reason for blind in of(process, Blind) if "no evals" in blind.reason]
    lacking = {tag for cannot in of(process, Cannot) for tag in cannot.scalars + cannot.facts}
    assert {"loss", "Evaluation"} <= lacking
    assert len(process.steps()) == 8


def test_trees_gains_and_tables_are_described() -> None:
    rows = X.copy()
    rows[:, 4] = 2.5

    def train() -> xgboost.Booster:
        train = xgboost.DMatrix(rows[:300], Y[:300])
        valid = xgboost.DMatrix(rows[250:], Y[250:])
        return xgboost.train(PARAMS, train, 20, evals=[(valid, "valid")], **QUIET)

    process, booster = watched(train)
    assert isinstance(booster, xgboost.Booster)
    grown = of(process, TreesGrown)
    assert [tree.round for tree in grown] == [*range(10), 10]
    first = booster[:1].get_dump()[0]
    assert grown[0].leaves == first.count("leaf=")
    assert grown[0].depth == 3
    gains = of(process, FeatureGains)[-1]
    assert isinstance(gains, FeatureGains)
    assert sum(gains.shares) == pytest.approx(1)
    assert gains.features[0] in {"f0", "f1", "f2"}
    table, held_out = of(process, TableSeen)
    assert isinstance(table, TableSeen)
    assert (table.rows, table.columns, table.site, table.constant) == (300, 5, "", ("f4",))
    assert table.missing_share == pytest.approx(1 / 1500)
    assert table.label_counts == tuple(np.bincount(Y[:300]))
    assert held_out.site == "valid"
    [shared] = of(process, RowsShared)
    assert isinstance(shared, RowsShared)
    assert (shared.shared, shared.eval_rows) == (50, 150)


@pytest.mark.parametrize("swapped", [True, False])
def test_bounds_of_labels_are_compared(swapped: bool) -> None:
    lower = np.abs(X[:, 0])
    upper = np.where(Y == 1, np.inf, lower)

    def train() -> None:
        table = xgboost.DMatrix(X)
        table.set_float_info("label_lower_bound", upper if swapped else lower)
        table.set_float_info("label_upper_bound", lower if swapped else upper)
        xgboost.train({"objective": "survival:aft"}, table, 2, **QUIET)

    process, _ = watched(train)
    [table] = of(process, TableSeen)
    assert isinstance(table, TableSeen)
    assert table.reversed_bounds == swapped * int((Y == 1).sum())
    found = [one for one in process.findings() if one.code == "TRE907"]
    assert [one.severity for one in found] == [Severity.ERROR] * swapped


def test_tables_made_before_are_described_alike() -> None:
    rows = np.where(X[:, :4] > 2, np.nan, X[:, :4])
    rows[:, 1] = 0.0

    def tables() -> list:
        train, valid = xgboost.DMatrix(rows, Y), xgboost.DMatrix(rows[::4], Y[::4])
        return [train, [(valid, "valid")]]

    before = tables()
    for make in (lambda: before, tables):

        def train(make: Callable[[], list] = make) -> None:
            made, evals = make()
            xgboost.train(PARAMS, made, 2, evals=evals, **QUIET)

        process, _ = watched(train)
        [shared] = of(process, RowsShared)
        assert isinstance(shared, RowsShared)
        assert (shared.shared, shared.eval_rows) == (100, 100)
        assert [table.constant for table in of(process, TableSeen)] == [("f1",)] * 2


def test_the_training_data_are_told_from_another_table_of_their_rows() -> None:
    """A file that is loaded twice, for example; the evaluation is reported as one of other rows."""

    def train() -> None:
        train, again = (xgboost.DMatrix(X[:300], Y[:300]) for _ in range(2))
        evals = [(again, "eval"), (train, "train")]
        xgboost.train(PARAMS, train, 2, evals=evals, **QUIET)

    process, _ = watched(train)
    [began] = of(process, BoostingBegan)
    assert isinstance(began, BoostingBegan)
    assert began.train_site == "train"
    [shared] = of(process, RowsShared)
    assert isinstance(shared, RowsShared)
    assert (shared.source, shared.shared) == ("eval", 300)
    found = [(one.name, one.severity) for one in process.findings()]
    assert ("evaluated_on_training", Severity.WARNING) in found


def test_a_loop_of_the_scripts_own_is_seen() -> None:
    def loop() -> bytes:
        booster = xgboost.Booster(PARAMS, [TRAIN, VALID])
        for number in range(6):
            booster.update(TRAIN, number)
            booster.eval_set(EVALS, number)
        return bytes(booster.save_raw("json"))

    plain = loop()
    process, found = watched(loop)
    assert found == plain
    assert len(process.steps()) == 6
    assert len(losses(process)) == len(of(process, Evaluation)) == 6


def test_an_objective_of_the_users_is_called_so() -> None:
    def squared(predicted: np.ndarray, table: xgboost.DMatrix) -> tuple[np.ndarray, np.ndarray]:
        return predicted - table.get_label(), np.ones_like(predicted)

    process, _ = watched(lambda: xgboost.train({"nthread": 1}, TRAIN, 5, obj=squared))
    [began] = of(process, BoostingBegan)
    assert isinstance(began, BoostingBegan)
    assert began.objective == "custom"
    assert len(process.steps()) == 5


def test_only_trainings_on_what_is_watched_are_recorded() -> None:
    def both() -> None:
        xgboost.train(PARAMS, VALID, 4, evals=EVALS, **QUIET)
        xgboost.train(PARAMS, TRAIN, 3, evals=EVALS, **QUIET)

    process, _ = watched(both, TRAIN)
    assert len(process.steps()) == 3


def test_only_the_estimator_that_is_watched_is_recorded() -> None:
    one, other = (xgboost.XGBRegressor(n_estimators=n, n_jobs=1) for n in (3, 5))
    process, _ = watched(lambda: (one.fit(X, Y), other.fit(X, Y)), other)
    assert len(process.steps()) == 5


def test_a_stop_ends_the_loop_after_the_round() -> None:
    process = Process("numpy")
    with process.watched(ADAPTER) as handle:

        class Asks(xgboost.callback.TrainingCallback):
            def after_iteration(self, model, epoch, evals_log) -> bool:
                if epoch == 2:
                    assert handle.stop("asked")
                return False

        booster = xgboost.train(PARAMS, TRAIN, 10, callbacks=[Asks()])
    assert booster.num_boosted_rounds() == len(process.steps()) == 3


def test_an_error_of_the_library_passes_and_the_next_training_is_seen() -> None:
    def fails_then_trains() -> None:
        bad = xgboost.DMatrix(X, np.full(len(X), 3.0))
        with pytest.raises(xgboost.core.XGBoostError, match="logistic loss"):
            xgboost.train(PARAMS, bad, 5)
        xgboost.train(PARAMS, TRAIN, 4)

    process, _ = watched(fails_then_trains)
    assert len(process.steps()) == 4
