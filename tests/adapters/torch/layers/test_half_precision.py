from __future__ import annotations

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, sgd, train, watched
from torch import nn
from torch.nn import functional

from mothtrap.core.facts.modules import HalfPrecision


def autocast(model: nn.Module, dtype: torch.dtype, factor: float = 1.0, steps: int = 4) -> None:
    optimizer = sgd(model)
    for _ in range(steps):
        x, y = batch()
        with torch.autocast("cpu", dtype=dtype):
            loss = functional.cross_entropy(model(x).float(), y) * factor
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def test_outputs_in_half_precision_are_told_with_their_size() -> None:
    with watched() as seen:
        model = classifier()
        with torch.no_grad():
            model[0].weight.fill_(2000.0)
        autocast(model, torch.float16)
    told = {s.tensor: s for s in seen.observed(HalfPrecision) if s.step == 0}
    first = told["activation:0"]
    assert first.largest > 1000
    assert (first.limit, first.dtype, first.elements) == (65504.0, "float16", 32)
    assert "watched.py" in str(first.location)


def test_small_gradients_that_half_precision_computed_are_told() -> None:
    with watched() as seen:
        autocast(classifier(), torch.float16, 1e-4)
    gradients = [s for s in seen.observed(HalfPrecision) if s.tensor.startswith("gradient")]
    assert {s.step for s in gradients} == {0, 1, 2}
    assert min(s.small for s in gradients) > 0.5


def test_gradients_of_half_precision_weights_are_told() -> None:
    with watched() as seen:
        model = classifier().half()
        optimizer = sgd(model)
        x, y = batch()
        functional.cross_entropy(model(x.half()).float(), y).backward()
        optimizer.step()
    told = [s.tensor for s in seen.observed(HalfPrecision)]
    assert "gradient:0.weight" in told


@pytest.mark.parametrize("dtype", [torch.bfloat16, None])
def test_other_types_have_nothing_to_tell(dtype: torch.dtype | None) -> None:
    with watched() as seen:
        model = classifier()
        if dtype is None:
            train(model, sgd(model), 4)
        else:
            autocast(model, dtype)
    assert seen.observed(HalfPrecision) == []


def test_scaled_gradients_are_left_to_the_scaler() -> None:
    with watched() as seen:
        model = classifier()
        optimizer = sgd(model)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
        for _ in range(4):
            x, y = batch()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = functional.cross_entropy(model(x).float(), y) * 1e-4
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    gradients = {s.step for s in seen.observed(HalfPrecision) if s.tensor.startswith("gradient")}
    assert gradients <= {0}
