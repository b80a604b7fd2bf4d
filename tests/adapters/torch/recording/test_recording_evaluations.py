"""Forwards without autograd: those of a teacher belong to a step, evaluations keep only a few."""

from __future__ import annotations

import torch
from tests.adapters.torch.watched import classifier, sgd, watched
from torch import nn

from mothtrap.adapters.torch.recording.recording import MAX_EVALUATIONS
from mothtrap.core.snapshots import ForwardCalled


def _trains(events: tuple[object, ...]) -> list[bool]:
    return [event.trains for event in events if isinstance(event, ForwardCalled)]


def test_a_teacher_that_is_called_first_is_the_first_event() -> None:
    with watched(capture=()) as seen:
        teacher, model = classifier(), classifier()
        optimizer, recording = sgd(model), seen.tracer.recording
        for _ in range(3):
            x = torch.randn(4, 6)
            with torch.no_grad():
                wanted = teacher(x)
            (model(x) - wanted).square().mean().backward()
            optimizer.step()
        for step in (0, 1):
            kept = recording.kept(step)
            assert kept is not None
            assert _trains(kept.recorded.events) == [False, True]
            first, second = kept.recorded.events
            assert first.args == second.args
            assert (first.rng is None, second.rng is None) == (True, False)


def test_of_an_evaluation_only_the_first_ones_are_noted() -> None:
    with watched(capture=()) as seen:
        model = classifier()
        optimizer, recording = sgd(model), seen.tracer.recording
        for _ in range(2):
            with torch.no_grad():
                for _ in range(5 * MAX_EVALUATIONS):
                    model(torch.randn(4, 6))
            model(torch.randn(4, 6)).mean().backward()
            optimizer.step()
        kept = recording.kept(0)
        assert kept is not None
        assert _trains(kept.recorded.events) == [False] * MAX_EVALUATIONS + [True]


def test_buffers_are_those_before_the_first_forward_of_either_kind() -> None:
    """A norm layer in training mode also changes without autograd."""
    with watched(capture=()) as seen:
        model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        optimizer, beforehand = sgd(model), seen.tracer.recording.before
        for _ in range(3):
            before = model[1].get_buffer("running_mean").clone()
            with torch.no_grad():
                model(torch.randn(4, 2))
            model(torch.randn(4, 2)).mean().backward()
            copy = beforehand.earlier()[id(model[1].running_mean)]
            assert torch.equal(copy, before)
            optimizer.step()


def test_buffers_of_a_model_that_was_not_called_are_as_they_are() -> None:
    with watched(capture=()) as seen:
        models = [nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)) for _ in range(2)]
        both, before = [sgd(model) for model in models], seen.tracer.recording.before
        for step in range(4):
            called = step % 2
            models[called](torch.randn(4, 2)).mean().backward()
            earlier = before.earlier()
            assert id(models[1 - called][1].running_mean) not in earlier
            assert id(models[called][1].running_mean) in earlier
            both[called].step()
