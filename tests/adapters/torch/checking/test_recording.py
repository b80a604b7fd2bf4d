"""Iterations of a loop that a recording keeps."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from mothtrap.adapters.torch.checking.engines import ForkEngine
from mothtrap.adapters.torch.checking.recorded_step import RecordedStep
from mothtrap.adapters.torch.checking.recording import Recording
from mothtrap.adapters.torch.checking.scaled_losses import ScaledLosses
from mothtrap.adapters.torch.checking.switch import Switch

MODEL = nn.Linear(3, 2)
BATCH = torch.ones(4, 3)
TARGET = torch.tensor([0, 1, 0, 1])


def train(recording: Recording, *, divided_by: int = 1, scaled_by: float = 1.0) -> None:
    """Make a step with a batch from a loader."""
    optimizer = torch.optim.SGD(MODEL.parameters(), lr=0.1)
    for _ in range(divided_by):
        recording.ask_loader(0, "train.py:1", lambda: BATCH)
        recording.forward_called(MODEL, (BATCH,), {})
        scores = MODEL(BATCH)
        recording.loss_called("cross_entropy", (scores, TARGET), {})
        loss = nn.functional.cross_entropy(scores, TARGET) / divided_by
        if scaled_by != 1.0:
            loss = torch.amp.GradScaler("cpu", init_scale=scaled_by).scale(loss)
        recording.backward_begins((loss,))
    recording.step_ended(optimizer)


def evaluate(recording: Recording) -> None:
    """Call the model with a batch from another loader."""
    recording.ask_loader(1, "train.py:9", lambda: BATCH)
    with torch.no_grad():
        recording.forward_called(MODEL, (BATCH,), {})


def test_a_loader_of_an_evaluation_between_two_steps_feeds_no_training() -> None:
    recording = Recording(10, lambda: None, ScaledLosses())
    train(recording)
    evaluate(recording)
    evaluate(recording)
    with pytest.raises(StopIteration):
        recording.ask_loader(1, "train.py:9", lambda: next(iter(())))
    train(recording)
    recording.finish()
    assert list(recording.batches) == [("batch", 0, "train.py:1")]


def test_a_batch_that_is_read_once_per_epoch_begins_no_iteration() -> None:
    held: list[int] = []
    recording = Recording(2, lambda: held.append(recording.turns), ScaledLosses())
    recording.ask_loader(0, "train.py:3", lambda: BATCH)
    for _ in range(3):
        train(recording)
    assert held == [2]


def test_a_forward_without_gradients_of_a_training_batch_leaves_it_to_training() -> None:
    recording = Recording(10, lambda: None, ScaledLosses())
    recording.ask_loader(0, "train.py:1", lambda: BATCH)
    with torch.no_grad():
        recording.forward_called(MODEL, (BATCH,), {})
    recording.forward_called(MODEL, (BATCH,), {})
    recording.step_ended(torch.optim.SGD(MODEL.parameters(), lr=0.1))
    recording.finish()
    assert list(recording.batches) == [("batch", 0, "train.py:1")]


def test_a_loss_that_is_scaled_and_divided_is_the_loss_of_the_step() -> None:
    scaled = ScaledLosses()
    before = torch.amp.GradScaler.scale
    scaled.install()
    try:
        recording = Recording(10, lambda: None, scaled)
        train(recording, divided_by=2, scaled_by=1024.0)
        recording.finish()
    finally:
        torch.amp.GradScaler.scale = before  # type: ignore[method-assign]
    assert recording.first is not None
    value = nn.functional.cross_entropy(MODEL(BATCH), TARGET).item()
    assert all(math.isclose(root, value / 2, rel_tol=1e-5) for root in recording.first.roots)
    step = RecordedStep(recording, ForkEngine(recording, Switch()), loaded=False)
    assert step.loss is not None
    assert step.loss.alone
