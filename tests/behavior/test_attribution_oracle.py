"""Attributions equal those of captum, if it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.behavior.networks import convolutional, digits, subject_of, trained

from mothtrap.behavior.attribution import attribute
from mothtrap.behavior.inside import Margin, network_of

captum = pytest.importorskip("captum.attr")

ROWS = np.arange(8)


@pytest.fixture(scope="module")
def asked() -> tuple[Any, Any, Any]:
    """The subject, the module, and the margin of the first rows as captum takes it."""
    X, y = digits()
    torch.manual_seed(0)
    net = trained(convolutional(), X[:600], y[:600], epochs=2).eval()
    subject = subject_of(net, X[600:700], y[600:700])
    margin = Margin.of(subject, network_of(subject).outputs(X[600:608]))

    def lead(rows: Any) -> Any:
        output, times = net(rows), len(rows) // len(ROWS)
        first, second = (
            torch.from_numpy(each).repeat(times) for each in (margin.first_R, margin.second_R)
        )
        at = torch.arange(len(output))
        return output[at, first] - output[at, second]

    return subject, net, lead


def test_integrated_gradients_are_those_of_captum(asked: Any) -> None:
    subject, _, lead = asked
    given = torch.from_numpy(subject.table.data)
    baseline = given.mean(dim=0, keepdim=True).expand(len(ROWS), -1, -1, -1)
    wanted = captum.IntegratedGradients(lead).attribute(
        given[ROWS], baselines=baseline, n_steps=200
    )
    found = attribute(subject, ROWS, "integrated_gradients").values
    wanted = wanted.detach().numpy()
    assert np.allclose(found, wanted, atol=0.02 * np.abs(wanted).max())


def test_class_activation_maps_are_those_of_captum(asked: Any) -> None:
    subject, net, lead = asked
    given = torch.from_numpy(subject.table.data[ROWS])
    wanted = captum.LayerGradCam(lead, net[4]).attribute(given, relu_attributions=True)
    found = attribute(subject, ROWS, "grad_cam")
    assert found.layer == "4"
    assert np.allclose(found.values, wanted.detach().numpy()[:, 0], atol=1e-4)
