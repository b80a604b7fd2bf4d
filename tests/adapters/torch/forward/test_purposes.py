"""The purpose of a forward under autograd, which only its backward reveals."""

from __future__ import annotations

import pytest
import torch
from tests.adapters.torch.watched import EVERYTHING, Seen, batch, classifier, sgd, watched
from torch import nn
from torch.nn import functional

from mothtrap.core.steps import Mode
from mothtrap.statistics.summary import FIELDS

ROWS, CLASSES = 4, 3


def counts(seen: Seen, mode: Mode = Mode.TRAIN) -> list[list[int]]:
    """Return the number of elements of each output of the last layer, by record."""
    found = []
    for record in seen.steps(mode):
        rows = zip(record.tensor_T, record.summary_TF, strict=True)
        own = [r for t, r in rows if seen.tensors[int(t)].identity == "activation:2"]
        if own:
            found.append([int(row[FIELDS.index("count")]) for row in own])
    return found


def trained(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    x, y = batch(rows=ROWS)
    optimizer.zero_grad()
    functional.cross_entropy(model(x), y).backward()
    optimizer.step()


@pytest.mark.parametrize(("training", "mode"), [(False, Mode.EVAL), (True, Mode.PREDICT)])
def test_a_forward_without_a_backward_is_no_part_of_the_training(
    training: bool, mode: Mode
) -> None:
    model = classifier()
    with watched(capture=EVERYTHING) as seen:
        optimizer = sgd(model)
        for _ in range(3):
            model.train(training)
            model(torch.randn(100, 6))
            model.train()
            trained(model, optimizer)
        model(batch()[0])
    assert counts(seen) == [[ROWS * CLASSES]] * 3
    assert counts(seen, mode) == [[100 * CLASSES]] * 3
    apart = [record.key for record in seen.steps(mode) if len(record.tensor_T)]
    assert [(key.step, key.mode_step) for key in apart] == [(0, 0), (1, 1), (2, 2)]


def test_a_forward_in_evaluation_mode_that_a_backward_reaches_is_training() -> None:
    model = classifier().eval()  # fine-tuning with frozen statistics
    with watched(capture=EVERYTHING) as seen:
        optimizer = sgd(model)
        for _ in range(2):
            trained(model, optimizer)
        model(batch()[0])
    assert counts(seen) == [[ROWS * CLASSES]] * 2
    assert counts(seen, Mode.EVAL) == []


def test_all_forwards_of_one_backward_and_of_micro_batches_are_training() -> None:
    model = classifier()
    with watched(capture=EVERYTHING) as seen:
        optimizer = sgd(model)
        for _ in range(2):
            optimizer.zero_grad()
            (x, y), (others, _) = batch(rows=ROWS), batch(rows=ROWS)
            first, second = model(x), model(others)
            (functional.cross_entropy(first, y) + second.square().mean()).backward()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        model(x)
    assert counts(seen) == [[3 * ROWS * CLASSES]] * 2
