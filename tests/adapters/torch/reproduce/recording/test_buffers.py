"""Buffers that forwards change are there as they were before the forwards of a step."""

from __future__ import annotations

import gc
import weakref

import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn

from mothtrap.adapters.torch.reproduce.recording.buffers import SMALL_BYTES, BuffersBefore


class Queue(nn.Module):
    """A large buffer that changes, one that does not, one that is replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(2, 2)
        self.register_buffer("mask", torch.ones(SMALL_BYTES))
        self.register_buffer("queue", torch.zeros(SMALL_BYTES))
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("nothing", None)
        self.register_buffer("view", self.queue[:2])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.queue[:2] += 1
        self.count = self.count + 1
        return self.line(x)


def _known(before: BuffersBefore, model: nn.Module) -> dict[str, list[float]]:
    return {
        f"{path}.{name}".lstrip("."): copy.reshape(-1)[:2].tolist()
        for path, module in model.named_modules()
        for name in module._buffers
        if (copy := before.of(module, name)) is not None
    }


def test_running_statistics_are_those_of_before_the_step() -> None:
    with watched(capture=()) as seen:
        model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        optimizer, buffers = sgd(model), seen.tracer.recording.buffers
        for step in range(3):
            norm = model[1]
            own = {name: value.clone() for name, value in norm.named_buffers()}
            for _ in range(2):  # micro-batches
                model(torch.randn(4, 2)).mean().backward()
            for name, value in own.items():
                copy = buffers.of(norm, name)
                assert copy is not None, (step, name)
                assert torch.equal(copy, value)
                assert not torch.equal(norm.get_buffer(name), value)
            assert buffers.lost() == ()
            optimizer.step()


def test_buffers_that_do_not_change_are_not_copied_for_long() -> None:
    model, before = Queue(), BuffersBefore()
    before.before_forward(model)
    model(torch.ones(2))
    # Nobody knew that the large one would: it is said.
    assert before.lost() == ("queue",)
    assert _known(before, model)["count"] == [0.0]
    for step in range(1, 4):
        before.new_step()
        before.before_forward(model)
        model(torch.ones(2))
        found = _known(before, model)
        assert (found["queue"], found["count"]) == ([step, step], [step])
        assert "mask" not in found
        assert before.lost() == ()
    assert before.bytes_held() < 4 * SMALL_BYTES + 100


def test_a_model_is_looked_at_once_a_step() -> None:
    model, before = Queue(), BuffersBefore()
    for _ in range(2):
        before.new_step()
        for _ in range(3):
            before.before_forward(model)
            model(torch.ones(2))
    assert _known(before, model)["count"] == [3.0]


def test_models_are_not_kept_alive() -> None:
    model, before = Queue(), BuffersBefore()
    before.before_forward(model)
    alive = weakref.ref(model), weakref.ref(model.queue)
    del model
    gc.collect()
    assert [reference() for reference in alive] == [None, None]
    before.new_step()
    assert before.lost() == ()
    assert before.bytes_held() == 0
