"""Soft targets and labels of the same rows in a loss."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn
from torch.nn import functional

from mothtrap.core.facts.targets import SoftTargets

Tensor = torch.Tensor
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def compared(loss_of: Loss, *, shift: int = 0, classes: int = 4) -> list[SoftTargets]:
    """Train on soft targets of labels that are shifted by some rows."""
    torch.manual_seed(0)
    model = nn.Linear(5, classes)
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(30):
            labels = torch.arange(32) % classes
            soft = (4.0 * functional.one_hot(labels.roll(shift), classes)).softmax(-1)
            optimizer.zero_grad()
            loss_of(model(torch.randn(32, 5)), soft, labels).backward()
            optimizer.step()
        assert seen.failed() == []
        return [one for one in seen.observed(SoftTargets) if isinstance(one, SoftTargets)]


def of_divergence(scores: Tensor, soft: Tensor, labels: Tensor) -> Tensor:
    student = functional.log_softmax(scores / 4, dim=1)
    divergence = functional.kl_div(student, soft, reduction="batchmean")
    return 0.9 * 16 * divergence + 0.1 * functional.cross_entropy(scores, labels)


def by_hand(scores: Tensor, soft: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(scores, labels) - (soft * scores.log_softmax(1)).sum(1).mean()


def of_two_targets(scores: Tensor, soft: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(scores, soft) + functional.cross_entropy(scores, labels)


LOSSES = [of_divergence, by_hand, of_two_targets]


@pytest.mark.parametrize("loss_of", LOSSES)
@pytest.mark.parametrize(("shift", "agree"), [(0, 224), (1, 0)])
def test_classes_are_compared(loss_of: Loss, shift: int, agree: int) -> None:
    [one] = compared(loss_of, shift=shift)
    assert (one.looks, one.rows, one.agree) == (7, 224, agree)
    assert one.given == one.labels == (56, 56, 56, 56)
    assert one.surest == pytest.approx(0.948, abs=0.001)
    assert "test_soft_targets.py" in (one.location or "")


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda scores, soft, _: functional.cross_entropy(scores, soft),
        lambda scores, _, labels: functional.cross_entropy(scores, labels),
        lambda scores, soft, labels: (
            functional.cross_entropy(scores, labels) + functional.mse_loss(scores, soft)
        ),
    ],
    ids=["soft only", "labels only", "squared"],
)
def test_other_losses(loss_of: Loss) -> None:
    assert compared(loss_of) == []


def test_a_contrastive_loss_has_as_many_classes_as_rows() -> None:
    assert compared(of_divergence, classes=32) == []
