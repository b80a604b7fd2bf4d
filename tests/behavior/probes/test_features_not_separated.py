"""BEH702: a large useless feature mixes the classes; without it they are separated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.behavior.networks import subject_of

from mothtrap.behavior.probes.features_not_separated import FeaturesNotSeparated
from mothtrap.core.errors import NotApplicable, NotEnoughData


def network(scale: float) -> Any:
    """Two classes by the sign of the first column; a feature holds the second one, scaled."""
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    with torch.no_grad():
        net[0].weight[:] = torch.tensor([[1.0, 0], [-1, 0], [0, scale]])
        net[0].bias[:] = torch.tensor([0.0, 0, 4 * scale])
        net[2].weight[:] = torch.tensor([[0.0, 1, 0], [1, 0, 0]])
        net[2].bias[:] = 0
    return net


def rows(count: int = 600) -> tuple[Any, Any]:
    X = np.random.default_rng(0).normal(size=(count, 2)).astype(np.float32)
    return X, (X[:, 0] > 0).astype(int)


def looked(net: Any, X: Any, y: Any) -> list[Any]:
    return [each for each in FeaturesNotSeparated().look(subject_of(net, X, y)) if each.p != 1.0]


def test_a_feature_with_large_values_hides_the_classes() -> None:
    (found,) = looked(network(1e4), *rows())
    assert found.p < 1e-6
    assert found.evidence["value"] > 0.3
    assert found.evidence["reference"] == 0.0
    assert "feature 2 of 3 has 100 % of their variance" in found.message


def test_a_feature_of_usual_size_hides_nothing() -> None:
    assert looked(network(1.0), *rows()) == []


def test_classes_that_the_network_does_not_know_either_are_no_finding() -> None:
    X, y = rows()
    assert looked(network(1e4), X, np.random.default_rng(1).permutation(y)) == []


def test_numbers_and_few_rows_are_left_out() -> None:
    X, y = rows()
    single = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    with pytest.raises(NotApplicable, match="numbers"):
        looked(single, X, X[:, 0])
    with pytest.raises(NotEnoughData, match="120 rows"):
        looked(network(1.0), X[:100], y[:100])
