from __future__ import annotations

import math

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, sgd, watched
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from mothtrap.adapters.torch.job.graph import loss_terms
from mothtrap.adapters.torch.losses.loss_values import label_counts, prediction_spread
from mothtrap.core.facts.losses import LossCall


def term_of(loss: torch.Tensor):
    [term] = loss_terms(loss.grad_fn)
    return term


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


def test_hard_labels_are_counted_per_class() -> None:
    term = term_of(functional.cross_entropy(leaf(5, 4), torch.tensor([0, 2, 2, 3, 2])))
    assert label_counts(term) == (1, 0, 3, 1)


def test_ignored_labels_are_not_counted() -> None:
    term = term_of(functional.cross_entropy(leaf(4, 3), torch.tensor([0, -100, 1, -100])))
    assert label_counts(term) == (1, 1, 0)


def test_labels_of_images_are_counted_per_pixel() -> None:
    target = torch.zeros(2, 3, 3, dtype=torch.long)
    target[0, 0, 0] = 1
    assert label_counts(term_of(functional.cross_entropy(leaf(2, 2, 3, 3), target))) == (17, 1)


def test_binary_labels_are_counted_and_soft_ones_are_not() -> None:
    hard = term_of(
        functional.binary_cross_entropy_with_logits(leaf(4), torch.tensor([0.0, 1, 1, 1]))
    )
    assert label_counts(hard) == (1, 3)
    soft = term_of(
        functional.binary_cross_entropy(leaf(4).sigmoid(), torch.tensor([0.1, 0.9, 1, 0]))
    )
    assert label_counts(soft) is None


def test_soft_targets_of_classes_have_no_counts() -> None:
    assert (
        label_counts(term_of(functional.cross_entropy(leaf(4, 3), torch.full((4, 3), 1 / 3))))
        is None
    )


def test_regression_has_neither_labels_nor_spread() -> None:
    term = term_of(functional.mse_loss(leaf(4), torch.zeros(4)))
    assert (label_counts(term), prediction_spread(term)) == (None, None)


def test_equal_rows_have_no_spread() -> None:
    rows = torch.tensor([[1.0, 2.0, -1.0]]).repeat(6, 1).requires_grad_()
    spread = prediction_spread(
        term_of(functional.cross_entropy(rows, torch.zeros(6, dtype=torch.long)))
    )
    assert spread == pytest.approx(0.0, abs=1e-7)


def test_the_spread_is_that_of_the_class_probabilities() -> None:
    logits = leaf(6, 3)
    expected = logits.detach().softmax(1).std(dim=0, correction=0).mean().item()
    found = prediction_spread(
        term_of(functional.cross_entropy(logits, torch.zeros(6, dtype=torch.long)))
    )
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("with_logits", [True, False])
def test_the_spread_of_a_binary_loss_is_of_the_probability(with_logits: bool) -> None:
    logits, target = leaf(6, 1), torch.ones(6, 1)
    if with_logits:
        term = term_of(functional.binary_cross_entropy_with_logits(logits, target))
    else:
        term = term_of(functional.binary_cross_entropy(logits.sigmoid(), target))
    expected = logits.detach().sigmoid().std(correction=0).item()
    assert prediction_spread(term) == pytest.approx(expected, rel=1e-5)


def test_one_row_has_no_spread() -> None:
    assert (
        prediction_spread(term_of(functional.cross_entropy(leaf(1, 3), torch.tensor([0])))) is None
    )


def test_values_that_a_backward_has_freed_are_not_read() -> None:
    loss = functional.cross_entropy(leaf(4, 3), torch.tensor([0, 1, 2, 0]))
    term = term_of(loss)
    loss.backward()
    assert (label_counts(term), prediction_spread(term)) == (None, None)


def test_probabilities_that_are_not_finite_are_no_failure() -> None:
    logits = torch.full((4, 3), math.nan, requires_grad=True)
    spread = prediction_spread(
        term_of(functional.cross_entropy(logits, torch.tensor([0, 1, 2, 0])))
    )
    assert spread is None or math.isnan(spread)


def test_a_loss_call_carries_what_was_looked_at() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        x, y = batch(rows=5)
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    [call] = seen.observed(LossCall)
    assert call.label_counts == (2, 2, 1)
    assert call.prediction_spread is not None
    assert call.prediction_spread > 0


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_loss_inside_a_checkpointed_segment_is_not_run_again(use_reentrant: bool) -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 3))
    runs = 0

    def segment(hidden: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        nonlocal runs
        runs += 1
        return functional.cross_entropy(model[1](hidden), y)

    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(10):
            x, y = batch()
            checkpoint(segment, model[0](x), y, use_reentrant=use_reentrant).backward()
            optimizer.step()
    assert runs == 20
    assert all(call.label_counts is None for call in seen.observed(LossCall))


def test_offloaded_values_are_not_fetched() -> None:
    unpacked: list[int] = []
    pack, unpack = (lambda t: t), (lambda t: unpacked.append(1) or t)
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        term = term_of(functional.cross_entropy(leaf(4, 3), torch.tensor([0, 1, 2, 0])))
    assert (label_counts(term), prediction_spread(term), unpacked) == (None, None, [])
