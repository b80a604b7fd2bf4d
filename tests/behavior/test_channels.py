"""Channels of hidden layers: their importance and means, and networks with constant channels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.behavior.networks import convolutional, digits, subject_of

from mothtrap.behavior.channels import hidden_channels
from mothtrap.behavior.inside import network_of
from mothtrap.core.errors import NotApplicable


def test_held_channels_have_their_value_and_others_keep_theirs() -> None:
    X, y = digits()
    torch.manual_seed(0)
    subject = subject_of(convolutional(), X[:100], y[:100])
    network = network_of(subject)
    first, second = hidden_channels(subject, network, X[:100])
    assert (first.layer, second.layer) == ("0", "2")
    before = {each.name: each.values for each in network.layers(X[:20])}
    assert before["0"].min() < 0  # the activation behind it works in place
    mask_U = np.arange(12) < 3
    with network.holding({"0": (mask_U, first.mean_U)}):
        held = {each.name: each.values for each in network.layers(X[:20])}
    assert np.allclose(held["0"][..., :3], first.mean_U[:3], atol=1e-6)
    assert np.array_equal(held["0"][..., 3:], before["0"][..., 3:])
    assert not np.array_equal(held["2"], before["2"])
    after = {each.name: each.values for each in network.layers(X[:20])}
    assert np.array_equal(after["2"], before["2"])


def test_several_inputs_have_no_channels() -> None:
    X, y = digits()
    subject = subject_of(convolutional(), X[:100], y[:100])
    with pytest.raises(NotApplicable, match="several arrays"):
        hidden_channels(subject, network_of(subject), {"a": X[:5]})
