"""Attacks stay inside their radius, and find the changes that a linear model fears."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tests.behavior.asking import subject_of as any_subject
from tests.behavior.networks import convolutional, digits, subject_of, trained

from mothtrap.behavior.attacks import fgsm, noise, pgd, two_columns


def accuracy(subject: Any, rows: Any, of: Any) -> float:
    from mothtrap.behavior.table import Table

    answers = subject.ask(Table(rows)).argmax(axis=1)
    return float((answers == subject.judged.target_R[of]).mean())


def test_changes_stay_within_the_radius_and_the_range_and_hurt_in_order() -> None:
    X, y = digits()
    torch.manual_seed(0)
    net = trained(convolutional(), X[:1000], y[:1000], 4)
    subject = subject_of(net, X[1000:], y[1000:])
    of = np.flatnonzero(subject.judged.wrong_R == 0)[:100]
    scores = {}
    for attack in (noise, fgsm, pgd):
        found = attack(subject, of, 0.1)
        assert np.abs(found - X[1000:][of]).max() <= 0.1 + 1e-6
        assert found.min() >= 0
        assert found.max() <= 1
        scores[attack.__name__] = accuracy(subject, found, of)
    assert scores["pgd"] <= scores["fgsm"] + 0.02 < scores["noise"]


def test_fgsm_of_a_linear_model_is_the_worst_change() -> None:
    weight = torch.tensor([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0]])
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3, 2))
    with torch.no_grad():
        net[1].weight[:] = weight
        net[1].bias[:] = 0
    X = np.random.default_rng(0).uniform(-1, 1, (80, 1, 1, 3)).astype(np.float32)
    y = (X[:, 0, 0] @ weight[0].numpy() < 0).astype(int)
    subject = subject_of(net, X, y)
    rows = np.arange(80)
    found = fgsm(subject, rows, 0.1) - X
    toward = np.where(y == 0, -1, 1)[:, None] * np.sign(weight[0].numpy())
    inside = np.abs(X[:, 0, 0]) < 0.8  # elsewhere the range bounds the change
    assert np.allclose(found[:, 0, 0][inside], (0.1 * toward)[inside], atol=1e-6)


def test_two_columns_of_a_jagged_model_are_enough() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (300, 5))

    def edge(rows: Any) -> Any:
        one = 1 / (1 + np.exp(-40 * (rows[:, 0] + rows[:, 1] - 10)))
        return np.stack([1 - one, one], axis=1)

    y = (X[:, 0] + X[:, 1] > 10).astype(int)
    subject = any_subject(edge, X, y)
    flipped, random = two_columns(subject, np.arange(300), 0.05)
    close = np.abs(X[:, 0] + X[:, 1] - 10) < 0.85
    far = np.abs(X[:, 0] + X[:, 1] - 10) > 1
    assert flipped[close].mean() > 0.9
    assert not flipped[far].any()
    assert random.mean() < flipped.mean()
