"""Weights of copies of a trained model."""

from __future__ import annotations

import torch
from tests.adapters.torch.watched import batch, classifier, sgd, train, watched
from torch.optim.swa_utils import AveragedModel

from mothtrap.core.facts.evaluations import EvaluatedCopy


def digests(*, updates: bool) -> list[tuple[int, str]]:
    model = classifier()
    averaged = AveragedModel(model)
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(3):
            train(model, optimizer, steps=2)
            if updates:
                averaged.update_parameters(model)
            with torch.no_grad():
                for _ in range(2):
                    averaged(batch()[0]).argmax(1)
        train(model, optimizer, steps=2)
        assert seen.failed() == []
        every = [one for one in seen.observed(EvaluatedCopy) if isinstance(one, EvaluatedCopy)]
    assert all("test_evaluated_copies.py" in (one.location or "") for one in every)
    return [(one.step, one.digest) for one in every]


def test_the_weights_of_an_average_are_recorded_in_each_evaluation() -> None:
    still, moving = digests(updates=False), digests(updates=True)
    assert [step for step, _ in still] == [step for step, _ in moving] == [2, 4, 6]
    assert len({digest for _, digest in still}) == 1
    assert len({digest for _, digest in moving}) == 3
