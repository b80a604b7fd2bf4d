"""Weights before the first step, and units that start out the same."""

from __future__ import annotations

import pytest
import torch
from tests.adapters.torch.watched import Seen, sgd, watched
from torch import nn

from mothtrap.core.fact import Fact
from mothtrap.core.facts.layers import IdenticalUnits, InitialWeights


def train(model: nn.Module, steps: int = 8, *, rate: float = 0.1, features: int = 6) -> Seen:
    """Make steps of a regression on noise."""
    with watched() as seen:
        optimizer = sgd(model, rate=rate)
        for _ in range(steps):
            output = model(torch.randn(16, features))
            (output - torch.randn_like(output)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert seen.failed() == []
    return seen


def told(seen: Seen, kind: type[Fact]) -> list:
    return [o for record in seen.records for o in record.observations if isinstance(o, kind)]


def set_all(model: nn.Module, value: float) -> nn.Module:
    for parameter in model.parameters():
        nn.init.constant_(parameter, value)
    return model


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))


def test_first_weights_are_told_before_they_change() -> None:
    model = net()
    first = model[0].weight.detach().clone()
    looks = told(train(model), InitialWeights)
    assert [look.name for look in looks] == ["0.weight", "2.weight"]
    assert (looks[0].units, looks[0].fan_in, looks[1].units, looks[1].fan_in) == (8, 6, 4, 8)
    assert looks[0].rms == pytest.approx(float(first.square().mean()) ** 0.5, rel=1e-5)
    assert looks[0].std == pytest.approx(float(first.std(correction=0)), rel=1e-5)
    assert looks[0].gradient_range > 0


@pytest.mark.parametrize("evaluations", [1, 3])
def test_a_step_with_a_closure_is_looked_at_once(evaluations: int) -> None:
    torch.manual_seed(0)
    model = set_all(net(), 0.0)
    first = net()[0].weight.detach()
    model[0].weight.data.copy_(first)
    with watched() as seen:
        optimizer = torch.optim.LBFGS(
            model.parameters(), max_iter=evaluations, max_eval=evaluations
        )
        x, y = torch.randn(16, 6), torch.randn(16, 4)

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
    assert seen.failed() == []
    looks = told(seen, InitialWeights)
    assert [look.name for look in looks] == ["0.weight", "2.weight"]
    assert looks[0].rms == pytest.approx(float(first.square().mean()) ** 0.5, rel=1e-5)
    hidden = [look.looks for look in told(seen, IdenticalUnits) if look.layer == "2"]
    assert hidden == sorted(set(hidden))


def test_random_weights_are_not_looked_at_again() -> None:
    assert told(train(net()), IdenticalUnits) == []


def test_zero_weights_in_every_layer_are_told_again_and_again() -> None:
    looks = told(train(set_all(net(), 0.0), steps=6), IdenticalUnits)
    hidden = [look for look in looks if look.layer == "0"]
    assert [look.looks for look in hidden] == [1, 2, 3, 4, 5, 6]
    assert all(look.zero and look.gradient_zero and look.units == 8 for look in hidden)
    assert [look.moved for look in hidden] == [False, True, True, True, True, True]


def test_a_constant_keeps_the_hidden_units_alike_and_parts_the_last_ones() -> None:
    looks = told(train(set_all(net(), 0.3)), IdenticalUnits)
    assert {look.layer for look in looks} == {"0"}
    assert not looks[-1].zero
    assert not looks[-1].gradient_zero


def test_zero_weights_of_a_last_layer_part_at_once() -> None:
    model = net()
    nn.init.zeros_(model[2].weight)
    assert told(train(model), IdenticalUnits) == []


def test_zero_weights_at_the_end_of_a_residual_branch_part_at_once() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 6)
            nn.init.zeros_(self.last.weight)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return rows + self.last(torch.relu(self.first(rows)))

    assert told(train(Residual()), IdenticalUnits) == []


def test_units_of_recurrent_layers_are_compared_within_their_gate() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = nn.LSTM(3, 5, batch_first=True), nn.Linear(5, 2)
            set_all(self.cell, 0.1)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.head(self.cell(rows.reshape(16, 2, 3))[0][:, -1])

    model = Recurrent()
    nn.init.constant_(model.head.weight, 0.2)
    looks = told(train(model), IdenticalUnits)
    assert "cell.weight_ih_l0" in {look.name for look in looks}
    assert {look.units for look in looks if look.layer == "cell"} == {5}


def test_a_weight_of_the_users_own_may_have_its_units_along_either_axis() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.full((6, 8), 0.1))
            self.head = nn.Linear(8, 1)
            nn.init.constant_(self.head.weight, 0.2)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.head(torch.tanh(rows @ self.w))

    looks = told(train(Own()), IdenticalUnits)
    assert {(look.name, look.units) for look in looks} == {("w", 8)}


def test_embeddings_and_single_units_are_left_out() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.head = nn.Embedding(10, 4), nn.Linear(4, 1)
            set_all(self, 0.0)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.head(self.table(rows.abs().long().clamp(max=9)).mean(dim=1))

    assert told(train(Words()), IdenticalUnits) == []
