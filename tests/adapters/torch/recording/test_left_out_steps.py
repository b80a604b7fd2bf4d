from __future__ import annotations

import torch
from tests.adapters.torch.watched import batch, classifier, sgd, watched
from torch import nn

from mothtrap.core.config import Config


def test_a_step_that_was_left_out_is_recorded_as_such() -> None:
    with watched(config=Config(on_nonfinite="skip")) as seen:
        model = classifier()
        optimizer = sgd(model)
        for step in range(4):
            x, y = batch()
            if step == 2:
                x[0, 0] = torch.nan
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
        kept = [seen.tracer.recording.kept(step) for step in range(3)]
    assert [one.recorded.skipped for one in kept if one is not None] == [False, False, True]
