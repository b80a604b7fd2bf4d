from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from tests.adapters.torch.watched import sgd, watched
from torch import nn

from mothtrap.core.facts.loss_terms import DetachedTerm

STEPS = 14
Terms = dict[str, torch.Tensor]


def terms(model: nn.Module) -> Terms:
    code = model(torch.randn(8, 6))
    return {"fit": code.square().mean(), "penalty": code.abs().mean()}


def found(step: Callable[[nn.Module], None]) -> list[DetachedTerm]:
    """Return the reports of a loop over `step`, which calls the backward."""
    model = nn.Linear(6, 3)
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(STEPS):
            optimizer.zero_grad()
            step(model)
            optimizer.step()
        assert seen.failed() == []
        return [one for one in seen.observed(DetachedTerm) if isinstance(one, DetachedTerm)]


def by_name(model: nn.Module) -> None:
    fit, penalty = terms(model).values()
    penalty = penalty.detach()
    loss = fit + 0.1 * penalty
    loss.backward()


def in_the_sum(model: nn.Module) -> None:
    fit, penalty = terms(model).values()
    loss = fit + penalty.detach() / 8
    loss.backward()


def as_a_number(model: nn.Module) -> None:
    fit, penalty = terms(model).values()
    weight, penalty = 0.5, penalty.item()
    (fit + weight * penalty).backward()


def added_later(model: nn.Module) -> None:
    fit, penalty = terms(model).values()
    penalty = penalty.detach()
    loss = fit * 2
    loss += penalty
    loss = loss / 4
    loss.backward()


def of_a_dictionary(model: nn.Module) -> None:
    losses = terms(model)
    losses["penalty"] = losses["penalty"].detach()
    loss = sum(losses.values())
    loss.backward()


def one_by_one(model: nn.Module) -> None:
    losses = terms(model)
    losses["penalty"] = losses["penalty"].detach()
    loss = sum(one for one in losses.values())
    loss.backward()


def beside_a_mean(model: nn.Module) -> None:
    code = model(torch.randn(8, 6))
    penalty = code.abs().mean().detach()
    loss = -torch.mean(code) + 10 * penalty
    loss.backward()


def beside_a_call(model: nn.Module) -> None:
    code = model(torch.randn(8, 6))
    penalty = code.abs().mean().detach()
    loss = F.mse_loss(code, torch.zeros(8, 3)) + 10 * penalty
    loss.backward()


