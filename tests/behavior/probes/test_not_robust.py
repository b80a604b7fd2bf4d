"""BEH402: invisible features are named, and models that only noise confuses are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.behavior.asking import outcome
from tests.behavior.networks import subject_of

from mothtrap.behavior.probes.not_robust import NotRobust
from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity


def matched(height: float) -> Any:
    """A filter for a pattern of this height in images from 0 to 1, and such images."""
    rng = np.random.default_rng(0)
    pattern = rng.choice([-1.0, 1.0], (16, 16))
    y = rng.integers(0, 2, 300)
    signs = np.where(y == 1, 1, -1)[:, None, None]
    X = np.clip(0.5 + height * signs * pattern + rng.normal(0, 1e-4, (300, 16, 16)), 0, 1)
    X[0, 0, 0], X[1, 0, 0] = 0.0, 1.0
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(256, 2))
    with torch.no_grad():
        net[1].weight[1] = torch.tensor(pattern.reshape(-1) / height / 25)
        net[1].weight[0] = -net[1].weight[1]
        net[1].bias[:] = torch.tensor([1.0, -1.0]) * 0.5 * net[1].weight[1].sum()
    return net, X[:, None].astype(np.float32), y


def test_an_invisible_pattern_is_a_warning() -> None:
    (found,) = NotRobust().look(subject_of(*matched(0.003)))
    assert found.severity is Severity.WARNING
    assert found.evidence["value"] < 0.5
    assert found.evidence["attack"] == "PGD, 20 steps"
    assert "at most 1/255" in found.message


def test_a_pattern_that_can_be_seen_is_robust() -> None:
    assert not list(NotRobust().look(subject_of(*matched(0.3))))


def spiky(rows: Any) -> Any:
    one = (np.sin(40 * rows[:, 0]) + np.sin(40 * rows[:, 1]) > 0).astype(float)
    return np.stack([1 - one, one], axis=1)


def test_a_model_that_any_noise_confuses_is_left_to_another_probe() -> None:
    X = np.random.default_rng(0).uniform(0, 1, (300, 2))
    assert not outcome(NotRobust(), spiky, X, spiky(X).argmax(axis=1)).findings


def test_chosen_changes_of_a_table_are_a_note() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (400, 20))
    X += (10 + rng.uniform(-0.13, 0.13, 400) - X.sum(axis=1))[:, None] / 20  # near the border

    def border(rows: Any) -> Any:
        one = 1 / (1 + np.exp(-20 * (rows.sum(axis=1) - 10)))
        return np.stack([1 - one, one], axis=1)

    (found,) = outcome(NotRobust(), border, X, (X.sum(axis=1) > 10).astype(int)).findings
    assert found.severity is Severity.INFO
    assert found.evidence["value"] == pytest.approx(0.69, abs=0.1)
    assert found.evidence["random changes"] < 0.23
    assert found.evidence["rows"] > 100


def test_a_smooth_model_of_a_table_is_quiet() -> None:
    X = np.random.default_rng(0).normal(size=(600, 4))

    def smooth(rows: Any) -> Any:
        one = 1 / (1 + np.exp(-3 * rows[:, 0]))
        return np.stack([1 - one, one], axis=1)

    assert not outcome(NotRobust(), smooth, X, (X[:, 0] > 0).astype(int)).findings


def test_numbers_are_not_attacked() -> None:
    X = np.random.default_rng(0).normal(size=(100, 2))
    net = torch.nn.Sequential(torch.nn.Linear(2, 1))
    with pytest.raises(NotApplicable, match="predicts numbers"):
        list(NotRobust().look(subject_of(net, X.astype(np.float32), X[:, 0])))
