"""A network in training mode answers by its batch; in evaluation mode it does not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.behavior.asking import suspicions

from mothtrap.behavior.probes.depends_on_companions import DependsOnCompanions

X = np.random.default_rng(0).normal(2, 3, size=(300, 4)).astype(np.float32)
Y = (X[:, 0] > 2).astype(int)


@pytest.mark.parametrize("layer", ["norm", "dropout"])
@pytest.mark.parametrize("training", [True, False])
def test_batch_statistics_and_dropout(layer: str, training: bool) -> None:
    torch.manual_seed(0)
    middle = torch.nn.BatchNorm1d(8) if layer == "norm" else torch.nn.Dropout(0.5)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), middle, torch.nn.Linear(8, 2)).train(training)

    def predict(a: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return net(torch.tensor(a)).softmax(1).numpy()

    found = suspicions(DependsOnCompanions(), predict, X, Y)
    assert len(found) == training
    for one in found:
        word = "half of the other rows" if layer == "norm" else "passed again"
        assert word in one.message
        assert one.exact


def test_the_place_in_the_batch_counts() -> None:
    found = suspicions(DependsOnCompanions(), lambda a: a[:, 0] + np.arange(len(a)), X, X[:, 0])
    assert "another position" in found[0].message
