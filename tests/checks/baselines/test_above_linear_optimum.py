"""Linear models that stay above their optimum."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from tests.checks.checked import finding, passes, result
from torch import nn

CODE = "PRE402"
SCALES = torch.tensor([1.0, 0.01, 1.0, 0.01])


def numbers() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    x = torch.randn(64, 4)
    return x, x @ torch.tensor([[1.0], [2.0], [-1.0], [2.0]]) + 0.3 * torch.randn(64, 1)


def sgd(model: nn.Module, rate: float = 0.05) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=rate)


def test_columns_of_other_sizes_are_named() -> None:
    x, y = numbers()
    model = nn.Linear(4, 1)
    found = finding(CODE, model, [(x * SCALES, y)], nn.MSELoss(), optimizer=sgd(model))
    assert found.severity == "warning"
    assert "scales of the input columns differ" in found.message
    own = LinearRegression().fit(x, y)
    least = float(((own.predict(x) - y.numpy()) ** 2).mean())
    assert found.evidence["optimum"] == pytest.approx(least, rel=1e-3)


def test_a_linear_model_at_its_optimum_is_no_fault() -> None:
    model = nn.Linear(4, 1)
    assert passes(CODE, model, [numbers()], nn.MSELoss(), optimizer=sgd(model))


def test_weight_decay_that_keeps_the_weights_small_is_named() -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=1.0)
    found = finding(CODE, model, [numbers()], nn.MSELoss(), optimizer=optimizer)
    assert "without weight decay" in found.message


def test_a_linear_autoencoder_is_compared_with_its_principal_components() -> None:
    torch.manual_seed(0)
    x = torch.randn(128, 6) @ torch.diag(torch.tensor([3.0, 2.0, 1.0, 0.5, 0.5, 0.5]))
    model = nn.Sequential(nn.Linear(6, 2), nn.Linear(2, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    made = result(CODE, model, [(x, x)], nn.MSELoss(), optimizer=optimizer)
    assert not made.found
    pca = PCA(2).fit(x)
    least = float(np.mean((pca.inverse_transform(pca.transform(x)) - x.numpy()) ** 2))
    name = "loss of a principal component analysis with 2 components"
    assert made.figures[name] == pytest.approx(least, rel=1e-3)


def test_a_network_has_no_linear_twin() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    made = result(CODE, model, [numbers()], nn.MSELoss(), optimizer=sgd(model))
    assert made.reason == "the model is not linear"


def test_a_batch_with_few_rows_decides_nothing() -> None:
    x, y = numbers()
    model = nn.Linear(4, 1)
    made = result(CODE, model, [(x[:6], y[:6])], nn.MSELoss(), optimizer=sgd(model))
    assert made.state == "not_enough_data"


def small_batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Batches of eight rows of four columns: too few rows for one batch to decide."""
    x, y = numbers()
    return list(zip(x.split(8), y.split(8), strict=True))[:5]


def test_several_batches_are_compared_with_their_common_optimum() -> None:
    model, batches = nn.Linear(4, 1), small_batches()
    made = result(CODE, model, batches, nn.MSELoss(), optimizer=sgd(model))
    assert (made.state, made.found, made.figures["batches"]) == ("done", (), 5)
    x, y = (torch.cat(parts) for parts in zip(*batches, strict=True))
    own = LinearRegression().fit(x, y)
    least = float(((own.predict(x) - y.numpy()) ** 2).mean())
    assert made.figures["loss of least squares"] == pytest.approx(least, rel=1e-3)


def test_a_fault_that_one_small_batch_does_not_show_is_named() -> None:
    model = nn.Linear(4, 1)
    batches = [(x * SCALES, y) for x, y in small_batches()]
    found = finding(CODE, model, batches, nn.MSELoss(), optimizer=sgd(model))
    assert "on 5 batches" in found.message
    alone = result(CODE, model, batches[:1], nn.MSELoss(), optimizer=sgd(model))
    assert alone.state == "not_enough_data"


def test_a_batch_that_repeats_counts_once() -> None:
    model = nn.Linear(4, 1)
    made = result(CODE, model, small_batches()[:1] * 5, nn.MSELoss(), optimizer=sgd(model))
    assert made.reason.endswith("the recorded batches have 8 rows of 4 columns")
