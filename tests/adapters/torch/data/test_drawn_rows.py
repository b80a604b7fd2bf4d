from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from tests.adapters.torch.watched import Seen, classifier, sgd, watched
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mothtrap.core.facts.data import RowsDrawn

Tensor = torch.Tensor
STEPS = 40


def train(batches: Iterable[Tensor], model: nn.Module | None = None) -> Seen:
    model = model or classifier()
    optimizer = sgd(model)
    with watched() as seen:
        for batch in batches:
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
    return seen


def every(seen: Seen) -> list[RowsDrawn]:
    return [fact for fact in seen.observed(RowsDrawn) if isinstance(fact, RowsDrawn)]


def told(seen: Seen) -> RowsDrawn:
    [fact] = every(seen)
    return fact


def test_the_same_rows_in_every_step() -> None:
    x = torch.randn(500, 6)
    model = classifier()
    optimizer = sgd(model)
    with watched() as seen:
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(x[:20]).square().mean().backward()
            optimizer.step()
    fact = told(seen)
    assert (fact.module, fact.argument, fact.first_step) == ("Sequential", "input", 0)
    assert (fact.batches, fact.same, fact.distinct, fact.anew) == (32, 31, 20, 32)
    assert (fact.source, fact.source_rows) == ("x", 500)
    assert "test_drawn_rows.py:" in (fact.location or "")


def test_rows_of_an_array_of_another_type() -> None:
    x = np.random.default_rng(0).normal(size=(500, 6))
    model = classifier()
    optimizer = sgd(model)
    with watched() as seen:
        for _ in range(STEPS):
            batch = torch.tensor(x[np.random.default_rng(1).integers(0, 500, 20)]).float()
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
    fact = told(seen)
    assert (fact.same, fact.source, fact.source_rows) == (31, "x", 500)


def test_all_rows_of_a_variable_in_one_tensor() -> None:
    x = torch.randn(500, 6)
    fact = told(train(x for _ in range(STEPS)))
    assert (fact.same, fact.anew, fact.rows) == (31, 1, 500)


def test_rows_drawn_at_random() -> None:
    x = torch.randn(200, 6)
    fact = told(train(x[torch.randint(200, (20,))] for _ in range(STEPS)))
    assert fact.same == 0
    assert fact.kept < 0.2


def test_a_model_that_is_wrapped_anew_in_each_step() -> None:
    x, inner = torch.randn(200, 6), classifier()
    optimizer = sgd(inner)
    with watched() as seen:
        for _ in range(STEPS):
            optimizer.zero_grad()
            nn.Sequential(inner)(x[:20]).square().mean().backward()
            optimizer.step()
    assert told(seen).same == 31


def test_a_batch_that_is_written_into_is_a_new_one() -> None:
    batch = torch.zeros(20, 6)
    fact = told(train(batch.normal_() for _ in range(STEPS)))
    assert (fact.same, fact.distinct, fact.anew) == (0, 640, 32)


def test_nothing_is_told_of_loaders_and_of_points_of_an_equation() -> None:
    x = torch.randn(200, 6)
    loader = DataLoader(TensorDataset(x), batch_size=20)
    loaded = train(rows for _ in range(4) for (rows,) in loader)
    assert loaded.observed(RowsDrawn) == []
    assert not loaded.tracer.forwards.inputs.drawn.is_busy
    points = torch.randn(20, 6, requires_grad=True)
    assert train(points for _ in range(STEPS)).observed(RowsDrawn) == []


def test_a_policy_that_is_called_for_each_state_is_not_compared() -> None:
    policy, values, x = classifier(), classifier(), torch.randn(200, 6)
    optimizer = sgd(nn.ModuleList([policy, values]))
    with watched() as seen:
        for _ in range(STEPS):
            optimizer.zero_grad()
            gain = torch.stack([policy(state[None]).sum() for state in x[:40]]).mean()
            (gain + values(x[:40]).square().mean()).backward()
            optimizer.step()
    assert not seen.tracer.forwards.inputs.drawn.is_busy


def test_computed_inputs_are_skipped() -> None:
    x, model, other = torch.randn(200, 6), classifier(), nn.Linear(6, 6)
    optimizer = sgd(model)
    with watched() as seen:
        for step in range(2 * STEPS):
            optimizer.zero_grad()
            given = other(torch.randn(20, 6)) if step % 2 else x[:20]
            model(given).square().mean().backward()
            optimizer.step()
    assert (32, 20) in [(fact.batches, fact.distinct) for fact in every(seen)]


def test_evaluations_without_no_grad_are_not_counted() -> None:
    x, model = torch.randn(200, 6), classifier()
    optimizer = sgd(model)
    with watched() as seen:
        for _ in range(STEPS):
            model(x[100:120]).square().mean().item()
            optimizer.zero_grad()
            model(x[:20]).square().mean().backward()
            optimizer.step()
    assert {fact.distinct for fact in every(seen)} <= {20}
