from __future__ import annotations

import pytest
import torch
from tests.adapters.torch.watched import classifier, sgd, train
from torch import nn

from mothtrap.adapters.torch.optimization.initial import looks_untouched


@pytest.mark.parametrize(
    "module",
    [
        nn.Linear(6, 32),
        nn.Linear(300, 300),
        nn.Conv1d(3, 8, 3),
        nn.Conv2d(8, 16, 3, groups=2),
        nn.LSTM(5, 12, num_layers=2),
        nn.GRU(5, 12),
        nn.Embedding(50, 16),
    ],
    ids=lambda module: type(module).__name__,
)
def test_a_new_module_is_untouched_and_one_of_another_scale_is_not(module: nn.Module) -> None:
    assert looks_untouched([module]) is True
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1.5)
    assert looks_untouched([module]) is False


def test_it_holds_for_every_seed() -> None:
    for seed in range(200):
        torch.manual_seed(seed)
        assert looks_untouched([nn.Linear(8, 8), nn.Embedding(20, 8)]), seed


def test_a_trained_module_is_not_untouched() -> None:
    model = classifier(inputs=6, hidden=64)
    assert looks_untouched(model.modules()) is True
    train(model, sgd(model, 0.05), 20)
    assert looks_untouched([model[0]]) is False


def test_other_initializations_and_small_weights_tell_nothing_of_the_default() -> None:
    layer = nn.Linear(32, 32)
    nn.init.kaiming_normal_(layer.weight)
    assert looks_untouched([layer]) is False
    assert looks_untouched([nn.Linear(4, 4), nn.LayerNorm(128), nn.ReLU()]) is None


def transformer_layer(seed: int) -> list[nn.Module]:
    """Layers as a model of Hugging Face initializes them."""
    torch.manual_seed(seed)
    linear, words = nn.Linear(32, 64), nn.Embedding(60, 32, padding_idx=0)
    nn.init.normal_(linear.weight, std=0.02)
    nn.init.zeros_(linear.bias)
    nn.init.normal_(words.weight, std=0.02)
    with torch.no_grad():
        words.weight[0].zero_()
    return [linear, words]


def test_a_transformer_made_from_its_configuration_is_untouched() -> None:
    for seed in range(100):
        assert looks_untouched(transformer_layer(seed)), seed


@pytest.mark.parametrize("change", ["bias", "tails", "scale"])
def test_a_trained_transformer_is_not_untouched(change: str) -> None:
    linear = nn.Linear(64, 64)
    nn.init.normal_(linear.weight, std=0.02)
    nn.init.zeros_(linear.bias)
    with torch.no_grad():
        if change == "bias":
            linear.bias[3] = 1e-4
        elif change == "tails":  # of the same deviation
            linear.weight.copy_(0.02 * torch.randn(64, 64) * torch.randn(64, 64))
        else:
            linear.weight.mul_(1.5)
    assert looks_untouched([linear]) is False
