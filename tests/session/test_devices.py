"""Runs of a training on a device have the same contents as those of one on the host."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.session.test_collections import WRITERS, raw_steps, trained
from tests.statistics.torch.copy_stream import SlowCopyStream, host_memory

from mothtrap import Collection
from mothtrap.adapters.torch.job import devices
from mothtrap.reader.run import Run
from mothtrap.statistics.torch.accelerator import Accelerator
from mothtrap.statistics.torch.copy_streams import Load

STEPS = 6
BEHIND = 3
"""Number of loads in transit at a time."""


class LaggingCopyStream(SlowCopyStream):
    """A device on which work queues up: a load arrives after several more were sent."""

    def carry(self, load: Load) -> None:
        super().carry(load)
        while len(self.waiting) > BEHIND:
            self.let_go(1)


@pytest.fixture
def copy_stream(monkeypatch: pytest.MonkeyPatch) -> LaggingCopyStream:
    """Present the CPU as a device to everything that is watched in this process."""
    copy_stream = LaggingCopyStream(torch.device("cpu"))
    copy_stream.numbers_at_once = True

    def device() -> Accelerator:
        return Accelerator("cpu", lambda _: copy_stream, host_memory, lambda: False, fused=False)

    monkeypatch.setattr(devices, "are_in_use", lambda: True)
    monkeypatch.setattr(devices, "Accelerator", device)
    return copy_stream


def run_of(folder: Path, writer: str) -> Run:
    weights = Collection(tensors=("weights",), raw=True)
    reduced = Collection(tensors=("gradients",), reductions={"top": lambda x: float(x.max())})
    return trained(
        folder,
        STEPS,
        writer=writer,
        snapshots=0,
        capture="everything",
        collections={"weights": weights, "reduced": reduced},
    )


@pytest.mark.parametrize("writer", WRITERS)
def test_nothing_is_missing_and_all_is_as_it_was(
    tmp_path: Path, writer: str, request: pytest.FixtureRequest
) -> None:
    known = run_of(tmp_path / "host", writer)
    copy_stream = request.getfixturevalue("copy_stream")
    run = run_of(tmp_path / "device", writer)
    assert copy_stream.sent == STEPS
    assert {t.identity for t in run.tensors()} == {t.identity for t in known.tensors()}
    for tensor in known.tensors():
        own = run.tensor(tensor.identity)
        steps = tensor.steps().tolist()
        assert own.steps().tolist() == steps
        for step in steps:
            wanted = tensor.statistics(step)
            assert own.statistics(step) == pytest.approx(wanted, rel=1e-4, abs=1e-6, nan_ok=True)
    for name in ("weight:0.weight", "weight:2.weight"):
        assert raw_steps(run, name) == raw_steps(known, name) == list(range(STEPS))
        for step in range(STEPS):
            assert np.array_equal(run.tensor(name).at(step), known.tensor(name).at(step))
    (found,), (wanted_top,) = (r.scalars("top:gradient:0.weight") for r in (run, known))
    assert found.values_S.tolist() == wanted_top.values_S.tolist()
