"""Memory of the ring: its batch and 16 KB for every step, and never more than the limit."""

from __future__ import annotations

import gc
import os
import random
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.adapters.torch.watched import Seen, classifier, sgd, watched
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from mothtrap.core.config import Config

ROWS, STEPS = 16, 128
BATCH_BYTES = ROWS * (6 * 4 + 8)
OVERHEAD_BYTES = 16 * 1024
OWN = [
    tracemalloc.Filter(inclusive=True, filename_pattern=f"*{os.sep}{folder}{os.sep}*")
    for folder in ("recording", "snapshots", "snapshot", "ctypes")
]


def _draw() -> None:
    """Put every generator into another state in every step, which is the most expensive case."""
    random.random(), np.random.rand(), torch.rand(1)


def _train(seen: Seen, draw: Callable[[], None]) -> None:
    model = classifier()
    _loop(model, sgd(model), draw)
    seen.records.clear()
    gc.collect()


def _loop(model: nn.Module, optimizer: torch.optim.Optimizer, draw: Callable[[], None]) -> None:
    data = TensorDataset(torch.randn(ROWS * STEPS, 6), torch.arange(ROWS * STEPS) % 3)
    for x, y in DataLoader(data, ROWS):
        draw()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def _measured(draw: Callable[[], None]) -> tuple[int, int, int]:
    """Return the bytes that Python and numpy hold for the ring, its own count, and its steps."""
    with watched(capture=()) as seen:
        recording = seen.tracer.recording
        recording._ring._max_steps = 1
        _train(seen, draw)
        recording._ring._max_steps = STEPS
        tracemalloc.start()
        try:
            _train(seen, draw)
            snapshot = tracemalloc.take_snapshot().filter_traces(OWN)
        finally:
            tracemalloc.stop()
        objects = sum(statistic.size for statistic in snapshot.statistics("filename"))
        return objects, recording.bytes_held, len(recording.steps()) - 1


@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(_draw, id="random"),
        pytest.param(lambda: None, id="quiet", marks=pytest.mark.full),
    ],
)
def test_a_step_costs_its_batch_and_little_else(draw: Callable[[], None]) -> None:
    objects, counted, steps = _measured(draw)
    assert steps == STEPS - 1
    # Copies of tensors are in the memory of the framework, which is not counted as objects.
    assert objects <= steps * OVERHEAD_BYTES
    assert counted <= steps * (BATCH_BYTES + OVERHEAD_BYTES)
    assert objects <= 1.2 * counted  # so that the ring keeps to its limit


def test_steps_in_memory_are_few_objects_for_garbage_collection() -> None:
    """A step of 20 calls had thousands of objects, which each full collection visited."""

    def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        inputs = [torch.randn(4, 6)]
        for _ in range(20):
            output = model(inputs[-1])
            inputs.append(torch.randn(4, 6))
        output.sum().backward()
        optimizer.step()

    with watched(capture=()) as seen:
        model = classifier()
        optimizer = sgd(model)
        counts = []
        for _ in range(2):
            for _ in range(10):
                step(model, optimizer)
            gc.collect()
            counts.append(len(gc.get_objects()))
        kept = [seen.tracer.recording.kept(step) for step in seen.tracer.recording.steps()]
    assert (counts[1] - counts[0]) / 10 < 1000
    assert all(len(each.recorded.events) == 20 for each in kept if each is not None)


def test_the_ring_is_as_large_as_was_set() -> None:
    limit = 0.25 * 2**20
    with watched(capture=(), config=Config(ring_mb=0.25)) as seen:
        _train(seen, _draw)
        assert 1 < len(seen.tracer.recording.steps()) < STEPS - 1
        assert limit / 2 < seen.tracer.recording.bytes_held <= limit


def test_batches_that_no_one_trains_on_do_not_pile_up() -> None:
    """Computing mean and deviation over all data before the training is one case."""
    data = TensorDataset(torch.randn(4096, 64))
    with watched(capture=(), config=Config(ring_mb=0.25)) as seen:
        model = classifier(inputs=64)
        optimizer, recording = sgd(model), seen.tracer.recording
        total = torch.zeros(64)
        for (x,) in DataLoader(data, 64):
            total += x.sum(0)
            assert recording._bytes <= 0.3 * 2**20
        for (x,) in DataLoader(data, 1024):
            model(x).mean().backward()
            optimizer.step()
    kept = recording.kept(recording.steps()[-1])
    assert kept is not None
    assert len(kept.recorded.events) == 2


def test_a_process_that_never_steps_does_not_fill_its_memory() -> None:
    with watched(capture=(), config=Config(ring_mb=0.25)) as seen:
        model, recording = classifier(inputs=64), seen.tracer.recording
        for _ in range(64):
            model(torch.randn(64, 64)).mean().backward()
        assert recording._bytes <= 0.3 * 2**20
        assert any("ring_mb" in text for text in recording.current().recorded.missing)
