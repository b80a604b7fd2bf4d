from __future__ import annotations

import pytest
import torch
from tests.adapters.torch.watched import batch, sgd, watched
from torch import nn

from mothtrap.adapters.torch.layers.activity import BATCHES, ENDS, LEAST_SLOPE, unit_axis
from mothtrap.capture.selection import Stream


@pytest.mark.parametrize(
    ("ndim", "previous", "axis"),
    [
        (4, nn.Conv2d(1, 1, 1), 1),
        (3, nn.Conv1d(1, 1, 1), 1),
        (4, nn.BatchNorm2d(1), 1),
        (2, nn.Linear(1, 1), -1),
        (3, nn.Linear(1, 1), -1),
        (4, nn.Linear(1, 1), -1),
        (3, nn.LayerNorm(1), -1),
        (4, None, 1),
        (3, None, -1),
    ],
)
def test_units_are_channels_after_convolutions_and_features_elsewhere(
    ndim: int, previous: nn.Module | None, axis: int
) -> None:
    assert unit_axis(ndim, previous) == axis


SHARES = Stream(
    name="shares",
    kinds=("activation",),
    statistics=frozenset({"inactive", "saturated"}),
    matches=lambda _: True,
)


def dead(layer: nn.Module, units: tuple[int, ...]) -> nn.Module:
    """Make units of a layer return values that a ReLU turns to zero."""
    with torch.no_grad():
        layer.weight[list(units)] = 0
        layer.bias[list(units)] = -1
    return layer


def inactive(model: nn.Module, name: str, x: torch.Tensor, steps: int = 1) -> list[float]:
    with watched() as seen:
        optimizer = sgd(model, rate=0.0)
        for _ in range(steps):
            model(x).sum().backward()
            optimizer.step()
    return list(seen.rows(f"activation:{name}", "inactive").values())


def test_dead_features_of_a_linear_layer_are_counted() -> None:
    model = nn.Sequential(dead(nn.Linear(6, 8), (1, 4)), nn.ReLU(), nn.Linear(8, 1))
    assert inactive(model, "1", torch.randn(256, 6)) == [0.25]


def test_dead_channels_of_a_convolution_are_counted() -> None:
    model = nn.Sequential(dead(nn.Conv2d(1, 4, 3), (0,)), nn.ReLU(), nn.Flatten(), nn.LazyLinear(1))
    model(torch.randn(2, 1, 8, 8))
    assert inactive(model, "1", torch.randn(16, 1, 8, 8)) == [0.25]


def test_channels_are_found_behind_blocks_pools_and_dropout() -> None:
    block = nn.Sequential(dead(nn.Conv2d(1, 4, 3), (0, 2)), nn.Dropout(0.1))
    model = nn.Sequential(block, nn.MaxPool2d(2), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
    assert inactive(model, "2", torch.randn(16, 1, 8, 8)) == [0.5]


def test_sequences_are_told_apart_by_the_layer_before() -> None:
    convolution = nn.Sequential(dead(nn.Conv1d(3, 4, 1), (3,)), nn.ReLU())
    assert inactive(convolution, "1", torch.randn(64, 3, 5)) == [0.25]
    linear = nn.Sequential(dead(nn.Linear(3, 4), (3,)), nn.ReLU())
    assert inactive(linear, "1", torch.randn(64, 5, 3)) == [0.25]


def test_a_rectifier_that_works_in_place_is_counted_alike() -> None:
    model = nn.Sequential(dead(nn.Linear(6, 8), (1, 4)), nn.ReLU(inplace=True), nn.Linear(8, 1))
    assert inactive(model, "1", torch.randn(256, 6)) == [0.25]


def test_a_unit_counts_as_inactive_only_while_it_sleeps_through_the_last_batches() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    with torch.no_grad():
        model[0].weight.copy_(torch.eye(2))
        model[0].bias.zero_()
    awake, asleep = torch.ones(4, 2), torch.tensor([[1.0, -1.0]] * 4)
    with watched(capture=[SHARES]) as seen:
        optimizer = sgd(model, rate=0.0)
        for x in (awake, *[asleep] * BATCHES):
            model(x).sum().backward()
            optimizer.step()
    shares = list(seen.rows("activation:1", "inactive").values())
    assert shares == [0.0] * BATCHES + [0.5]


def test_evaluation_does_not_count() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU())
    with watched() as seen:
        optimizer = sgd(model)
        model(batch()[0]).sum().backward()
        optimizer.step()
        with torch.no_grad():
            model(batch()[0])
    assert list(seen.rows("activation:1", "inactive")) == [0]


@pytest.mark.parametrize("name", ENDS)
def test_the_ends_are_where_the_derivative_is_small(name: str) -> None:
    module = nn.Hardtanh(-2.0, 3.0) if name == "Hardtanh" else getattr(nn, name)()
    low, high = ENDS[name](module)
    given = torch.linspace(-12, 12, 4801, dtype=torch.float64, requires_grad=True)
    output = module(given)
    (slope,) = torch.autograd.grad(output.sum(), given)
    saturated = (output <= low) | (output >= high)
    unclear = (slope - LEAST_SLOPE).abs() < 1e-9
    assert torch.equal((slope < LEAST_SLOPE)[~unclear], saturated[~unclear])
    assert saturated.any()
    assert not saturated.all()


def shares(model: nn.Module, batches: list[torch.Tensor], name: str, statistic: str) -> list[float]:
    with watched(capture=[SHARES]) as seen:
        optimizer = sgd(model, rate=0.0)
        for x in batches:
            model(x).sum().backward()
            optimizer.step()
    return list(seen.rows(f"activation:{name}", statistic).values())


def test_units_at_the_ends_of_a_saturating_module_are_counted() -> None:
    model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
    with torch.no_grad():
        model[0].weight.zero_()
        model[0].bias.copy_(torch.tensor([9.0, -9.0, 0.5, 2.0]))
    assert shares(model, [torch.ones(8, 2)], "1", "saturated") == [0.5]
    assert shares(model, [torch.ones(8, 2)], "0", "saturated") == []
    assert shares(model, [torch.ones(8, 2)], "1", "inactive") == [0.25]


def test_a_unit_counts_as_saturated_only_while_it_is_so_in_the_last_batches() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Sigmoid(), nn.Linear(2, 1))
    with torch.no_grad():
        model[0].weight.copy_(torch.eye(2))
        model[0].bias.zero_()
    free, pressed = torch.zeros(4, 2), torch.tensor([[0.0, 50.0], [0.0, -50.0]])
    batches = [free, *[pressed] * BATCHES]
    assert shares(model, batches, "1", "saturated") == [0.0] * BATCHES + [0.5]
