"""Reports at the end of a job that made no step."""

from __future__ import annotations

import torch
from tests.adapters.torch.watched import watched
from torch import nn

from mothtrap.core.facts.captures import Blind


def test_backwards_that_no_step_follows_are_told() -> None:
    # A user forgot optimizer.step(); "nothing was observed" alone did not help.
    with watched() as seen:
        model, x = nn.Linear(4, 1), torch.randn(16, 4)
        for _ in range(3):
            model(x).sum().backward()
    [reason] = seen.tracer.recorder.notes.unstepped
    assert isinstance(reason, Blind)
    assert reason.reason.startswith("backward ran 3 times, but no optimizer's step() was called")
    assert "dbg.step(loss=loss)" in reason.reason
