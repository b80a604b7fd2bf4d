"""Labels, predictions and SHAP values come by request; folds of `cv` have numbers of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

xgboost = pytest.importorskip("xgboost")

from tests.adapters.boosted import watched  # noqa: E402
from tests.adapters.xgboost.tables import EVALS, PARAMS, TRAIN  # noqa: E402

import mothtrap  # noqa: E402
from mothtrap import Collection  # noqa: E402
from mothtrap.adapters import xgboost as adapter  # noqa: E402

ROUNDS = 8


def train() -> xgboost.Booster:
    return xgboost.train(PARAMS, TRAIN, ROUNDS, evals=EVALS, verbose_eval=False)


def test_values_are_those_of_the_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A collection named as SageMaker Debugger's has what it had there; the model is the same."""
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
    assert not [name for name in names if name.startswith(("shap", "prediction", "label"))]


def test_folds_are_a_group_in_one_run() -> None:
    process, history = watched(
        adapter,
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
