"""Weights of copies of a trained model."""

from __future__ import annotations

from copy import deepcopy as copy_of

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, sgd, train, watched
from torch import nn
from torch.optim.swa_utils import AveragedModel

from mothtrap.core.facts.evaluations import CopyLag, EvaluatedCopy


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


def looks(*, teacher: bool, updates: bool) -> list[EvaluatedCopy]:
    """Train with targets of a copy, of the same data or of other data."""
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    copy = copy_of(model)
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(12):
            state, later = torch.randn(2, 5, 4)
            value = model(state)
            with torch.no_grad():
                target = 1 + 0.9 * copy(state if teacher else later)
            optimizer.zero_grad()
            nn.functional.mse_loss(value, target).backward()
            optimizer.step()
            if updates:
                copy.load_state_dict(model.state_dict())
        assert seen.failed() == []
        return [one for one in seen.observed(EvaluatedCopy) if isinstance(one, EvaluatedCopy)]


def test_data_of_a_target_network_differ_from_those_of_the_model() -> None:
    last = looks(teacher=False, updates=False)[-1]
    assert (last.same, last.apart >= 4) == (0, True)
    last = looks(teacher=True, updates=False)[-1]
    assert (last.same >= 4, last.apart) == (True, 0)
    assert len({one.digest for one in looks(teacher=False, updates=True)}) > 4


@pytest.mark.parametrize(
    ("buffers", "training", "norms"), [(False, False, 2), (True, False, 0), (False, True, 0)]
)
def test_batch_norms_that_never_saw_a_batch(buffers: bool, training: bool, norms: int) -> None:
    model = nn.Sequential(
        *(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU()),
        *(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)),
    )
    copy = copy_of(model)
    with watched() as seen:
        optimizer = sgd(model)
        train(model, optimizer, steps=3)
        if buffers:
            copy.load_state_dict(model.state_dict())
        copy.train(training)
        with torch.no_grad():
            copy(batch()[0])
        train(model, optimizer, steps=1)
        assert seen.failed() == []
        [one] = [one for one in seen.observed(EvaluatedCopy) if isinstance(one, EvaluatedCopy)]
    assert one.initial_norms == norms


@pytest.mark.parametrize("decay", [0.5, 0.9999])
def test_how_far_an_average_follows_is_measured(decay: float) -> None:
    model = classifier()
    copy = copy_of(model)
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(12):
            train(model, optimizer, steps=1)
            with torch.no_grad():
                for slow, fast in zip(copy.parameters(), model.parameters(), strict=True):
                    slow.lerp_(fast, 1 - decay)
                copy(batch()[0])
        assert seen.failed() == []
    [lag] = seen.observed(CopyLag)
    assert lag.steps >= 10
    assert lag.ran == 12
    assert (lag.moved > 0.3) if decay == 0.5 else (0 < lag.moved < 0.01)