def of_vae(code: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    fit = F.binary_cross_entropy(code.sigmoid(), target, reduction="sum")
    penalty = -0.5 * torch.sum(1 + code - code.exp())
    return fit + penalty.detach()


def returned(model: nn.Module) -> None:
    code = model(torch.randn(8, 6))
    loss = of_vae(code, torch.rand(8, 3))
    loss.backward()


def with_parts(code: torch.Tensor, weight: float = 0.1) -> tuple[torch.Tensor, float]:
    fit = code.square().mean()
    penalty = code.abs().mean().item()
    loss = fit + weight * penalty
    return loss, penalty


def returned_in_a_tuple(model: nn.Module) -> None:
    code = model(torch.randn(8, 6))
    loss, _ = with_parts(code)
    loss.backward()


@pytest.mark.parametrize(
    ("step", "name"),
    [
        (returned, "penalty.detach()"),
        (returned_in_a_tuple, "penalty"),
        (beside_a_call, "penalty"),
        (beside_a_mean, "penalty"),
        (by_name, "penalty"),
        (in_the_sum, "penalty.detach()"),
        (as_a_number, "penalty"),
        (added_later, "penalty"),
        (of_a_dictionary, "losses['penalty']"),
        (one_by_one, "losses['penalty']"),
    ],
)
def test_a_term_without_a_graph_is_found(step: Callable[[nn.Module], None], name: str) -> None:
    [one] = found(step)
    assert (one.term, one.looks, one.without_graph) == (name, 5, 5)
    assert len(set(one.values)) == 5
    assert "test_detached_terms.py" in (one.location or "")


def test_a_term_that_reaches_only_another_optimizers_parameters_is_found() -> None:
    generator, critic = nn.Linear(6, 6), nn.Linear(6, 1)

    def step(model: nn.Module) -> None:
        fake = model(torch.randn(8, 6))
        fooled = critic(fake.detach()).mean()
        distance = fake.abs().mean()
        loss = fooled + distance
        loss.backward()

    with watched() as seen:
        optimizer = sgd(generator)
        for _ in range(STEPS):
            optimizer.zero_grad()
            step(generator)
            optimizer.step()
        [one] = seen.observed(DetachedTerm)
    assert isinstance(one, DetachedTerm)
    assert (one.term, one.without_graph, one.optimizers) == ("fooled", 0, ("SGD",))


def whole(model: nn.Module) -> None:
    fit, penalty = terms(model).values()
    loss = fit + 0.1 * penalty
    loss.backward()


def products(model: nn.Module) -> None:
    fit, penalty = terms(model).values()
    weight = penalty.detach()
    loss = weight * fit + fit / weight
    loss.backward()


def quantized(model: nn.Module) -> None:
    fit, penalty = terms(model).values()
    loss = fit + (penalty - fit).detach()
    loss.backward()


def now_and_then(model: nn.Module) -> None:
    fit, penalty = terms(model).values()
    if torch.rand(()) < 0.5:
        penalty = penalty.detach()
    loss = fit + penalty
    loss.backward()


def sum_of(code: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    entropy = -(target * target.log()).mean()
    smooth = 0.1 * code.abs().mean()
    return (code - target).square().mean() + smooth - entropy


def whole_returned(model: nn.Module) -> None:
    code = model(torch.randn(8, 6))
    loss = sum_of(code, torch.rand(8, 3))
    loss.backward()


def through(code: torch.Tensor, discriminator: nn.Module) -> torch.Tensor:
    return code.square().mean() + discriminator(code.detach()).mean()


def through_a_module(model: nn.Module) -> None:
    code = model(torch.randn(8, 6))
    loss = through(code, nn.Linear(3, 1))
    loss.backward()


def alone(model: nn.Module) -> None:
    loss = terms(model)["fit"]
    F.relu(loss).backward()


@pytest.mark.parametrize(
    "step", [whole, products, quantized, now_and_then, whole_returned, through_a_module, alone]
)
def test_sums_whose_terms_train_the_model_have_none(step: Callable[[nn.Module], None]) -> None:
    torch.manual_seed(0)
    assert found(step) == []


def test_a_term_for_two_optimizers_trains_the_second_one() -> None:
    first, second = nn.Linear(6, 3), nn.Linear(3, 2)
    with watched() as seen:
        optimizers = sgd(first), sgd(second)
        for _ in range(STEPS):
            code = first(torch.randn(8, 6))
            size, fit = code.square().mean(), second(code.detach()).square().mean()
            loss = size + fit
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
        assert seen.observed(DetachedTerm) == []


def with_itself(model: nn.Module) -> None:
    output, weight, temperature = model(torch.ones(8, 6)), 0.5, 2
    with torch.no_grad():
        teacher = torch.randn(8, 3)
    target = F.log_softmax(teacher / temperature, dim=-1)
    soft = F.log_softmax(teacher / temperature, dim=-1)
    divergence = F.kl_div(soft, target, log_target=True, reduction="batchmean")
    fit = output.square().mean()
    loss = temperature**2 * divergence * weight + fit
    loss.backward()


def with_the_model(model: nn.Module) -> None:
    output, weight, temperature = model(torch.ones(8, 6)), 0.5, 2
    with torch.no_grad():
        teacher = torch.randn(8, 3)
    target = F.softmax(teacher / temperature, dim=-1)
    soft = F.log_softmax(output / temperature, dim=-1)
    divergence = F.kl_div(soft, target, reduction="batchmean")
    fit = output.square().mean()
    loss = temperature**2 * divergence * weight + fit
    loss.backward()


def switched_off(model: nn.Module) -> None:
    fit, penalty = terms(model)["fit"], torch.zeros(())
    loss = fit + 2 * penalty
    loss.backward()


def test_a_term_that_compares_a_teacher_with_itself_is_found() -> None:
    [one] = found(with_itself)
    assert (one.term, one.equal) == ("divergence", ("soft", "target"))
    assert found(with_the_model) == []
    assert [other.equal for other in found(switched_off)] == [None]
