"""Faults in Gluon trainings are named, healthy trainings get no finding, and none is changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

mxnet = pytest.importorskip("mxnet")

from mxnet import autograd, gluon  # noqa: E402
from mxnet.gluon import nn  # noqa: E402
from tests.adapters.mxnet import programs  # noqa: E402
from tests.adapters.mxnet.programs import X, classify, weights_of  # noqa: E402

from mothtrap.adapters.mxnet import ADAPTER  # noqa: E402
from mothtrap.core.adapters import Handle, Job  # noqa: E402
from mothtrap.core.findings import Severity  # noqa: E402
from mothtrap.statistics.summary import COLUMN  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

HEALTHY: dict[str, Callable[[], Any]] = {
    "plain": lambda: classify(steps=100, evaluated=True),
    "rectified": lambda: classify(steps=100, hidden="relu"),
    "hybridized": lambda: classify(steps=100, hybrid=True),
    "accumulated": lambda: classify(steps=100, accumulate=2),
}
SICK: dict[str, tuple[Callable[[], Any], str, Severity]] = {
    "softmax twice": (
        lambda: classify(last="softmax"),
        "softmax_before_cross_entropy",
        Severity.ERROR,
    ),
    "not scaled": (lambda: classify(x=X * 100 + 500), "unnormalized_input", Severity.WARNING),
    "rate 0": (lambda: classify(steps=60, rate=0.0), "learning_rate_zero", Severity.ERROR),
    "no training mode": (lambda: classify(mode=False), "eval_mode_in_training", Severity.WARNING),
    "rate too high": (
        lambda: classify(steps=60, rate=1e3, optimizer="sgd", hidden="relu"),
        "loss_diverging",
        Severity.ERROR,
    ),
    "a row of NaN": (
        lambda: classify(x=np.where(np.arange(256)[:, None] == 200, np.nan, X)),
        "nonfinite_loss",
        Severity.ERROR,
    ),
}


def watched(train: Callable[[], Any], *targets: object) -> tuple[Process, Any]:
    process = Process("numpy")

    def begin(job: Job) -> Handle:
        return ADAPTER.attach(job, targets)

    with process.watched(ADAPTER, begin):
        result = train()
    assert not [line for line in process.said if "failed" in line], process.said
    return process, result


@pytest.mark.smoke
@pytest.mark.parametrize("name", HEALTHY)
def test_quiet_and_bit_identical(name: str) -> None:
    plain = weights_of(HEALTHY[name]())
    process, net = watched(HEALTHY[name])
    assert weights_of(net) == plain
    loud = [one for one in process.findings() if one.severity is not Severity.INFO]
    assert not loud, loud


@pytest.mark.parametrize("name", SICK)
def test_faults_are_named(name: str) -> None:
    train, rule, severity = SICK[name]
    process, _ = watched(train)
    found = {one.name: one for one in process.findings()}
    assert rule in found, sorted(found)
    assert found[rule].severity is severity
    if severity is Severity.ERROR:
        assert "programs.py:" in (found[rule].location or "")


def test_losses_and_gradients_are_per_example() -> None:
    """A gradient is recorded as the optimizer gets it: per example, over all parts."""
    whole, _ = watched(lambda: classify(steps=1, optimizer="sgd", mode=False))
    parts, _ = watched(lambda: classify(steps=1, optimizer="sgd", mode=False, accumulate=2))

    def numbers(process: Process) -> tuple[list[float], list[float]]:
        record = process.records[0]
        kinds = {number: info.kind for number, info in record.defined}
        numbers = zip(record.tensor_T.tolist(), record.summary_TF[:, COLUMN["l2"]], strict=True)
        norms = [float(l2) for number, l2 in numbers if kinds[number] == "gradient"]
        return [one.value for one in record.scalars if one.name == "loss"], norms

    (loss, norms), (loss_of_parts, norms_of_parts) = numbers(whole), numbers(parts)
    assert loss == pytest.approx(loss_of_parts)
    assert norms
    assert norms == pytest.approx(norms_of_parts, rel=1e-5)


def adversaries() -> bytes:
    """Train two networks alternately, with batch norm and convolutions."""
    mxnet.random.seed(3)
    makes, judges = nn.HybridSequential(prefix="g_"), nn.Sequential(prefix="d_")
    makes.add(nn.Dense(16), nn.BatchNorm(), nn.Dense(64))
    judges.add(nn.Conv2D(4, 3), nn.LeakyReLU(0.2), nn.Dense(1))
    criterion = gluon.loss.SigmoidBCELoss()
    trainers = []
    for net in (makes, judges):
        net.initialize(mxnet.init.Normal(0.1))
        trainers.append(gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 1e-3}))
    real = mxnet.nd.random.normal(shape=(8, 1, 8, 8))
    for _ in range(6):
        noise = mxnet.nd.random.normal(shape=(8, 4))
        with autograd.record():
            fake = makes(noise).reshape((8, 1, 8, 8))
            first = criterion(judges(real), mxnet.nd.ones((8,)))
            second = criterion(judges(fake.detach()), mxnet.nd.zeros((8,)))
        autograd.backward([first, second])
        trainers[1].step(8)
        with autograd.record():
            fooled = criterion(judges(makes(noise).reshape((8, 1, 8, 8))), mxnet.nd.ones((8,)))
        fooled.backward()
        trainers[0].step(8)
    return weights_of(makes) + weights_of(judges)


def recurrent() -> bytes:
    """Train on sequences, with clipped gradients and a decreasing rate."""
    mxnet.random.seed(4)
    net = nn.Sequential(prefix="r_")
    net.add(gluon.rnn.LSTM(8, layout="NTC"), nn.Dense(1))
    net.initialize()
    falling = mxnet.lr_scheduler.FactorScheduler(2, 0.5, base_lr=0.1)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"lr_scheduler": falling})
    x = mxnet.nd.random.normal(shape=(16, 5, 3))
    for _ in range(6):
        with autograd.record():
            loss = ((net(x) - x.sum(axis=(1, 2)).reshape((-1, 1))) ** 2).mean()
        loss.backward()
        trainer.allreduce_grads()
        gluon.utils.clip_global_norm([p.grad() for p in net.collect_params().values()], 1.0)
        trainer.update(1)
    return weights_of(net)


@pytest.mark.parametrize("train", [adversaries, recurrent])
def test_other_loops_are_unchanged(train: Callable[[], bytes]) -> None:
    plain = train()
    process, weights = watched(train)
    assert weights == plain
    optimizers = {name for _, names in process.steps() for name in names}
    assert optimizers == ({"Adam", "Adam#1"} if train is adversaries else {"SGD"})
    rates = [s.value for r in process.records for s in r.scalars if s.name == "lr"]
    assert rates[0] == (1e-3 if train is adversaries else 0.1)
    if train is recurrent:
        assert rates[-1] < rates[0]


def test_only_targets_are_watched() -> None:
    """`mothtrap.watch(net)` records the steps of trainers that hold its parameters."""
    other = programs.network()
    process, _ = watched(classify, other)
    assert not process.steps()
    with pytest.raises(TypeError, match="with mxnet: expected Block or Trainer"):
        ADAPTER.attach(process.job, [object()])  # type: ignore[arg-type]
