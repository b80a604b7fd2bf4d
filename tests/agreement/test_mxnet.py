"""MXNet's facts of the batch."""

from __future__ import annotations

import pytest

mxnet = pytest.importorskip("mxnet")

from mxnet import autograd, gluon  # noqa: E402
from tests.agreement import batch, golden, stored  # noqa: E402

from mothtrap.adapters.mxnet import ADAPTER  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402


def network(kind: str) -> gluon.Block:
    last_weight, last_bias = batch.last_layer(kind)
    # Explicit names: those of gluon are counted across all blocks of the process.
    layers = gluon.nn.HybridSequential(prefix="model_")
    layers.add(
        gluon.nn.Dense(
            batch.HIDDEN, activation="relu", in_units=batch.FEATURES, prefix="model_hidden_"
        ),
        gluon.nn.Dense(len(last_bias), in_units=batch.HIDDEN, prefix="model_last_"),
    )
    layers.initialize()
    for layer, weight, bias in (
        (layers[0], batch.W1, batch.B1),
        (layers[1], last_weight, last_bias),
    ):
        layer.weight.set_data(mxnet.nd.array(weight.T))
        layer.bias.set_data(mxnet.nd.array(bias))
    return layers


def train(kind: str) -> Process:
    """Make a few steps on the batch, each followed by an evaluation."""
    process = Process("numpy")
    with process.watched(ADAPTER):
        model = network(kind)
        x, y = (mxnet.nd.array(values) for values in batch.data(kind))
        classes = kind == "classes"
        loss_of = gluon.loss.SoftmaxCrossEntropyLoss() if classes else gluon.loss.L2Loss(weight=2)
        settings = {"learning_rate": batch.RATE}
        trainer = gluon.Trainer(model.collect_params(), "sgd", settings)
        for _ in range(batch.STEPS):
            with autograd.record():
                loss = loss_of(model(x), y)
            loss.backward()
            trainer.step(batch.ROWS)
            loss_of(model(x), y).asnumpy()
    return process


@pytest.mark.smoke
@pytest.mark.parametrize("kind", stored.KINDS)
def test_facts_agree(kind: str) -> None:
    facts = train(kind).facts()
    stored.assert_agrees("mxnet", kind, facts)
    golden.assert_unchanged("mxnet", kind, facts)
