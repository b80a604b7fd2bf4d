"""Out of memory: really on the CPU, and by its message for a device."""

from __future__ import annotations

import pytest
import torch
from tests.adapters.torch.explaining.raising import explained
from torch import nn

from mothtrap.adapters.torch.explaining import memory
from mothtrap.adapters.torch.explaining.scene import scene_of
from mothtrap.adapters.torch.explaining.sources import Sources
from mothtrap.adapters.torch.job.naming import NameBook
from mothtrap.adapters.torch.job.retained_outputs import RetainedOutputs

TEXT = (
    "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.11 GiB of "
    "which 14.88 MiB is free. Including non-PyTorch memory, this process has 79.09 GiB in use."
)


def test_an_expression_that_asks_for_too_much() -> None:
    rows = torch.zeros(1 << 23, 1)
    found = explained(lambda: torch.cdist(rows, rows))
    assert found.kind == "memory"
    assert found.sentence.startswith("`torch.cdist(rows, rows)` asked for 256 TiB")
    assert "rows is float32 (8388608, 1)" in found.sentence
    assert "check the sizes" in found.fixes[0]


def test_a_device_without_memory() -> None:
    class Full(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise torch.OutOfMemoryError(TEXT)

    model = Full()
    try:
        model(torch.zeros(64, 3))
    except torch.OutOfMemoryError as error:
        found = memory.explain(scene_of(error), Sources(NameBook(), RetainedOutputs()))
    assert found is not None
    assert "asked for 20.00 MiB that the device does not have" in found.sentence
    assert "14.88 MiB of 79.11 GiB are free" in found.sentence
    assert "a smaller batch" in found.fixes[0]


def test_other_exceptions_are_none_of_memory() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.zeros(3).view(4)
    assert memory.explain(scene_of(caught.value), Sources(NameBook(), RetainedOutputs())) is None
