from __future__ import annotations

import pytest
import torch
from tests.adapters.torch.watched import classifier, sgd, train, watched

from mothtrap.core.config import Config


@pytest.mark.parametrize("every", [0, 2])
def test_losses_of_earlier_steps_are_hashed_where_they_may_be_asked_for(every: int) -> None:
    """Only a step that is replayed from a base is reported afterwards."""
    model = classifier()
    with watched(capture=(), config=Config(snapshot_every=every)) as seen:
        train(model, sgd(model), 3)
        told = [seen.tracer.snapshots.truth.told(step) is not None for step in range(2)]
    assert told == [every > 0] * 2


def test_losses_are_told_as_numbers_too() -> None:
    model = classifier()
    with watched(capture=(), config=Config()) as seen:
        truth = seen.tracer.snapshots.truth
        train(model, sgd(model), 1)
        truth.new_step()
        truth.loss("train.py:3", torch.tensor(float("inf")))
        truth.loss("train.py:3", torch.tensor(0.5))
        told = truth.report(())
    assert list(told.losses) == ["train.py:3", "train.py:3#2"]
    assert told.values == (float("inf"), 0.5)
