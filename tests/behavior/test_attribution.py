"""Attributions: their sums, their places, and maps that do not depend on the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.behavior.networks import convolutional, digits, subject_of, trained

from mothtrap.behavior import attribution
from mothtrap.behavior.attribution import attribute
from mothtrap.behavior.attribution_charts import attribution_chart
from mothtrap.behavior.inside import Margin, network_of
from mothtrap.behavior.subject import Subject
from mothtrap.core.errors import NotApplicable

ROWS = np.arange(12)


@pytest.fixture(scope="module")
def subject() -> Subject:
    X, y = digits()
    torch.manual_seed(0)
    return subject_of(trained(convolutional(), X[:1000], y[:1000]), X[1000:], y[1000:])


def test_integrated_gradients_sum_to_the_change_of_the_margin(subject: Subject) -> None:
    found = attribute(subject, ROWS, "integrated_gradients")
    assert found.values.shape == (12, 1, 8, 8)
    network, rows = network_of(subject), subject.table.data[ROWS]
    mean = np.broadcast_to(subject.table.data.mean(axis=0, keepdims=True), rows.shape)
    margin = Margin.of(subject, network.outputs(rows))
    change = margin.values(network.outputs(rows)) - margin.values(network.outputs(mean.copy()))
    gap = np.abs(found.values.reshape(12, -1).sum(axis=1) - change) / np.abs(change)
    assert np.median(gap) <= 0.05
    assert found.gap == pytest.approx(float(np.median(gap)), abs=1e-3)


def test_saliency_of_a_linear_model_is_the_size_of_its_weights() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 2))
    with torch.no_grad():
        net[0].weight[:] = torch.tensor([[1.0, 0.0, -2.0], [0.0, 0.0, 1.0]])
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    subject = subject_of(net, X, (X[:, 0] > 0).astype(int))
    found = attribute(subject, ROWS, "saliency")
    assert np.allclose(found.values, [1.0, 0.0, 3.0], atol=1e-6)


def test_class_maps_change_with_the_weights_and_the_network_stays(subject: Subject) -> None:
    before = subject.ask(subject.table)
    found = attribute(subject, ROWS, "grad_cam")
    assert found.values.shape == (12, 8, 8)
    assert found.layer == "4"  # the activation behind the last convolution
    assert found.values.min() >= 0
    assert found.randomized < 0.7
    assert np.array_equal(subject.ask(subject.table), before)


def test_maps_that_do_not_depend_on_the_weights_are_refused(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    def maps(network: Any, given: Any, *_: Any) -> Any:
        return np.abs(given[:, 0])  # the image itself

    monkeypatch.setattr(attribution, "_maps", maps)
    with pytest.raises(NotApplicable, match="reflect the images, not the model"):
        attribute(subject, ROWS, "grad_cam")


def test_class_maps_point_at_the_place_that_decides() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    X = rng.normal(0, 0.1, size=(400, 1, 8, 8)).astype(np.float32)
    X[y == 1, 0, 5:8, 5:8] += 1  # class 1 has a light corner
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(512, 2),
    )
    subject = subject_of(trained(net, X, y), X, y)
    ones = np.flatnonzero(subject.judged.target_R == 1)[:20]
    found = attribute(subject, ones, "grad_cam").values
    inside = found[:, 4:, 4:].sum() / found.sum()
    assert inside > 0.6  # a quarter of the area


def test_charts_show_images_or_columns(subject: Subject) -> None:
    chart = attribution_chart(subject, "grad_cam")
    cells = chart["data"]["values"]
    assert len(cells) == 16
    assert all(cell["url"].startswith("data:image/png;base64,") for cell in cells)
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    net = torch.nn.Sequential(torch.nn.Linear(3, 2))
    table = subject_of(net, X, (X[:, 0] > 0).astype(int))
    bars = attribution_chart(table, "integrated_gradients")["data"]["values"]
    assert {bar["column"] for bar in bars} == {"x0", "x1", "x2"}
    with pytest.raises(NotApplicable, match="not images"):
        attribution_chart(table, "grad_cam")


def test_pictures_are_drawn_as_svg_and_png(subject: Subject) -> None:
    pytest.importorskip("vl_convert")
    chart = attribution_chart(subject, "integrated_gradients", ROWS[:2])
    assert chart.svg().count("<image") == 4
    assert chart.png().startswith(b"\x89PNG")


def test_whole_numbers_have_no_gradient() -> None:
    net = torch.nn.Sequential(torch.nn.Embedding(5, 4), torch.nn.Flatten(), torch.nn.Linear(8, 2))
    X = np.random.default_rng(0).integers(0, 5, size=(60, 2))
    subject = subject_of(net, X, (X[:, 0] > 2).astype(int))
    with pytest.raises(NotApplicable):
        attribute(subject, ROWS, "saliency")
