"""Observations of layers in the forwards that are inspected."""

from __future__ import annotations

import pytest
import torch
from tests.adapters.torch.watched import Seen, sgd, watched
from torch import nn

from mothtrap.core.fact import Fact
from mothtrap.core.facts.layers import (
    DataTaken,
    ForwardScales,
    OutputSpread,
    RouterLoad,
    UnitInputs,
)


def train(model: nn.Module, *batches: torch.Tensor, rate: float = 0.0) -> Seen:
    """Make one step for each batch; without a rate the weights stay as they are."""
    with watched() as seen:
        optimizer = sgd(model, rate=rate)
        for rows in batches:
            output = model(rows)
            (output if isinstance(output, torch.Tensor) else output[0]).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert seen.failed() == []
    return seen


def told(seen: Seen, kind: type[Fact]) -> list:
    return [o for record in seen.records for o in record.observations if isinstance(o, kind)]


def table(rows: int = 64, features: int = 6) -> torch.Tensor:
    return torch.randn(rows, features) * torch.arange(1.0, features + 1) + 3.0


def net(features: int = 6) -> nn.Sequential:
    return nn.Sequential(nn.Linear(features, 8), nn.Tanh(), nn.Linear(8, 1))


def test_the_data_of_the_first_layer_are_told_feature_by_feature() -> None:
    rows = table()
    rows[:, 5] = 2 * rows[:, 1] + 1
    rows[:, 3] = 7.0
    model = net()
    [look] = told(train(model, rows), DataTaken)
    assert (look.step, look.layer, look.layer_type, look.shape) == (0, "0", "Linear", (64, 6))
    assert (look.rows, look.features, look.grid, look.normalized) == (64, 6, False, False)
    assert look.mean == pytest.approx(float(rows.mean()), rel=1e-5)
    assert look.std == pytest.approx(float(rows.std(correction=0)), rel=1e-5)
    assert look.feature_means == pytest.approx(rows.mean(0).tolist(), rel=1e-4)
    assert look.feature_stds == pytest.approx(rows.std(0, correction=0).tolist(), abs=1e-4)
    assert (look.smallest, look.largest) == (float(rows.min()), float(rows.max()))
    assert (look.partners[5], look.feature_ties[3]) == (1, 1.0)
    assert look.correlations[5] == pytest.approx(1.0, abs=1e-3)
    gain = float(model[0].weight.detach().square().mean() * 6) ** 0.5
    assert look.gain == pytest.approx(gain, rel=1e-5)


def test_what_other_layers_made_is_no_data_and_what_is_normalized_is_marked() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)
    )
    [look] = told(train(model, 255 * torch.rand(8, 3, 6, 6)), DataTaken)
    assert (look.layer, look.grid, look.normalized, look.features) == ("0", True, True, 3)
    first = nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 1))
    assert told(train(first, table()), DataTaken) == []


def test_what_a_model_does_to_its_input_first_is_seen() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 1)

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.layer(pixels / 255)

    [look] = told(train(Scaled(), 255 * torch.rand(16, 6)), DataTaken)
    assert look.largest <= 1


class Timed(nn.Module):
    """Concatenates its input with sine waves of a time."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6 + 8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(torch.cat([x, torch.sin(x[:, :1] * torch.arange(8))], 1))


def test_what_a_model_computes_itself_is_marked() -> None:
    [*timed] = told(train(Timed(), table()), DataTaken)
    [*plain] = told(train(nn.Sequential(nn.Flatten(), nn.Linear(6, 3)), table() / 2), DataTaken)
    assert {look.computed for look in timed} == {True}
    assert {look.computed for look in plain} == {False}


def test_tokens_are_no_data() -> None:
    model = nn.Sequential(nn.Embedding(10, 6), nn.Linear(6, 1))
    assert told(train(model, torch.randint(0, 10, (8, 5))), DataTaken) == []


def test_data_that_are_not_finite_are_left_to_others() -> None:
    rows = table()
    rows[3, 2] = float("nan")
    seen = train(net(), rows)
    assert told(seen, DataTaken) == []
    assert told(seen, ForwardScales) == []


def test_the_sizes_of_layers_go_in_order_of_execution() -> None:
    rows = table()
    model = net()
    [look] = told(train(model, rows), ForwardScales)
    assert [layer.layer for layer in look.layers] == ["0", "2"]
    hidden = model[0](rows).detach()
    assert look.layers[0].input_rms == pytest.approx(float(rows.square().mean()) ** 0.5, rel=1e-4)
    assert look.layers[0].output_rms == pytest.approx(
        float(hidden.square().mean()) ** 0.5, rel=1e-4
    )
    assert look.layers[0].variance == pytest.approx(float(hidden.var(correction=0)), rel=1e-4)
    assert [layer.last for layer in look.layers] == [False, True]
    assert not look.normalizes


def test_an_output_tells_how_much_its_rows_differ() -> None:
    rows = table()
    model = net()
    [look] = told(train(model, rows), OutputSpread)
    output = model(rows).detach()
    assert look.spread == pytest.approx(float(output.std(correction=0)), rel=1e-4)
    assert look.largest == pytest.approx(float((output - output[0]).abs().max()), rel=1e-4)
    assert look.inputs_differ is True
    [same] = told(train(net(), rows[:1].repeat(8, 1)), OutputSpread)
    assert same.inputs_differ is False


class Coder(nn.Module):
    """Returns a reconstruction, and the mean and log variance of a code."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 2), nn.Linear(6, 2)][:outputs])

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(layer(rows) for layer in self.layers)


