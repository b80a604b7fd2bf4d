"""BEH704: dead and copied channels are counted, live channels are not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.behavior.asking import subject_of as any_subject
from tests.behavior.networks import convolutional, digits, subject_of, trained

from mothtrap.behavior.probes.idle_units import IdleUnits
from mothtrap.core.errors import NotApplicable


def test_dead_and_copied_channels_are_named_by_layer() -> None:
    X, y = digits()
    torch.manual_seed(0)
    net = trained(convolutional(), X[:600], y[:600], epochs=2)
    with torch.no_grad():
        net[0].weight[:3] = 0
        net[0].bias[:3] = -1.0  # always off behind the activation
        net[0].weight[7:9] = 2 * net[0].weight[6:7]
        net[0].bias[7:9] = 2 * net[0].bias[6:7]
    (found,) = IdleUnits().look(subject_of(net, X[600:1200], y[600:1200]))
    assert found.features == ("0",)
    assert found.evidence["dead"] == [0, 1, 2]
    assert found.evidence["copies"] == [7, 8]
    assert "3 have no effect" in found.message
    assert "2 copy another channel" in found.message


def test_a_trained_network_uses_its_channels() -> None:
    X, y = digits()
    torch.manual_seed(0)
    net = trained(convolutional(), X[:1000], y[:1000])
    assert not list(IdleUnits().look(subject_of(net, X[1000:], y[1000:])))


def test_shifted_channels_of_one_input_are_no_copies() -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    with torch.no_grad():
        net[0].weight[:] = 1.0
        net[0].bias[:] = torch.linspace(-1.5, 1.5, 16)
    X = np.random.default_rng(0).normal(size=(300, 1)).astype(np.float32)
    assert not list(IdleUnits().look(subject_of(net, X, X[:, 0] ** 2)))


def test_other_models_and_a_single_layer_have_none() -> None:
    X = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)
    with pytest.raises(NotApplicable, match="PyTorch or Keras"):
        list(IdleUnits().look(any_subject(lambda rows: rows[:, 0], X, X[:, 0])))
    with pytest.raises(NotApplicable, match="no hidden layer"):
        list(IdleUnits().look(subject_of(torch.nn.Sequential(torch.nn.Linear(2, 1)), X, X[:, 0])))
