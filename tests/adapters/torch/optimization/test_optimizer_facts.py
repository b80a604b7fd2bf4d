from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.adapters.torch.watched import Seen, batch, classifier, sgd, train, watched
from torch import nn

from mothtrap.core.facts.optimizers import OptimizerFacts


def facts(seen: Seen) -> list[OptimizerFacts]:
    return [o for o in seen.observed(OptimizerFacts) if isinstance(o, OptimizerFacts)]


def test_an_optimizer_is_told_of_once_in_its_first_step() -> None:
    with watched() as seen:
        model = classifier()
        train(model, torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.3), 60)
    [told] = facts(seen)
    assert (told.step, told.optimizer, told.kind) == (0, "AdamW", "AdamW")
    assert (told.learning_rate, told.weight_decay, told.epsilon) == (2e-3, 0.3, 1e-8)
    assert (told.momentum, told.decoupled, told.second_moments) == (0.9, True, True)
    assert (told.state_dtype, told.weight_dtypes) == ("float32", ("float32",))
    assert told.elements == sum(p.numel() for p in model.parameters())


def test_the_line_is_the_one_that_asked_for_the_optimizer() -> None:
    class Mine(torch.optim.SGD):
        def __init__(self, parameters: Any) -> None:
            super().__init__(parameters, lr=0.1)

    with watched() as seen:
        model = classifier()
        line = test_the_line_is_the_one_that_asked_for_the_optimizer.__code__.co_firstlineno
        train(model, Mine(model.parameters()))
    [told] = facts(seen)
    assert told.location is not None
    place, _, number = told.location.rpartition(":")
    assert place.endswith("test_optimizer_facts.py")
    assert int(number) == line + 8


def test_no_line_is_told_of_an_optimizer_that_is_handed_over() -> None:
    model = classifier()
    optimizer = sgd(model)
    with watched(model, optimizer) as seen:
        train(model, optimizer)
    [told] = facts(seen)
    assert (told.location, told.learning_rate, told.momentum) == (None, 0.1, 0.0)


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        (torch.optim.SGD, {"momentum": 0.9}, {"momentum": 0.9, "second_moments": False}),
        (torch.optim.Adam, {"weight_decay": 0.1}, {"weight_decay": 0.1, "decoupled": False}),
        (torch.optim.Adam, {"decoupled_weight_decay": True}, {"decoupled": True}),
        (torch.optim.Adam, {"fused": True}, {"fused": True}),
        (torch.optim.RMSprop, {"eps": 1e-5}, {"second_moments": True, "epsilon": 1e-5}),
        (torch.optim.Adagrad, {}, {"second_moments": True, "epsilon": 1e-10}),
        (torch.optim.Adafactor, {}, {"epsilon": None, "second_moments": False}),
        (torch.optim.LBFGS, {}, {"second_moments": False, "epsilon": None}),
    ],
)
def test_settings_are_read_from_optimizers_of_all_kinds(
    kind: Any, options: dict[str, Any], expected: dict[str, Any]
) -> None:
    with watched() as seen:
        model = classifier()
        optimizer = kind(model.parameters(), **options)
        x, y = batch()

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            return loss

        closure()
        optimizer.step(closure if kind is torch.optim.LBFGS else None)
    [told] = facts(seen)
    assert {name: getattr(told, name) for name in expected} == expected


def test_the_types_of_weights_and_of_their_state_are_told() -> None:
    with watched() as seen:
        model = classifier().to(torch.bfloat16)
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.randn(4, 6, dtype=torch.bfloat16)).sum().backward()
        optimizer.step()
    [told] = facts(seen)
    assert (told.state_dtype, told.weight_dtypes) == ("bfloat16", ("bfloat16",))


def test_a_change_of_the_settings_is_told_and_a_schedule_is_none() -> None:
    with watched() as seen:
        model = classifier()
        optimizer = sgd(model)
        for _ in range(100):
            train(model, optimizer, 1)
            optimizer.param_groups[0]["lr"] *= 0.99
        optimizer.param_groups[0]["weight_decay"] = 0.5
        train(model, optimizer, 60)
    assert [(told.step, told.weight_decay) for told in facts(seen)] == [(0, 0.0), (100, 0.5)]


def test_what_cannot_be_read_costs_itself_alone() -> None:
    class Odd(torch.optim.SGD):
        pass

    with watched(may_fail=True) as seen:
        model = classifier()
        optimizer = Odd(model.parameters(), lr=0.1)
        optimizer.param_groups[0]["eps"] = torch.ones(1, requires_grad=True)
        optimizer.state = None  # type: ignore[assignment]
        x, y = batch()
        nn.functional.cross_entropy(model(x), y).backward()
        seen.tracer.step_began(optimizer, False)
        seen.tracer.step_ended(optimizer, False)
        train(model, sgd(model))
    assert seen.failed() == ["optimizer facts"]
    assert len(seen.scalars("loss")) == 4


def test_an_optimizer_says_at_its_first_step_that_it_takes_over_parameters() -> None:
    with watched() as seen:
        model = classifier()
        for _ in range(3):
            train(model, sgd(model), 60)
        train(classifier(), sgd(model), 1)
        other = classifier()
        train(other, sgd(other), 1)
    took = [told.takes_over for told in facts(seen) if told.learning_rate is not None]
    assert took[:3] == [False, True, True]
    assert took[-1] is False
