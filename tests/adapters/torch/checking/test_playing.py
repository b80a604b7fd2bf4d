"""Targets that a trial passes to the losses of a script without a loader."""

from __future__ import annotations

import os

import torch
from torch import nn

from mothtrap.adapters.torch.checking.playing import Playing
from mothtrap.adapters.torch.checking.recording import Recording
from mothtrap.adapters.torch.checking.scaled_losses import ScaledLosses
from mothtrap.checks.step import Change

MODEL = nn.Linear(3, 2)
LOSS = "cross_entropy"


def recorded(*targets: torch.Tensor) -> Recording:
    """Return a recording of one iteration with a loss for each target."""
    recording = Recording(10, lambda: None, ScaledLosses())
    recording.forward_called(MODEL, (torch.ones(4, 3),), {})
    for target in targets:
        recording.loss_called(LOSS, (torch.zeros(4, 2), target), {})
    optimizer = torch.optim.SGD(MODEL.parameters(), lr=0.1)
    recording.step_ended(optimizer)
    recording.finish()
    return recording


def played(recording: Recording, *calls: tuple[int, torch.Tensor]) -> list[list[int]]:
    """Return the targets that the losses get, given prediction rows and their own target."""
    _, pipe = os.pipe()
    playing = Playing(recording, Change(), 5, pipe)
    return [
        playing.loss_called(LOSS, (torch.zeros(rows, 2), own), {})[0][1].tolist()
        for rows, own in calls
    ]


def test_the_last_batch_of_an_epoch_gets_the_recorded_targets() -> None:
    recording = recorded(torch.tensor([1, 0, 1, 0]))
    assert played(recording, (4, torch.tensor([0, 0]))) == [[1, 0, 1, 0]]


def test_each_loss_gets_its_own_target() -> None:
    recording = recorded(torch.tensor([1, 1, 1, 1]), torch.tensor([0, 0, 0, 0]))
    fresh = torch.tensor([0, 1, 0, 1])
    assert played(recording, (4, fresh), (4, fresh)) == [[1, 1, 1, 1], [0, 0, 0, 0]]


def test_a_target_of_another_prediction_stays() -> None:
    recording = recorded(torch.tensor([1, 0, 1, 0]))
    assert played(recording, (2, torch.tensor([0, 0]))) == [[0, 0]]
