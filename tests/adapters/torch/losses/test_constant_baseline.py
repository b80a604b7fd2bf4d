from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from mothtrap.adapters.torch.losses.constant_baseline import add_targets
from mothtrap.adapters.torch.losses.loss_calls import inputs_of
from mothtrap.tracing.describe import constant_baseline
from mothtrap.tracing.describe.constant_baseline import ConstantBaseline


def guess(
    name: str, *batches: tuple[torch.Tensor, torch.Tensor], **keywords: object
) -> ConstantBaseline:
    found = ConstantBaseline()
    for x, y in batches:
        add_targets(found, inputs_of(name, (x, y), keywords))
    return found


def best_constant(name: str, y: torch.Tensor, start: torch.Tensor, **keywords: object) -> float:
    """Return the lowest loss of one prediction for every row, found by gradient descent."""
    shared = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([shared], lr=0.05)
    for _ in range(500):
        optimizer.zero_grad()
        loss = getattr(functional, name)(shared.expand(len(y), -1), y, **keywords)
        loss.backward()
        optimizer.step()
    return float(loss.detach())


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_of_classes_it_is_the_entropy_of_their_shares(smoothing: float) -> None:
    y = torch.tensor([0, 0, 0, 1, 1, 2])
    x = torch.zeros(6, 3)
    found = guess("cross_entropy", (x[:4], y[:4]), (x[4:], y[4:]), label_smoothing=smoothing)
    expected = best_constant("cross_entropy", y, torch.zeros(1, 3), label_smoothing=smoothing)
    assert found.loss() == pytest.approx(expected, abs=1e-3)


def test_ignored_labels_do_not_count() -> None:
    y = torch.tensor([0, 1, -100, -100])
    assert guess("cross_entropy", (torch.zeros(4, 2), y)).loss() == pytest.approx(math.log(2))


def test_of_numbers_it_is_their_variance_within_columns() -> None:
    y = torch.randn(50, 3) + torch.tensor([0.0, 10.0, 100.0])
    found = guess("mse_loss", (y[:20], y[:20]), (y[20:], y[20:]))
    expected = best_constant("mse_loss", y, torch.tensor([[0.0, 10.0, 100.0]]))
    assert found.loss() == pytest.approx(expected, rel=1e-3)


def test_of_probabilities_it_is_the_mean_entropy_of_columns() -> None:
    y = (torch.rand(60, 2) < torch.tensor([0.2, 0.6])).float()
    found = guess("binary_cross_entropy_with_logits", (y, y))
    expected = best_constant("binary_cross_entropy_with_logits", y, torch.zeros(1, 2))
    assert found.loss() == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "target", "keywords"),
    [
        ("l1_loss", torch.zeros(4, 3), {}),
        ("cross_entropy", torch.full((4, 3), 1 / 3), {}),
        ("cross_entropy", torch.zeros(4, dtype=torch.long), {"weight": torch.ones(3)}),
        ("binary_cross_entropy_with_logits", torch.ones(4, 3), {"pos_weight": torch.ones(3)}),
        ("binary_cross_entropy_with_logits", torch.full((4, 3), 2.0), {}),
    ],
)
def test_it_is_unknown_of_other_losses(
    name: str, target: torch.Tensor, keywords: dict[str, object]
) -> None:
    assert guess(name, (torch.zeros(4, 3), target), **keywords).loss() is None


def test_it_is_unknown_where_batches_do_not_fit_or_are_huge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    apart = guess("mse_loss", (torch.ones(2, 3),) * 2, (torch.ones(2, 4),) * 2)
    assert apart.loss() is None
    monkeypatch.setattr(constant_baseline, "MAX_COLUMNS", 2)
    assert guess("mse_loss", (torch.ones(2, 3),) * 2).loss() is None
    assert ConstantBaseline().loss() is None


def test_hard_labels_are_counted_by_class_also_where_the_loss_is_weighted() -> None:
    y = torch.tensor([0, 2, 2, -100])
    assert guess("cross_entropy", (torch.zeros(4, 3), y)).label_counts() == (1, 0, 2)
    weighted = guess("cross_entropy", (torch.zeros(4, 3), y), weight=torch.ones(3))
    assert (weighted.label_counts(), weighted.loss()) == ((1, 0, 2), None)
    ones = torch.tensor([0.0, 1.0, 1.0])
    name = "binary_cross_entropy_with_logits"
    assert guess(name, (torch.zeros(3), ones)).label_counts() == (1, 2)


@pytest.mark.parametrize(
    ("name", "y"),
    [
        ("mse_loss", torch.tensor([0.0, 1.0, 1.0])),
        ("binary_cross_entropy_with_logits", torch.tensor([0.0, 0.5, 1.0])),
        ("binary_cross_entropy_with_logits", torch.tensor([[0.0, 1.0], [1.0, 1.0]])),
    ],
)
def test_numbers_soft_targets_and_several_labels_are_no_classes(name: str, y: torch.Tensor) -> None:
    assert guess(name, (torch.zeros_like(y), y)).label_counts() is None


def test_tokens_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constant_baseline, "MAX_REPORTED", 2)
    found = guess("cross_entropy", (torch.zeros(2, 3), torch.tensor([0, 1])))
    assert found.label_counts() is None
    assert found.loss() == pytest.approx(math.log(2))
