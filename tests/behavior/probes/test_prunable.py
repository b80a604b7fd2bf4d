"""BEH703: channels that a network does not need, and a network that needs all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from mothtrap.behavior.asked_report import ProbeReport
from mothtrap.behavior.channels import hidden_channels
from mothtrap.behavior.inside import network_of
from mothtrap.behavior.probes.prunable import Prunable
from mothtrap.behavior.probing import run_probes
from mothtrap.behavior.pruning import least_important
from mothtrap.behavior.subject import Subject
from mothtrap.behavior.subjects import Request, make_subject
from mothtrap.core.errors import NotApplicable
from mothtrap.session.asked_models import wrapped


def trained(net: Any, X: Any, y: Any, steps: int = 200) -> Any:
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    inputs, targets = torch.tensor(X), torch.tensor(y)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(inputs), targets).backward()
        optimizer.step()
    return net


def subject_of(net: Any, X: Any, y: Any) -> Subject:
    found = wrapped(net)
    return make_subject(found.predict, X, y, None, Request(network=found.network))[0]


@pytest.fixture(scope="module")
def digits() -> Any:
    X, y = load_digits(return_X_y=True)
    return (X / 16).astype(np.float32), y


def wide() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(256, 10)
    )


def test_a_wide_network_loses_a_third_of_its_channels_and_stays_as_it_was(digits: Any) -> None:
    X, y = digits
    net = trained(wide(), X[:1000], y[:1000])
    before = {name: value.clone() for name, value in net.state_dict().items()}
    subject = subject_of(net, X[1000:], y[1000:])
    answers = subject.ask(subject.table)
    (found,) = Prunable().look(subject)
    assert found.evidence["value"] >= 1 / 3  # type: ignore[operator]
    assert "of the 256 hidden channels" in found.message
    assert net.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(parameter.grad is not None for parameter in net.parameters())  # as training left it
    assert np.array_equal(subject.ask(subject.table), answers)  # no hook is left


def test_a_narrow_network_needs_its_channels(digits: Any) -> None:
    X, y = digits
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 6), torch.nn.Tanh(), torch.nn.Linear(6, 10))
    subject = subject_of(trained(net, X[:1000], y[:1000]), X[1000:], y[1000:])
    assert not list(Prunable().look(subject))


def test_channels_of_a_convolution_that_nothing_reads_are_the_least_important(digits: Any) -> None:
    X, y = digits
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(4),
        torch.nn.Flatten(),
        torch.nn.Linear(128, 10),
    )
    with torch.no_grad():
        net[4].weight[:, 48:] = 0  # the last five channels are read by nothing
    images = X.reshape(-1, 1, 8, 8)
    subject = subject_of(net, images, y)
    (layer,) = hidden_channels(subject, network_of(subject), images)
    assert layer.importance_U[3:].tolist() == [0.0] * 5
    assert layer.importance_U[:3].min() > 0


def test_each_layer_keeps_its_most_important_channel() -> None:
    masks = least_important([np.array([0.1, 0.2]), np.array([0.9, 0.8, 0.7])], 0.9)
    assert [mask.tolist() for mask in masks] == [[True, False], [False, True, True]]


def test_the_curve_is_a_chart_and_other_models_have_none(digits: Any) -> None:
    X, y = digits
    net = trained(wide(), X[:500], y[:500], steps=30)
    subject = subject_of(net, X[1000:], y[1000:])
    report = ProbeReport(subject, subject.table, run_probes(subject, [], subject.table), None)
    curve = report.pruning_curve()
    assert curve.shares[0] == 0
    assert curve.scores[-1] < curve.scores[0]
    assert len(report.figure("pruning")["layer"][0]["data"]["values"]) == 10
    other = make_subject(lambda rows: rows[:, 0], X, X[:, 0])[0]
    with pytest.raises(NotApplicable, match="PyTorch"):
        list(Prunable().look(other))


def test_a_network_of_numbers_is_scored_by_its_squared_error() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4)).astype(np.float32)
    y = X[:, 0] + 0.5 * X[:, 1]
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 20), torch.nn.Linear(20, 1))
    with torch.no_grad():
        net[1].weight[:, 10:] = 0
        net[1].weight[:, :10] = 1.0
    subject = subject_of(net, X, y)
    report = ProbeReport(subject, subject.table, run_probes(subject, [], subject.table), None)
    curve = report.pruning_curve()
    assert curve.is_regression
    assert curve.kept >= 0.5
