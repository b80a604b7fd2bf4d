"""Small Gluon trainings, each with an optional fault."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon import nn

RNG = np.random.default_rng(0)
X = RNG.normal(size=(256, 6)).astype(np.float32)
Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(np.float32)


def network(*, last: str | None = None, hidden: str = "tanh") -> Any:
    """Return a small network with dropout."""
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(16, activation=hidden), nn.Dropout(0.1), nn.Dense(2))
        if last == "softmax":
            net.add(nn.HybridLambda("softmax"))
    net.initialize(mx.init.Xavier())
    return net


def classify(
    *,
    steps: int = 40,
    rate: float = 0.05,
    optimizer: str = "adam",
    x: Any = X,
    mode: bool = True,
    evaluated: bool = False,
    hybrid: bool = False,
    accumulate: int = 1,
    **made: Any,
) -> Any:
    """Train with a loop as people write it; return the network."""
    mx.random.seed(1)
    np.random.seed(1)
    net = network(**made)
    if hybrid:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": rate})
    criterion = gluon.loss.SoftmaxCrossEntropyLoss()
    if accumulate > 1:
        net.collect_params().setattr("grad_req", "add")
    for step in range(steps):
        for _ in range(accumulate):
            rows = (np.arange(64) + 64 * step) % len(x)
            data, label = mx.nd.array(x[rows]), mx.nd.array(Y[rows])
            with autograd.record(train_mode=mode):
                loss = criterion(net(data), label)
            loss.backward()
        trainer.step(64 * accumulate)
        if accumulate > 1:
            net.collect_params().zero_grad()
        if evaluated:
            criterion(net(mx.nd.array(X)), mx.nd.array(Y)).asnumpy()
    return net


def weights_of(net: Any) -> bytes:
    """Return all parameters as bytes."""
    return b"".join(each.data().asnumpy().tobytes() for each in net.collect_params().values())
