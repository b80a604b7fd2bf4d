from __future__ import annotations

import math
import weakref

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, sgd, train, watched
from torch import nn
from torch.nn import functional

from mothtrap.adapters.torch.losses import backwards
from mothtrap.adapters.torch.losses.backwards import GRAPH_FIRST, VALUES_EVERY
from mothtrap.core.adapters import Given
from mothtrap.core.facts.losses import LossCall, LossSeries
from mothtrap.tracing.source import frames

Tensor = torch.Tensor


def test_the_losses_of_a_plain_loop_are_its_own_numbers() -> None:
    model = classifier()
    with watched() as seen:
        losses = train(model, sgd(model), steps=4)
    assert seen.scalars("loss") == losses
    [series] = seen.observed(LossSeries)
    assert series.optimizers == ("SGD",)
    assert series.series.endswith(" SGD")


def test_a_series_names_the_line_that_computes_the_loss() -> None:
    model = classifier()

    def step() -> None:
        x, y = batch()
        loss = functional.cross_entropy(model(x), y)
        scaled = loss / 2
        print("between")
        (loss * 1.0).backward()
        del scaled

    with watched() as seen:
        optimizer = sgd(model)
        step()
        optimizer.step()
    [series] = seen.observed(LossSeries)
    [call] = seen.observed(LossCall)
    line = step.__code__.co_firstlineno + 2
    assert series.location == call.location == frames._place(__file__, line)
    assert call.series == series.series


def test_losses_under_a_gradient_scaler_are_not_scaled() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            x, y = batch()
            loss = functional.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
    assert seen.scalars("loss") == losses


def test_a_gradient_taken_in_between_does_not_hide_the_scale() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
        x, y = batch()
        loss = functional.cross_entropy(model(x), y)
        scaled = scaler.scale(loss)
        torch.autograd.grad(model(x).sum(), model[0].weight)
        scaled.backward()
        scaler.step(optimizer)
    assert seen.scalars("loss") == [loss.item()]


def test_accumulated_losses_are_added_up() -> None:
    model = classifier()
    expected = []
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(3):
            optimizer.zero_grad()
            total = 0.0
            for _ in range(4):
                x, y = batch()
                loss = functional.cross_entropy(model(x), y) / 4
                loss.backward()
                total += loss.item()
            optimizer.step()
            expected.append(total)
    assert seen.scalars("loss") == pytest.approx(expected)
    assert seen.scalars("micro_batches") == [4.0] * 3


def test_losses_of_two_networks_are_two_series() -> None:
    generator, critic = nn.Linear(2, 6), nn.Linear(6, 1)
    for_critic, for_generator = [], []
    with watched() as seen:
        first, second = sgd(critic), torch.optim.Adam(generator.parameters())
        for _ in range(3):
            noise = torch.randn(4, 2)
            first.zero_grad()
            loss = critic(generator(noise).detach()).mean()
            loss.backward()
            first.step()
            for_critic.append(loss.item())
            second.zero_grad()
            loss = -critic(generator(noise)).mean()
            loss.backward()
            second.step()
            for_generator.append(loss.item())
    series = {found.optimizers: found.series for found in seen.observed(LossSeries)}
    assert set(series) == {("SGD",), ("Adam",)}
    assert seen.scalars("loss", series[("SGD",)]) == for_critic
    assert seen.scalars("loss", series[("Adam",)]) == for_generator


def test_the_loss_of_a_loop_that_assigns_gradients_is_found() -> None:
    model = classifier()
    losses = []
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(3):
            x, y = batch()
            loss = functional.cross_entropy(model(x), y)
            grads = torch.autograd.grad(loss, list(model.parameters()))
            for parameter, grad in zip(model.parameters(), grads, strict=True):
                parameter.grad = grad
            optimizer.step()
            losses.append(loss.item())
    assert seen.scalars("loss") == losses
    assert seen.observed(LossCall)[0].operation == "cross_entropy"


def test_a_penalty_on_gradients_is_not_taken_for_the_loss() -> None:
    model = nn.Linear(6, 1)
    with watched() as seen:
        optimizer = sgd(model)
        x = torch.randn(4, 6, requires_grad=True)
        out = model(x).mean()
        [slope] = torch.autograd.grad(out, x, create_graph=True)
        loss = out + 10 * (slope.norm() - 1) ** 2
        loss.backward()
        optimizer.step()
    assert seen.scalars("loss") == [loss.item()]


