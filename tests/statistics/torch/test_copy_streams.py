"""The copy stream of a CUDA device, tested without one: CUDA itself is imitated."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch

from mothtrap.statistics.summary import COLUMN
from mothtrap.statistics.torch import copy_streams
from mothtrap.statistics.torch.accelerator import Accelerator

TRAINING = "the training's stream"


class Stream:
    waited: list[Any]

    def __init__(self, device: torch.device) -> None:
        self.waited = []

    def wait_stream(self, other: Any) -> None:
        self.waited.append(other)

    def synchronize(self) -> None:
        self.waited.append("everything")


@pytest.fixture
def accelerator(monkeypatch: pytest.MonkeyPatch) -> Accelerator:
    """Use the CPU as devices, with streams that execute everything immediately."""
    empty = torch.empty

    def pinned(*size: int, pin_memory: bool = False, **options: Any) -> torch.Tensor:
        return empty(*size, **options)

    monkeypatch.setattr(torch, "empty", pinned)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: TRAINING)
    return Accelerator("cpu", copy_streams.CudaCopyStream, capturing=lambda: False, fused=False)


def copy_stream_of(accelerator: Accelerator) -> Any:
    return accelerator._copy_streams[torch.device("cpu")]


def test_what_is_sent_arrives_behind_the_work_that_made_it(accelerator: Accelerator) -> None:
    out = accelerator.memory(64)
    pending = accelerator.reduce([torch.tensor([3.0, 4.0])], ("l2",))
    accelerator.copy_bytes(torch.tensor([7.0]), out[:4])
    assert copy_stream_of(accelerator)._side.waited == []
    accelerator.send().wait()
    assert copy_stream_of(accelerator)._side.waited == [TRAINING]
    assert pending.rows()[0, COLUMN["l2"]] == 5.0
    assert out[:4].view(np.float32) == 7.0
    accelerator.settle()
    assert copy_stream_of(accelerator)._side.waited[-1] == "everything"


def test_host_memory_is_used_again_once_its_numbers_are_taken(accelerator: Accelerator) -> None:
    for number in range(20):
        pending = accelerator.reduce([torch.full((3,), float(number))], ("max",))
        accelerator.send()
        assert pending.rows()[0, COLUMN["max"]] == number
        del pending
    assert len(copy_stream_of(accelerator)._pool) == 1


def test_memory_in_use_is_not_given_twice(accelerator: Accelerator) -> None:
    asked = [accelerator.bring(torch.tensor(float(number))) for number in range(5)]
    assert [float(number) for number in asked] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_small_needs_take_memory_of_one_size_and_large_ones_a_power_of_two(
    accelerator: Accelerator,
) -> None:
    accelerator.bring(torch.tensor(1.0))
    copy_stream = copy_stream_of(accelerator)
    assert copy_stream.numbers(1).numel() == copy_streams.MIN_NUMBERS
    assert copy_stream.numbers(copy_streams.MIN_NUMBERS + 1).numel() == 2 * copy_streams.MIN_NUMBERS