def test_a_reconstruction_tells_how_much_its_input_differs() -> None:
    rows = table()
    spread = float(rows.var(0, correction=0).mean()) ** 0.5
    whole, mean, _ = told(train(Coder(3), rows), OutputSpread)
    assert whole.input_spread == pytest.approx(spread, rel=1e-4)
    assert mean.input_spread is None
    assert [look.input_spread for look in told(train(Coder(2), rows), OutputSpread)] == [None, None]


def test_the_inputs_of_units_are_counted_and_the_last_activation_is_marked() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1), nn.Sigmoid())
    rows = table()
    hidden, output = told(train(model, rows), UnitInputs)
    assert (hidden.module, hidden.function, hidden.units, hidden.last) == ("1", "tanh", 8, False)
    assert (output.module, output.function, output.units, output.last) == ("3", "sigmoid", 1, True)
    counts = torch.tensor(hidden.counts).reshape(8, -1)
    assert counts.sum(dim=1).tolist() == [64] * 8
    inputs = model[0](rows).detach()
    beyond = counts[:, hidden.edges.index(3.0) + 1 :].sum(dim=1)
    assert beyond.tolist() == (inputs > 3.0).sum(dim=0).tolist()


def test_nan_is_no_large_input_of_a_unit() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    rows = table()
    rows[:16] = float("nan")
    [hidden] = told(train(model, rows), UnitInputs)
    assert torch.tensor(hidden.counts).reshape(8, -1).sum(dim=1).tolist() == [48] * 8
    assert told(train(model, rows * float("nan")), UnitInputs) == []


def test_a_router_tells_whom_rows_choose() -> None:
    class Mixture(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(6, 3)
            self.experts = nn.ModuleList(nn.Linear(6, 1) for _ in range(3))

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            weights = self.gate(rows).softmax(-1)
            return sum(weights[:, i : i + 1] * e(rows) for i, e in enumerate(self.experts))

    model, rows = Mixture(), table(90)
    [look] = told(train(model, rows), RouterLoad)
    assert (look.router, look.experts, look.rows) == ("gate", "experts", 90)
    chosen = model.gate(rows).argmax(dim=1).bincount(minlength=3) / 90
    assert look.shares == pytest.approx(chosen.tolist())


def test_looks_become_rare() -> None:
    seen = train(net(), *[table(8)] * 45)
    assert [o.step for o in told(seen, ForwardScales)] == [*range(11), 20, 30, 40]


def test_one_forward_of_a_step_is_looked_at_and_none_of_an_evaluation() -> None:
    model = net()
    with watched() as seen:
        optimizer = sgd(model, rate=0.0)
        for _ in range(2):
            for _ in range(3):
                model(table(8)).sum().backward()
            optimizer.step()
            with torch.no_grad():
                model(table(8))
    assert [o.step for o in told(seen, ForwardScales)] == [0, 1]


def test_a_forward_that_raises_leaves_nothing_behind() -> None:
    class Fails(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 1)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            out = self.layer(rows)
            if len(rows) == 5:
                raise ValueError("five")
            return out

    model = Fails()
    with watched() as seen:
        optimizer = sgd(model, rate=0.0)
        with pytest.raises(ValueError, match="five"):
            model(table(5))
        nn.MSELoss()(table(5), table(5))
        for _ in range(2):
            model(table(8)).sum().backward()
            optimizer.step()
    assert seen.failed() == []
    assert [len(look.layers) for look in told(seen, ForwardScales)] == [1]
