"""A wrapped model of any framework gives the same answers, also when loaded from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import torch
import xgboost
from safetensors.torch import save_file
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

from mothtrap.core.errors import ConfigError
from mothtrap.session.asked_models import from_words, wrapped

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(200, 3)), columns=["a", "b", "c"])
CLASS = (X.a > 0).astype(int).to_numpy()
NUMBER = X.a.to_numpy() + X.b.to_numpy()


def test_a_classifier_of_scikit_learn_gives_probabilities_classes_and_another_fit() -> None:
    named = np.array(["no", "yes"])[CLASS]
    model = RandomForestClassifier(5, random_state=0).fit(X, named)
    found = wrapped(model)
    assert (found.predict(X) == model.predict_proba(X)).all()
    assert found.classes == ("no", "yes")
    assert found.task == "classification"
    assert found.refit is not None
    assert found.refit(X, named)(X).shape == (200, 2)
    assert wrapped(Ridge().fit(X, NUMBER)).task == "regression"


@pytest.mark.parametrize("suffix", [".ubj", ".json"])
@pytest.mark.parametrize("named", [True, False])
def test_boosters_of_xgboost(tmp_path: Path, suffix: str, named: bool) -> None:
    data = X if named else X.to_numpy()
    booster = xgboost.train(
        {"objective": "binary:logistic"}, xgboost.DMatrix(data, CLASS), num_boost_round=3
    )
    file = tmp_path / f"model{suffix}"
    booster.save_model(file)
    found = from_words(str(file))
    assert found.task == "classification"
    wanted = booster.predict(xgboost.DMatrix(data))
    assert np.asarray(found.predict(X)) == pytest.approx(wanted)
    assert np.asarray(found.predict(X.to_numpy())) == pytest.approx(wanted)


def test_boosters_of_lightgbm(tmp_path: Path) -> None:
    booster = lightgbm.train(
        {"objective": "regression", "verbose": -1}, lightgbm.Dataset(X, NUMBER), num_boost_round=3
    )
    booster.save_model(tmp_path / "model.txt")
    found = from_words(str(tmp_path / "model.txt"))
    assert found.task == "regression"
    assert np.asarray(found.predict(X)) == pytest.approx(booster.predict(X))


def test_models_of_catboost(tmp_path: Path) -> None:
    made = {"iterations": 3, "verbose": False, "allow_writing_files": False}
    model = catboost.CatBoostClassifier(**made).fit(X, CLASS)
    model.save_model(str(tmp_path / "model.cbm"))
    found = from_words(str(tmp_path / "model.cbm"))
    assert found.task == "classification"
    assert np.asarray(found.predict(X)) == pytest.approx(model.predict_proba(X))


def make_net() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 2))


def test_modules_of_pytorch_answer_in_evaluation_mode_and_keep_their_own(tmp_path: Path) -> None:
    net = make_net()
    net[1].eval()
    found = wrapped(net)
    first, second = found.predict(X), found.predict(X)
    assert first.shape == (200, 2)
    assert (first == second).all()
    assert [part.training for part in net] == [True, False, True]
    assert all(weight.grad is None for weight in net.parameters())
    with torch.no_grad():
        net[0].weight.add_(1.0)
    save_file(net.state_dict(), tmp_path / "best.safetensors")
    loaded = from_words(
        None, build=f"{__name__}:make_net", weights=str(tmp_path / "best.safetensors")
    )
    assert loaded.predict(X) == pytest.approx(wrapped(net).predict(X))


def test_weights_of_another_module_are_refused_in_words(tmp_path: Path) -> None:
    save_file(torch.nn.Linear(2, 2).state_dict(), tmp_path / "other.safetensors")
    with pytest.raises(ConfigError, match="does not fit the module"):
        from_words(None, build=f"{__name__}:make_net", weights=str(tmp_path / "other.safetensors"))
    with pytest.raises(ConfigError, match="--build"):
        from_words(str(tmp_path / "other.safetensors"))


def test_onnx_files(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    weight = np.array([[1.0, -1], [0.5, 0], [0, 2]], np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["rows", "weight"], ["raw"]),
            helper.make_node("Softmax", ["raw"], ["soft"]),
        ],
        "g",
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, [None, 3])],
        [helper.make_tensor_value_info("soft", TensorProto.FLOAT, [None, 2])],
        [helper.make_tensor("weight", TensorProto.FLOAT, [3, 2], weight.ravel())],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "model.onnx")
    raw = X.to_numpy() @ weight
    wanted = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    assert from_words(str(tmp_path / "model.onnx")).predict(X) == pytest.approx(wanted, abs=1e-5)


def test_files_of_skops(tmp_path: Path) -> None:
    skops = pytest.importorskip("skops.io")
    model = Ridge().fit(X, NUMBER)
    skops.dump(model, tmp_path / "model.skops")
    found = from_words(str(tmp_path / "model.skops"))
    assert found.predict(X) == pytest.approx(model.predict(X))


def test_a_tree_in_a_file_of_skops_is_read_only_where_it_is_trusted(tmp_path: Path) -> None:
    skops = pytest.importorskip("skops.io")
    model = DecisionTreeRegressor(max_depth=2).fit(X, NUMBER)
    skops.dump(model, tmp_path / "model.skops")
    with pytest.raises(ConfigError, match="--trust-pickle"):
        from_words(str(tmp_path / "model.skops"))
    found = from_words(str(tmp_path / "model.skops"), trust_pickle=True)
    assert found.predict(X) == pytest.approx(model.predict(X))


class Trap:
    """Reports, when it is unpickled, that code was executed."""

    ran = False

    def __reduce__(self) -> Any:
        return (setattr, (Trap, "ran", True))


def test_a_pickle_is_read_only_where_it_is_trusted(tmp_path: Path) -> None:
    joblib = pytest.importorskip("joblib")
    joblib.dump(Trap(), tmp_path / "trap.joblib")
    with pytest.raises(ConfigError, match="--trust-pickle"):
        from_words(str(tmp_path / "trap.joblib"))
    assert not Trap.ran
    model = Ridge().fit(X, NUMBER)
    joblib.dump(model, tmp_path / "model.joblib")
    found = from_words(str(tmp_path / "model.joblib"), trust_pickle=True)
    assert found.predict(X) == pytest.approx(model.predict(X))


def predict(rows: Any) -> Any:
    return rows.a.to_numpy()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("no.such:predict", "cannot import"),
        (f"{__name__}:missing", "cannot import"),
        (f"{__name__}:X", "not a function or a model"),
        ("nothing.ubj", "no file"),
        ("predict", "is not the name of a function"),
    ],
)
def test_what_names_no_model_is_refused_in_words(words: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_words(words)


def test_a_file_of_an_unknown_kind_names_those_that_are_known(tmp_path: Path) -> None:
    (tmp_path / "model.bin").touch()
    with pytest.raises(ConfigError, match=r"\.onnx"):
        from_words(str(tmp_path / "model.bin"))


def test_a_function_is_taken_as_it_is() -> None:
    assert from_words(f"{__name__}:predict").predict is predict
    with pytest.raises(ConfigError, match="list"):
        wrapped([1, 2])
