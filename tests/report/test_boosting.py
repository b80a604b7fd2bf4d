"""Boosted models in numbers: each part of SageMaker Debugger's XGBoost report has its data here."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

xgboost = pytest.importorskip("xgboost")
metrics = pytest.importorskip("sklearn.metrics")

import mothtrap  # noqa: E402
from mothtrap.core import jsonable  # noqa: E402
from mothtrap.core.steps import Mode  # noqa: E402
from mothtrap.monitor.catalogue import explains, rule_classes  # noqa: E402
from mothtrap.reader.run import Run, open_run  # noqa: E402
from mothtrap.report.boosting import BoostedModel, boosting_lines  # noqa: E402
from mothtrap.report.boosting_page import section  # noqa: E402
from mothtrap.report.document import gather  # noqa: E402
from mothtrap.report.html import page  # noqa: E402
from mothtrap.report.style import PLAIN  # noqa: E402
from mothtrap.report.summary import summarize  # noqa: E402

_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(600, 5)).astype(np.float32)
Y = (X[:, 0] * X[:, 1] + X[:, 2] + _RNG.normal(scale=0.5, size=600) > 0).astype(int)


def trained(folder: Path, label: np.ndarray, objective: str) -> tuple[Run, xgboost.Booster]:
    train, valid = xgboost.DMatrix(X[:400], label[:400]), xgboost.DMatrix(X[400:], label[400:])
    params = {"objective": objective, "max_depth": 3, "nthread": 1}
    with mothtrap.watch(train, name="seen", runs_dir=str(folder), overhead=0.0) as dbg:
        evals = [(train, "train"), (valid, "valid")]
        booster = xgboost.train(params, train, 16, evals=evals, verbose_eval=False)
    assert dbg.path is not None
    return open_run(dbg.path), booster


def model_of(run: Run) -> BoostedModel:
    [model] = summarize(run, explains(rule_classes())).boosted
    return model


def test_a_classifier_has_labels_importance_confusion_and_roc(tmp_path: Path) -> None:
    run, booster = trained(tmp_path, Y, "binary:logistic")
    model = model_of(run)
    assert (model.library, model.rounds, model.best_round) == ("xgboost", 16, None)
    assert list(model.labels.values()) == np.bincount(Y[:400]).tolist()
    for kind in ("weight", "gain", "cover"):
        assert model.importance[kind] == pytest.approx(booster.get_score(importance_type=kind))
    held_out = model.scores["valid"]
    assert [one.rounds for one in held_out] == [1, 2, 4, 8, 16, 16]
    predicted = booster.predict(xgboost.DMatrix(X[400:]))
    chosen, last = (predicted > 0.5).astype(int), held_out[-1]
    assert np.array_equal(last.confusion, metrics.confusion_matrix(Y[400:], chosen))
    assert last.auc == pytest.approx(metrics.roc_auc_score(Y[400:], predicted))
    assert last.roc[-1] == (1.0, 1.0)
    for average in ("macro", "weighted"):
        expected = metrics.precision_recall_fscore_support(Y[400:], chosen, average=average)
        assert tuple(getattr(last, average).values()) == pytest.approx(expected[:3])
    assert last.accuracy == pytest.approx(metrics.accuracy_score(Y[400:], chosen))
    micro = metrics.precision_recall_fscore_support(Y[400:], chosen, average="micro")
    assert micro[:3] == pytest.approx((last.accuracy,) * 3)


def test_importance_has_every_kind_of_the_library(tmp_path: Path) -> None:
    run, booster = trained(tmp_path, Y, "binary:logistic")
    found = model_of(run).importance
    assert list(found) == ["weight", "gain", "cover", "total_gain", "total_cover"]
    for kind, values in found.items():
        assert values == pytest.approx(booster.get_score(importance_type=kind))


def test_accuracy_by_class_is_told_over_the_rounds(tmp_path: Path) -> None:
    run, booster = trained(tmp_path, Y, "binary:logistic")
    table = xgboost.DMatrix(X[400:])
    for scored in model_of(run).scores["valid"]:
        chosen = booster.predict(table, iteration_range=(0, scored.rounds)) > 0.5
        right = metrics.recall_score(Y[400:], chosen, average=None)
        assert scored.recall == pytest.approx(right.tolist())


def test_the_roc_is_that_of_the_predictions(tmp_path: Path) -> None:
    run, booster = trained(tmp_path, Y, "binary:logistic")
    false, true, _ = metrics.roc_curve(Y[400:], booster.predict(xgboost.DMatrix(X[400:])))
    roc = np.array(model_of(run).scores["valid"][-1].roc)
    assert len(roc) <= 101
    for x, y in roc:  # a step of the curve may be met at either of its ends
        assert (
            np.interp(x - 1e-9, false, true) - 1e-6 <= y <= np.interp(x + 1e-9, false, true) + 1e-6
        )


def test_losses_are_told_by_round_and_drawn(tmp_path: Path) -> None:
    run, booster = trained(tmp_path, Y, "binary:logistic")
    train, held_out = gather(run, summarize(run, explains(rule_classes()))).losses
    assert (train.name, train.mode, held_out.name, held_out.mode) == (
        *("loss", Mode.TRAIN),
        *("logloss", Mode.EVAL),
    )
    for series, rows, first in ((train, slice(400), 0), (held_out, slice(400, None), 1)):
        assert series.steps_S.tolist() == list(range(first, first + 16))
        expected = metrics.log_loss(Y[rows], booster.predict(xgboost.DMatrix(X[rows])))
        assert series.values_S[-1] == pytest.approx(expected, rel=1e-5)


def test_a_regression_has_errors_by_label_and_residuals(tmp_path: Path) -> None:
    run, booster = trained(tmp_path, X[:, 0] + X[:, 1] ** 2, "reg:squarederror")
    model = model_of(run)
    assert model.labels["max"] == pytest.approx(float((X[:, 0] + X[:, 1] ** 2)[:400].max()))
    first, last = model.scores["valid"][0], model.scores["valid"][-1]
    residual = (X[:, 0] + X[:, 1] ** 2)[400:] - booster.predict(xgboost.DMatrix(X[400:]))
    counts, _ = np.histogram(residual, bins=10)
    assert list(last.residuals) == counts.tolist()
    assert np.mean(last.error_per_bin) < np.mean(first.error_per_bin)
    assert len(last.error_edges) == 11
    label = (X[:, 0] + X[:, 1] ** 2)[400:]
    bins = np.clip(np.digitize(label, last.error_edges) - 1, 0, 9)
    errors = [np.abs(residual)[bins == one].mean() for one in range(10) if (bins == one).any()]
    found = [
        error
        for error, one in zip(last.error_per_bin, range(10), strict=True)
        if (bins == one).any()
    ]
    assert found == pytest.approx(errors, rel=1e-4)


@pytest.mark.parametrize("objective", ["binary:logistic", "reg:squarederror"])
def test_the_page_has_each_part(objective: str, tmp_path: Path) -> None:
    label = Y if objective.startswith("binary") else X[:, 0] + X[:, 1] ** 2
    run, _ = trained(tmp_path, label, objective)
    text = page(gather(run, summarize(run, explains(rule_classes()))))
    parts = ["Loss", "Boosted models (1)", "Labels of the training data", "Importance"]
    if objective.startswith("binary"):
        parts += ["true \\ predicted", "ROC, area", "Scores by class", "weighted", "micro"]
        parts += ["Accuracy by class", "8 rounds"]
    else:
        parts += ["Mean absolute error by label", "Residuals"]
    assert [part for part in parts if part not in text] == []
    assert "Boosted models" not in section(())


def test_hostile_names_stay_texts() -> None:
    model = BoostedModel(
        fit="<script>",
        library="xgboost",
        objective="<b>",
        rounds=3,
        importance={"gain": {"<img src=x>": 2.0}},
        labels={"0": 3.0},
    )
    text = section([model] * 9)
    assert "<script>" not in text
    assert "<img" not in text
    assert "… and 1 more." in text


def test_text_and_json_have_the_latest_of_each(tmp_path: Path) -> None:
    run, _ = trained(tmp_path, Y, "binary:logistic")
    summary = summarize(run, explains(rule_classes()))
    text = "\n".join(boosting_lines(summary.boosted, PLAIN))
    assert "16 rounds" in text
    assert "importance (gain): f" in text
    assert "valid: accuracy 0." in text
    data = json.loads(jsonable.encode(summary))
    assert data["boosted"][0]["scores"]["valid"][-1]["rounds"] == 16
