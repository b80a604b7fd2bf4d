"""Reports of optimizers under a gradient scaler."""

from __future__ import annotations

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, sgd, watched
from torch.nn import functional


@pytest.mark.parametrize("fused", [False, True])
def test_a_step_that_a_gradient_scaler_skips_is_marked(fused: bool) -> None:
    model = classifier()
    with watched() as seen:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=fused)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**4, growth_interval=1000)
        for step in range(4):
            optimizer.zero_grad()
            x, y = batch()
            loss = functional.cross_entropy(model(x), y)
            scaler.scale(loss * (float("inf") if step == 1 else 1.0)).backward()
            scaler.step(optimizer)
            scaler.update()
    assert seen.scalars("skipped") == [0.0, 1.0, 0.0, 0.0]
    assert seen.scalars("loss_scale") == [16.0, 16.0, 8.0, 8.0]
    assert set(seen.scalars("stale_gradient")) == {0.0}


@pytest.mark.parametrize("fused", [False, True])
def test_gradients_under_a_scaler_are_those_that_are_applied(fused: bool) -> None:
    norms = []
    for scale in (1.0, 2.0**10):
        torch.manual_seed(1)
        model = classifier()
        with watched() as seen:
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=fused)
            scaler = torch.amp.GradScaler("cpu", init_scale=scale)
            x, y = batch()
            scaler.scale(functional.cross_entropy(model(x), y)).backward()
            scaler.step(optimizer)
        norms.append(seen.rows("gradient:0.weight", "l2")[0])
    assert norms[1] == pytest.approx(norms[0], rel=1e-5)


def test_a_disabled_scaler_changes_nothing() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        scaler = torch.amp.GradScaler("cpu", enabled=False)
        x, y = batch()
        scaler.scale(functional.cross_entropy(model(x), y)).backward()
        scaler.step(optimizer)
        scaler.update()
    assert seen.scalars("skipped") == [0.0]
    assert seen.scalars("loss_scale") == []
