"""BEH701: a frame that gives the class away is named, a frame without meaning is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.behavior.asking import suspicions
from tests.behavior.networks import convolutional, digits, framed, subject_of, trained

from mothtrap.behavior.probes.looks_at_border import LooksAtBorder, border_of, corners_of, without
from mothtrap.behavior.table import Table
from mothtrap.core.errors import NotApplicable


def found(number_R: Any) -> Any:
    images, y = digits()
    unclear = images + 0.3 * np.random.default_rng(1).normal(size=images.shape)
    X = framed(unclear, number_R)
    torch.manual_seed(0)
    net = trained(convolutional(side=10), X[:900], y[:900], epochs=5)
    return list(LooksAtBorder().look(subject_of(net, X[900:], y[900:])))


def test_a_frame_that_tells_the_class_is_named() -> None:
    _, y = digits()
    (only,) = found(y)
    assert only.p < 1e-6
    assert only.evidence["value"] > 0.5
    assert only.evidence["changed without the border"] > 0.3
    assert len(only.rows) > 80
    assert "of the decision comes from the border" in only.message


def test_a_frame_at_random_is_quiet() -> None:
    _, y = digits()
    assert not found(np.random.default_rng(0).integers(0, 10, len(y)))


def test_the_border_is_a_tenth_on_each_side() -> None:
    assert border_of((8, 8)).sum() == 28
    assert border_of((40, 20)).sum() == 800 - 32 * 16


def test_colors_on_either_axis_lose_the_border() -> None:
    border = border_of((6, 6))
    for shape in ((5, 6, 6), (5, 3, 6, 6), (5, 6, 6, 3)):
        images = np.random.default_rng(0).random(shape).astype(np.float32)
        hidden = without(Table(images), np.arange(5), border, np.arange(5)).data
        flat = hidden if len(shape) == 3 else hidden.mean(axis=1 if shape[1] == 3 else 3)
        assert np.ptp(flat[:, border], axis=0).max() < 1e-6
        assert np.ptp(flat[:, ~border], axis=0).min() > 0


def test_corners_are_a_quarter_of_both_sides() -> None:
    found = corners_of((8, 12))
    assert [each.sum() for each in found] == [6, 6, 6, 6]
    assert found[1][0, 11]
    assert found[2][7, 0]
    assert not (found[0] & found[3]).any()


def marked(chosen_R: Any) -> Any:
    """Findings where chosen images have a white mark in the upper right corner."""
    images, y = digits()
    images = images.copy()
    images[chosen_R, :, :2, -2:] = 1
    torch.manual_seed(0)
    net = trained(convolutional(), images[:900], y[:900], epochs=5)
    return list(LooksAtBorder().look(subject_of(net, images[900:], y[900:])))


def test_a_mark_in_a_corner_of_one_class_is_named() -> None:
    _, y = digits()
    (only,) = marked(y == 1)
    assert only.evidence["classes"] == "1"
    assert only.evidence["changed without the corner"] > 0.9
    assert only.features == ("upper right corner",)
    assert "of the decision for 1 comes from the upper right corner" in only.message


def test_a_mark_without_meaning_is_quiet() -> None:
    _, y = digits()
    assert not marked(np.random.default_rng(0).random(len(y)) < 0.2)


def test_tables_are_not_looked_at() -> None:
    X = np.random.default_rng(0).normal(size=(100, 2))
    with pytest.raises(NotApplicable, match="PyTorch or Keras"):
        suspicions(LooksAtBorder(), lambda rows: rows[:, 0], X, X[:, 0])
