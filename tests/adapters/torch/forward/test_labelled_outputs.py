from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn
from torch.nn import functional

from mothtrap.core.facts.evaluations import LabelledOutputs

Tensor = torch.Tensor
Evaluate = Callable[[nn.Module, Tensor, Tensor], Any]
X, Y = torch.eye(5).repeat(24, 1), torch.arange(5).repeat(24)


def observed(evaluate: Evaluate) -> list[LabelledOutputs]:
    """Evaluate a model of five classes after each of a few steps."""
    model = nn.Linear(5, 5)
    nn.init.eye_(model.weight)
    optimizer = sgd(model)
    with watched() as seen:
        for number in range(4):
            optimizer.zero_grad()
            functional.cross_entropy(model(X), Y).backward()
            optimizer.step()
            if number == 3:
                break
            model.eval()
            with torch.no_grad():
                evaluate(model, X, (Y + 1) % 5)
            model.train()
    return seen.observed(LabelledOutputs)


def accuracy(model: nn.Module, given: Tensor, wanted: Tensor) -> float:
    right = 0
    for inputs, labels in zip(given.split(40), wanted.split(40), strict=True):
        _, predicted = torch.max(model(inputs), 1)
        right += int((predicted == labels).sum())
    return right / len(wanted)


def test_labels_of_each_batch_are_counted() -> None:
    found = observed(accuracy)
    assert [(one.variable, one.targets.count) for one in found] == [("labels", 120)] * 3
    counts_KK = np.reshape(found[-1].targets.confusion or (), (5, 5))
    assert (counts_KK == 24 * np.roll(np.eye(5), -1, axis=1)).all()
    assert "test_labelled_outputs.py" in (found[0].location or "")


def test_the_variable_that_agrees_is_taken() -> None:
    def attacked(model: nn.Module, given: Tensor, wanted: Tensor) -> Tensor:
        known = (wanted + 4) % 5
        return model(given) + known[:, None]

    assert [one.variable for one in observed(attacked)] == ["known"] * 3


def test_an_evaluation_with_a_loss_is_left_to_the_loss() -> None:
    def evaluate(model: nn.Module, given: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(model(given), labels)

    assert observed(evaluate) == []


def test_predictions_are_no_labels() -> None:
    def evaluate(model: nn.Module, given: Tensor, _: Tensor) -> None:
        predicted = model(given).argmax(1)
        model(given + predicted[:, None])

    assert all(one.variable != "predicted" for one in observed(evaluate))


def test_two_datasets_in_one_evaluation_are_told_apart() -> None:
    def both(model: nn.Module, given: Tensor, wanted: Tensor) -> None:
        accuracy(model, given, (wanted + 4) % 5)
        accuracy(model, given, wanted)

    found = observed(both)[:2]
    assert len({one.site for one in found}) == 2
    right, wrong = (np.reshape(one.targets.confusion or (), (5, 5)) for one in found)
    assert (np.trace(right), np.trace(wrong)) == (120, 0)
