"""Values too large to copy in every step are in a kept step, or reported as lost."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mothtrap.adapters.torch.recording.values import framework_value
from mothtrap.core.config import Config
from mothtrap.core.snapshots import BatchHanded, KeptStep
from mothtrap.snapshot.tree import Opaque, value_of

SMALL = Config(ring_mb=0.25)
WIDE = 20_000  # 4 rows are 320 KB: more than half of the ring


def _batch(kept: KeptStep) -> Any:
    event = next(e for e in kept.recorded.events if isinstance(e, BatchHanded))
    return value_of(event.value, kept.arrays, framework_value(kept.arrays))


def _loader() -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.randn(8, WIDE), torch.zeros(8, 1)), batch_size=4)


def test_a_large_batch_is_kept_with_the_step_in_progress() -> None:
    with watched(capture=(), config=SMALL) as seen:
        model = nn.Linear(WIDE, 1)
        optimizer = sgd(model)
        for x, y in _loader():
            nn.functional.mse_loss(model(x), y).backward()
            kept = seen.tracer.recording.current()
            assert torch.equal(_batch(kept)[0], x)
            assert not any("gone" in text for text in kept.recorded.missing)
            optimizer.step()
        assert seen.tracer.recording.bytes_held < SMALL.ring_mb * 2**20


@pytest.mark.parametrize("written_to", [False, True])
def test_what_the_script_has_given_up_or_changed_is_said_to_be_gone(written_to: bool) -> None:
    with watched(capture=(), config=SMALL) as seen:
        model = nn.Linear(1, 1)
        for x, y in _loader():
            nn.functional.mse_loss(model(x[:, :1]), y).backward()
            if written_to:
                x.mul_(2)
            else:
                del x
            kept = seen.tracer.recording.current()
            assert isinstance(_batch(kept)[0], Opaque)
            assert torch.equal(_batch(kept)[1], y)
            (missing,) = (text for text in kept.recorded.missing if "gone" in text)
            assert missing.startswith("the batch of loader 0 at ")
            assert "float32 of shape (4, 20000) was already gone when the" in missing
            sgd(model).step()


def test_nothing_too_large_is_held() -> None:
    with watched(capture=(), config=SMALL):
        model = nn.Linear(WIDE, 1)
        x = torch.randn(4, WIDE)
        there = weakref.ref(x)
        model(x)
        del x
        assert there() is None
