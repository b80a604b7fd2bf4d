"""Values, trees and importance are recorded on request; each fold of `cv` has its own numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

xgboost = pytest.importorskip("xgboost")

from tests.adapters.boosted import of, watched  # noqa: E402
from tests.adapters.xgboost.tables import EVALS, PARAMS, TRAIN, X  # noqa: E402

import mothtrap  # noqa: E402
from mothtrap import Collection  # noqa: E402
from mothtrap.adapters.xgboost import ADAPTER  # noqa: E402
from mothtrap.adapters.xgboost.nodes import nodes  # noqa: E402
from mothtrap.core.facts.trees import BoostingBegan  # noqa: E402

ROUNDS = 8


def train() -> xgboost.Booster:
    return xgboost.train(PARAMS, TRAIN, ROUNDS, evals=EVALS, verbose_eval=False)


def test_values_are_those_of_the_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A collection named as in SageMaker Debugger has the same contents; the model is unchanged."""
    plain = train()
    asked = ("labels", "predictions", "full_shap", "average_shap")
    collections = {name: Collection(raw=True, every=ROUNDS - 1) for name in asked}
    with mothtrap.watch(
        TRAIN, name="values", runs_dir=str(tmp_path), collections=collections, overhead=0.0
    ) as dbg:
        booster = train()
    assert booster.save_raw("json") == plain.save_raw("json")
    assert dbg.path is not None
    run = mothtrap.open_run(dbg.path)
    last = ROUNDS - 1
    shap = run.tensor("shap:train").at(last)
    assert np.array_equal(shap, booster.predict(TRAIN, pred_contribs=True))
    assert list(run.tensor("shap:train").steps("train")) == [0, last]
    assert np.allclose(run.tensor("average_shap:train").at(last), shap.mean(axis=0), atol=1e-6)
    for data, name in EVALS:
        assert np.array_equal(run.tensor(f"prediction:{name}").at(last), booster.predict(data))
        assert np.array_equal(run.tensor(f"label:{name}").at(last), data.get_label())
    rows, columns = TRAIN.num_row(), TRAIN.num_col()
    told = [line for line in capsys.readouterr().err.splitlines() if "SHAP" in line]
    assert told
    assert f"SHAP values of {rows:,} rows x {columns:,} features take about" in told[0]


@pytest.mark.parametrize("objective", ["binary:logistic", "multi:softprob"])
def test_trees_and_importance_of_a_round_are_those_of_the_library(
    objective: str, tmp_path: Path
) -> None:
    pytest.importorskip("pandas")
    params = {**PARAMS, "objective": objective}
    if objective.startswith("multi:"):
        params["num_class"] = 3
    collections = {name: Collection(raw=True, every=3) for name in ("trees", "feature_importance")}
    with mothtrap.watch(
        TRAIN, name="nodes", runs_dir=str(tmp_path), collections=collections, overhead=0.0
    ) as dbg:
        booster = xgboost.train(params, TRAIN, ROUNDS)
    assert dbg.path is not None
    run = mothtrap.open_run(dbg.path)
    assert list(run.tensor("tree:gain").steps("train")) == [0, 3, 6]
    expected = booster[6:7].trees_to_dataframe()
    for column, theirs in (
        *(("tree", "Tree"), ("node", "Node"), ("split", "Split")),
        *(("gain", "Gain"), ("cover", "Cover")),
    ):
        seen = run.tensor(f"tree:{column}").at(6)
        assert np.allclose(seen, expected[theirs].astype(float), rtol=1e-6, equal_nan=True)
    features = [
        f"f{int(number)}" if number >= 0 else "Leaf" for number in run.tensor("tree:feature").at(6)
    ]
    assert features == expected["Feature"].tolist()
    tree = run.tensor("tree:tree").at(6)
    for below in ("yes", "no", "missing"):
        named = [
            f"{int(number)}-{int(node)}" if node >= 0 else None
            for number, node in zip(tree, run.tensor(f"tree:{below}").at(6), strict=True)
        ]
        theirs_below = expected[below.capitalize()]
        assert named == [name if isinstance(name, str) else None for name in theirs_below]
    for kind in ("weight", "gain", "cover", "total_gain", "total_cover"):
        score = booster[:7].get_score(importance_type=kind)
        values = [score.get(f"f{number}", 0.0) for number in range(TRAIN.num_col())]
        assert np.allclose(run.tensor(f"importance:{kind}").at(6), values, rtol=1e-5)


def test_trees_of_several_outputs_and_of_categories_have_what_the_library_tells() -> None:
    labels = np.stack([X[:, 0], X[:, 1] + X[:, 2]], axis=1)
    several = xgboost.train(
        {"multi_strategy": "multi_output_tree", "max_depth": 2, "nthread": 1},
        xgboost.DMatrix(X, labels),
        2,
    )
    columns = nodes(several, 1)
    leaves = columns["feature"] < 0
    assert leaves.any()
    assert not np.isnan(columns["split"][~leaves]).any()
    assert np.isnan(columns["gain"]).all()
    codes = np.repeat(np.arange(4.0), 100)
    table = xgboost.DMatrix(codes[:, None], codes % 2, feature_types=["c"], enable_categorical=True)
    grown = xgboost.train({"max_cat_to_onehot": 1, "nthread": 1}, table, 1)
    root = {name: column[0] for name, column in nodes(grown, 0).items()}
    assert (root["feature"], np.isnan(root["split"]), root["cover"]) == (0, True, 400)


def test_hyperparameters_are_those_of_the_library() -> None:
    process, booster = watched(ADAPTER, train)
    [began] = of(process, BoostingBegan)
    assert isinstance(began, BoostingBegan)
    assert isinstance(booster, xgboost.Booster)
    config = booster.save_config()
    for name, value in {"max_depth": "3", "subsample": "0.800000012", "reg_lambda": "1"}.items():
        assert began.parameters[name] == value
        assert f'"{name}":"{value}"' in config
    assert {name for name in PARAMS if name in ("objective", "nthread")} <= set(began.parameters)


def test_nothing_is_predicted_unasked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(*_: object, **words: object) -> None:
        assert "pred_contribs" not in words

    real = xgboost.Booster.predict
    monkeypatch.setattr(
        xgboost.Booster, "predict", lambda *a, **k: (fails(*a, **k), real(*a, **k))[1]
    )
    with mothtrap.watch(
        TRAIN, name="unasked", runs_dir=str(tmp_path), capture="everything", overhead=0.0
    ) as dbg:
        train()
    assert dbg.path is not None
    names = [str(name) for name in mothtrap.open_run(dbg.path).tensors()]
    unasked = ("shap", "prediction", "label", "importance", "tree")
    assert not [name for name in names if name.startswith(unasked)]


def test_folds_are_a_group_in_one_run() -> None:
    process, history = watched(
        ADAPTER,
        lambda: xgboost.cv(PARAMS, TRAIN, 5, nfold=3, seed=1, as_pandas=False),
    )
    metric = next(name for name in history if name.startswith("test-") and name.endswith("-mean"))
    name = "test." + metric.removeprefix("test-").removesuffix("-mean")
    by_fold: dict[str, list[float]] = {}
    for record in process.records:
        for scalar in record.scalars:
            if scalar.name == name:
                by_fold.setdefault(scalar.of.rpartition(" ")[2], []).append(scalar.value)
    assert sorted(by_fold) == ["0", "1", "2"]
    means = np.mean([by_fold[fold] for fold in sorted(by_fold)], axis=0)
    assert np.allclose(means, history[metric])
    assert len(set(map(tuple, by_fold.values()))) == 3
