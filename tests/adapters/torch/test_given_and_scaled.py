"""Losses that a scaler multiplied, or that the user logged, are reported as such."""

from __future__ import annotations

import math

import pytest
import torch
from tests.adapters.torch.watched import watched
from torch import nn

from mothtrap.core.adapters import Given


def _parts() -> tuple[nn.Module, torch.optim.Optimizer, torch.Tensor]:
    model = nn.Linear(4, 1)
    return model, torch.optim.SGD(model.parameters(), lr=1e-3), torch.randn(16, 4)


@pytest.mark.parametrize("way", ["sum of scaled", "divided", "list", "both before"])
def test_a_scaled_loss_is_recorded_unscaled(way: str) -> None:
    # The sum of two scaled losses was once recorded 65536 times too large: a false divergence.
    expected = []
    with watched() as seen:
        model, optimizer, x = _parts()
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for _ in range(4):
            optimizer.zero_grad()
            a, b = model(x).square().mean(), model(x).abs().mean()
            expected.append(float((a + b).detach()))
            if way == "sum of scaled":
                (scaler.scale(a) + scaler.scale(b)).backward()
            elif way == "divided":
                (scaler.scale(2 * (a + b)) / 2).backward()
            elif way == "list":
                sum(scaler.scale([a, b])).backward()
            else:
                first, second = scaler.scale(a), scaler.scale(b)
                first.backward(retain_graph=True), second.backward()
            scaler.step(optimizer)
            scaler.update()
    assert seen.scalars("loss") == pytest.approx(expected, rel=1e-5)


def test_a_loss_that_the_user_gives_overrides_the_one_that_was_seen() -> None:
    with watched() as seen:
        model, optimizer, x = _parts()
        for step in range(3):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            seen.tracer.step_given(Given(loss=float(step), numbers={"accuracy": 0.5}))
    assert seen.scalars("loss") == [0.0, 1.0, 2.0]
    assert seen.scalars("accuracy") == [0.5, 0.5, 0.5]


def test_a_given_loss_that_is_no_number_is_left_out_and_told_once() -> None:
    with watched() as seen:
        model, optimizer, x = _parts()
        for _ in range(3):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            seen.tracer.step_given(Given(loss=torch.ones(3)))
    assert seen.blind().count("losses given to step()") == 1
    assert len(seen.steps()) == 3
    assert all(math.isfinite(value) for value in seen.scalars("loss"))


def test_without_an_optimizer_the_call_counts_the_step() -> None:
    with watched() as seen:
        model = nn.Linear(4, 1)
        for _ in range(3):
            model(torch.randn(2, 4)).sum().backward()
            seen.tracer.step_given(Given(loss=1.0, makes_step=True))
    assert [record.key.step for record in seen.steps()] == [0, 1, 2]


def test_calls_that_come_without_any_backward_are_steps_of_their_own() -> None:
    with watched() as seen:
        for step in range(3):
            seen.tracer.step_given(Given(loss=float(step), makes_step=True))
    assert [record.key.step for record in seen.steps()] == [0, 1, 2]
    assert seen.scalars("loss") == [0.0, 1.0, 2.0]


def test_readings_of_losses_on_which_no_one_steps_do_not_pile_up() -> None:
    with watched() as seen:
        model = nn.Linear(4, 2)
        for _ in range(600):
            nn.functional.cross_entropy(model(torch.zeros(2, 4)), torch.zeros(2).long()).backward()
        assert len(seen.tracer.losses._calls) <= 257
