"""Collections of a Gluon training contain their tensors: layers, whole models, evaluations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

mxnet = pytest.importorskip("mxnet")

from mxnet import autograd, gluon, nd  # noqa: E402
from mxnet.gluon import nn  # noqa: E402

import mothtrap  # noqa: E402
from mothtrap import Collection, Run, Schedule  # noqa: E402

STEPS, ROWS = 6, 4
X = np.random.default_rng(0).random((STEPS * ROWS, 1, 14, 14)).astype(np.float32)
Y = np.arange(STEPS * ROWS) % 10


def network(*, hybrid: bool = False) -> Any:
    mxnet.random.seed(0)
    net = nn.HybridSequential(prefix="net")
    net.add(nn.Conv2D(4, 5, activation="relu"), nn.Flatten(), nn.Dense(8), nn.Dense(10))
    net.initialize()
    net(nd.zeros((1, 1, 14, 14)))
    if hybrid:
        net.hybridize()
    return net


def train(net: Any, *, evaluations: int = 0) -> bytes:
    """Return the weights after `STEPS` steps, with forwards outside `record` after them."""
    criterion = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    for first in range(0, len(X), ROWS):
        rows = slice(first, first + ROWS)
        with autograd.record():
            loss = criterion(net(nd.array(X[rows])), nd.array(Y[rows]))
        loss.backward()
        trainer.step(ROWS)
    for _ in range(evaluations):
        criterion(net(nd.array(X[:ROWS])), nd.array(Y[:ROWS])).asnumpy()
    return b"".join(p.data().asnumpy().tobytes() for p in net.collect_params().values())


def recorded(
    folder: Path, collections: dict[str, Collection], *, hybrid: bool = False, evaluations: int = 0
) -> Run:
    net = network(hybrid=hybrid)
    settings: dict[str, Any] = {"overhead": 0, "on_full": "block", "collections": collections}
    with mothtrap.watch(net, runs_dir=str(folder), name="run", **settings):
        train(net, evaluations=evaluations)
    return mothtrap.open_run(folder / "run")


def test_inputs_of_layers_and_of_the_model(tmp_path: Path) -> None:
    asked = Collection(tensors=("input:*",), raw=True, steps=(0, 2))
    run = recorded(tmp_path, {"all": asked})
    found = run.tensors(kind="input")
    assert len(found) == 6  # four layers, an activation within one of them, and the model
    [of_model] = [each for each in found if each.name == "net"]
    assert of_model.at(2).tobytes() == X[2 * ROWS : 3 * ROWS].tobytes()


def test_outputs_and_labels(tmp_path: Path) -> None:
    asked = Collection(raw=True, steps=(1,))
    run = recorded(tmp_path, {"outputs": asked, "labels": asked}, hybrid=True)
    [output], [label] = run.tensors(kind="output"), run.tensors(kind="label")
    assert output.at(1).shape == (ROWS, 10)
    assert label.at(1).tolist() == Y[ROWS : 2 * ROWS].tolist()


def test_evaluations_have_a_schedule_of_their_own(tmp_path: Path) -> None:
    weights = Collection(raw=True, every=2, eval=Schedule(every=3))
    layers = Collection(raw=True, every=2, eval=Schedule(every=2))
    gradients = Collection(raw=True, every=2)
    asked = {"weights": weights, "activations": layers, "gradients": gradients}
    run = recorded(tmp_path, asked, evaluations=6)
    for kind, number in (("weight", 2), ("activation", 3), ("gradient", 0)):
        for tensor in run.tensors(kind=kind):
            assert [key.step for key in tensor.raw_keys("train")] == [0, 2, 4]
            assert len(tensor.raw_keys("eval")) == number, tensor


def test_logged_arrays(tmp_path: Path) -> None:
    net = network()
    with mothtrap.watch(net, runs_dir=str(tmp_path), name="run") as watch:
        watch.log_tensor("scale", nd.array([1, 2, 3]))
        train(net)
    run = mothtrap.open_run(tmp_path / "run")
    assert run.tensor("metric:scale").at(0).tolist() == [1, 2, 3]


@pytest.mark.parametrize("hybrid", [False, True])
def test_weights_are_the_same_bits(tmp_path: Path, *, hybrid: bool) -> None:
    plain = train(network(hybrid=hybrid), evaluations=2)
    asked = Collection(tensors=("*",), raw=True, modes=("train", "eval"))
    net = network(hybrid=hybrid)
    with mothtrap.watch(net, runs_dir=str(tmp_path), name="run", collections={"all": asked}):
        assert train(net, evaluations=2) == plain
