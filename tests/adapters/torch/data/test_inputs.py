from __future__ import annotations

import math

import pytest
import torch
from tests.adapters.torch.watched import Seen, batch, classifier, sgd, watched
from torch import nn

from mothtrap.adapters.torch.data import inputs
from mothtrap.core.facts.data import InputDistribution, NonfiniteInput
from mothtrap.core.steps import Mode

Tensor = torch.Tensor


def step(model: nn.Module, optimizer: torch.optim.Optimizer, *args: Tensor, **kwargs) -> None:
    optimizer.zero_grad()
    model(*args, **kwargs).square().mean().backward()
    optimizer.step()


class Two(nn.Module):
    """Takes a tensor, a mask, and numbers as keyword arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, features: Tensor, mask: Tensor | None = None, *, extra=None) -> Tensor:
        return self.layer(features)


def scales(seen: Seen, mode: Mode = Mode.TRAIN) -> list[tuple[int, str, float, float]]:
    return [
        (told.step, told.argument, round(told.mean, 4), round(told.std, 4))
        for told in seen.observed(InputDistribution)
        if told.mode is mode
    ]


def test_means_and_deviations_are_told_by_argument_and_mode() -> None:
    model, x = Two(), torch.tensor([[1.0] * 6, [3.0] * 6])
    with watched() as seen:
        step(model, sgd(model), x)
        with torch.no_grad():
            model(10 * x)
        step(model, sgd(model), x)
    assert scales(seen) == [(0, "features", 2.0, 1.0), (1, "features", 2.0, 1.0)]
    assert scales(seen, Mode.EVAL) == [(1, "features", 20.0, 10.0)]
    told = seen.observed(InputDistribution)[0]
    assert (told.module, told.rows) == ("Two", 2)
    assert "test_inputs.py:" in (told.location or "")


def test_columns_of_tables_are_described_in_the_first_forwards_of_each_mode() -> None:
    model, x = Two(), torch.tensor([[0.0, 1.0] * 3, [2.0, 1.0] * 3, [4.0, 1.0] * 3])
    with watched() as seen:
        for _ in range(6):
            step(model, sgd(model), x)
            with torch.no_grad():
                model(torch.zeros(600, 6))
                model(torch.zeros(2, 300, 6))
        model(torch.zeros(6))
    train, evaluated = (
        [one for one in seen.observed(InputDistribution) if one.mode is mode]
        for mode in (Mode.TRAIN, Mode.EVAL)
    )
    assert train[0].column_means == (2.0, 1.0) * 3
    assert train[0].column_rows == 3
    assert [round(std, 3) for std in train[0].column_stds[:2]] == [1.633, 0.0]
    assert [round(share, 3) for share in train[0].column_ties[:2]] == [0.333, 1.0]
    assert {one.column_rows for one in evaluated} == {200, 600, 0}
    assert sum(one.column_rows > 0 for one in evaluated) == inputs.COLUMN_LOOKS


def test_windows_of_one_series_are_recognized_in_evaluation() -> None:
    series = torch.randn(30)
    windows = series.unfold(0, 6, 1)
    constant = torch.ones(25, 6)
    for given, expected in ((windows, True), (windows[::2], False), (constant, False)):
        model = Two()
        with watched() as seen:
            step(model, sgd(model), torch.randn(8, 6))
            with torch.no_grad():
                model(given)
            step(model, sgd(model), torch.randn(8, 6))
        told = [one.windows for one in seen.observed(InputDistribution) if one.mode is Mode.EVAL]
        assert told == [expected]


def test_keywords_and_containers_have_names_and_integers_are_left_out() -> None:
    model, x = Two(), torch.randn(2, 6)
    with watched() as seen:
        step(model, sgd(model), x, torch.ones(2, dtype=torch.int64), extra={"age": x + 1})
    assert [name for _, name, _, _ in scales(seen)] == ["features", "extra.age"]


def test_arguments_of_a_model_in_several_wrappers_have_its_names() -> None:
    inner = Two()
    with watched() as seen:
        model = nn.DataParallel(torch.compile(inner, backend="eager"))
        step(model, sgd(inner), torch.randn(2, 6))
    assert [(told.module, told.argument) for told in seen.observed(InputDistribution)] == [
        ("Two", "features")
    ]


def test_some_forwards_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "TRAIN_EVERY", 8)
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(20):
            step(model, optimizer, batch()[0])
            with torch.no_grad():
                for _ in range(5):
                    model(batch()[0])
    assert [told[0] for told in scales(seen)] == [0, 1, 2, 3, 8, 16]
    assert len(scales(seen, Mode.EVAL)) == 19 * inputs.EVAL_FIRST  # the last step is still open


def test_what_another_model_is_given_is_no_data() -> None:
    generator, critic = nn.Linear(6, 6), classifier()
    with watched() as seen:
        optimizer = sgd(generator)
        optimizer.add_param_group({"params": list(critic.parameters())})
        for _ in range(2):
            optimizer.zero_grad()
            critic(generator(batch()[0])).mean().backward()
            optimizer.step()
    assert {told.module for told in seen.observed(InputDistribution)} == {"Linear"}


def bad(x: Tensor, model: nn.Module | None = None) -> list[NonfiniteInput]:
    model = model or classifier()
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(6):
            step(model, optimizer, batch()[0])
        step(model, optimizer, x)
    return seen.observed(NonfiniteInput)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_breaks_the_loss_is_found_in_the_step_that_was_given_it(value: float) -> None:
    x = batch()[0]
    x[2, 1] = value
    [found] = bad(x)
    assert (found.step, found.mode, found.tensor) == (6, Mode.TRAIN, "input")
    assert (found.source, found.from_loader) == ("Sequential", False)
    assert found.rows == (2,)
    assert "test_inputs.py:" in (found.location or "")


def test_a_layer_that_hands_its_input_on_does_not_hide_it() -> None:
    x = batch()[0]
    x[2, 1] = math.nan
    assert len(bad(x, nn.Sequential(nn.Flatten(), nn.Identity(), nn.Linear(6, 3)))) == 1


def test_an_output_of_a_model_given_to_it_again_is_no_data() -> None:
    class Bad(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 6)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x) / 0

    model = Bad()
    with watched() as seen:
        optimizer = sgd(model)
        out = model(batch()[0])
        (out + model(out.detach())).sum().backward()
        optimizer.step()
    assert seen.observed(NonfiniteInput) == []


def test_masks_are_no_bad_inputs() -> None:
    model, mask = Two(), torch.full((4, 4), -math.inf).triu(1)
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(2):
            step(model, optimizer, batch()[0], mask)
        step(model, optimizer, batch()[0] * math.nan, mask)
    assert {found.tensor for found in seen.observed(NonfiniteInput)} == {"features"}
    assert [name for _, name, _, _ in scales(seen)] == ["features"] * 2


def test_nan_in_an_evaluation_is_told() -> None:
    model = classifier()
    with watched() as seen:
        step(model, sgd(model), batch()[0])
        with torch.no_grad():
            model(torch.full((4, 6), math.nan))
        step(model, sgd(model), batch()[0])
    [found] = seen.observed(NonfiniteInput)
    assert found.mode is Mode.EVAL


def test_a_model_that_is_watched_alone_tells_its_inputs_too() -> None:
    model = classifier()
    optimizer = sgd(model)
    with watched(model, optimizer) as seen:
        step(model, optimizer, batch()[0])
    assert [told[0] for told in scales(seen)] == [0]