def test_a_backward_from_several_roots_has_no_loss_and_is_a_step() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        x, y = batch()
        first, second = functional.cross_entropy(model(x), y), model(x).mean()
        torch.autograd.backward([first, second])
        optimizer.step()
    assert len(seen.steps()) == 1
    assert seen.scalars("loss") == []
    assert seen.scalars("gradient_state") == [0.0]


def test_a_backward_from_many_numbers_has_no_loss_and_is_a_step() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        out = model(batch()[0])
        out.backward(torch.ones_like(out))
        optimizer.step()
    assert (len(seen.steps()), seen.scalars("loss")) == (1, [])


def test_a_loss_of_one_element_with_axes_is_a_loss() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        loss = model(batch()[0]).mean().reshape(1, 1)
        loss.backward()
        optimizer.step()
    assert seen.scalars("loss") == [loss.item()]


def test_a_loss_that_is_not_finite_is_kept_as_it_is() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model, rate=0.0)
        for offset in (0.0, math.inf, math.nan):
            optimizer.zero_grad()
            (model(batch()[0]).pow(2).mean() + offset).backward()
            optimizer.step()
    first, second, third = seen.scalars("loss")
    assert math.isfinite(first)
    assert math.isinf(second)
    assert math.isnan(third)


@pytest.mark.parametrize("set_to_none", [True, False])
def test_the_loss_of_a_step_whose_gradients_were_cleared_is_kept(set_to_none: bool) -> None:
    """A script that clears the gradients of a bad loss and steps anyway was judged sound."""
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        for offset in (0.0, math.nan, 0.0):
            optimizer.zero_grad()
            loss = model(batch()[0]).pow(2).mean() + offset
            loss.backward()
            if not torch.isfinite(loss):
                optimizer.zero_grad(set_to_none=set_to_none)
            optimizer.step()
    assert [math.isnan(loss) for loss in seen.scalars("loss")] == [False, True, False]


def test_an_unknown_loss_is_a_blind_spot() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        torch.linalg.vector_norm(model(batch()[0])).backward()
        optimizer.step()
    assert [what for what in seen.blind() if what.startswith("how the loss at")]
    assert seen.observed(LossCall) == []


def test_graphs_are_read_at_first_and_then_now_and_then() -> None:
    model = classifier()
    with watched() as seen:
        train(model, sgd(model), steps=20)
    steps = [call.step for call in seen.observed(LossCall)]
    assert steps == [*range(GRAPH_FIRST), VALUES_EVERY, 2 * VALUES_EVERY]
    looked_at = [call.step for call in seen.observed(LossCall) if call.label_counts is not None]
    assert looked_at == [0, VALUES_EVERY, 2 * VALUES_EVERY]


def test_losses_that_no_step_follows_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backwards, "MAX_LOSSES", 10)
    weight = nn.Parameter(torch.ones(()))
    with watched() as seen:
        for _ in range(50):
            torch.autograd.grad(weight * 2, weight)
            (weight * math.nan).backward()
        losses = seen.tracer.losses
        assert (len(losses._values), len(losses._nonfinite)) == (10, 5)
    assert seen.steps() == []


def test_no_graph_is_kept_alive_after_the_backward() -> None:
    model = classifier()
    with watched():
        optimizer = sgd(model)
        x, y = batch()
        out = model(x)
        gone = weakref.ref(out)
        functional.cross_entropy(out, y).backward()
        del out
        assert gone() is None
        optimizer.step()


def test_a_loss_given_by_hand_is_a_series_and_tells_its_graph() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        x, y = batch()
        loss = functional.cross_entropy(model(x), y)
        grads = torch.autograd.grad([loss, loss * 2], list(model.parameters()), [loss, loss])
        for parameter, grad in zip(model.parameters(), grads, strict=True):
            parameter.grad = grad
        optimizer.step()
        seen.tracer.step_given(Given(loss=loss, numbers={"accuracy": 0.5}))
    assert seen.scalars("loss") == [loss.item()]
    assert seen.scalars("accuracy") == [0.5]
    assert seen.observed(LossCall)[0].operation == "cross_entropy"
