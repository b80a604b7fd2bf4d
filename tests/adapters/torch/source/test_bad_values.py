"""The operation that made NaN is found from the source and the values of a running function."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from mothtrap.adapters.torch.losses import bad_in_source
from mothtrap.core.facts.nonfinite import FirstBadOperation

kept: list[tuple[nn.Module | None, torch.Tensor | None]] = []
"""Modules with their outputs, as an observer of forwards keeps them."""


def backward(loss: torch.Tensor) -> FirstBadOperation | None:
    """Imitate the backward of a loss; return the operation found for it."""
    assert not torch.isfinite(loss).all()
    found = bad_in_source.of_call(sys._getframe(1), kept)
    return bad_in_source.fact_of(found, 0) if found is not None and not found.given else None


def watched(module: nn.Module, *given: torch.Tensor, leaves: bool = False) -> torch.Tensor:
    """Call a module and keep the outputs of its parts, or only those of its innermost parts."""
    kept.clear()
    handles = [
        part.register_forward_hook(lambda m, _, out: kept.append((m, out.detach())))
        for part in module.modules()
        if not (leaves and any(part.children()))
    ]
    result: torch.Tensor = module(*given)
    for handle in handles:
        handle.remove()
    return result


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    kept.clear()


def whiten(values: torch.Tensor) -> torch.Tensor:
    mean, std = values.mean(), values.std()
    return (values - mean) / (std + 1e-8)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, pad: torch.Tensor) -> torch.Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2) / x.shape[-1] ** 0.5
        scores = scores.masked_fill(pad[:, None], float("-inf"))
        return torch.softmax(scores, -1) @ x


@pytest.mark.filterwarnings("ignore")
class TestStandardDeviationOfOne:
    def test_assigned_to_its_own_name(self) -> None:
        rows = torch.tensor([1.0, 2.0, 3.0])
        advantage = rows[torch.tensor([2])]
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        loss = (advantage * torch.ones(1, requires_grad=True)).mean()
        found = backward(loss)
        assert found is not None
        assert found.operation == "torch.std"
        assert found.inputs == ("advantage: 1 value, 3",)

    def test_in_a_function_whose_argument_is_gone(self) -> None:
        rewards: list[float] | torch.Tensor = []
        rewards.insert(0, 2.0)  # type: ignore[union-attr]
        rewards = whiten(torch.tensor(rewards))
        loss = (rewards * torch.ones(1, requires_grad=True)).mean()
        found = backward(loss)
        assert found is not None
        assert found.operation == "torch.std"
        assert found.inputs == ("values: 1 value",)

    def test_of_a_batch_of_one_row(self) -> None:
        x = torch.randn(1, 3)
        scaled = (x - x.mean(0)) / torch.std(x, dim=0)
        loss = (scaled * torch.ones(3, requires_grad=True)).sum()
        found = backward(loss)
        assert found is not None
        assert found.operation == "torch.std"
        assert "shape (1, 3)" in found.inputs[0]


class TestMaskedSoftmax:
    def test_inside_a_module(self) -> None:
        x, pad = torch.randn(3, 5, 4), torch.zeros(3, 5, dtype=torch.bool)
        pad[1] = True
        module = Attention()
        out = watched(module, x, pad)  # noqa: F841  # read by the search
        loss = module(x, pad).mean()
        found = backward(loss)
        assert found is not None
        assert found.operation == "torch.softmax"
        assert "5 of 15 rows are all -inf" in found.inputs[0]
        assert found.rows == (1,)

    def test_in_a_function(self) -> None:
        scores = torch.randn(2, 3, requires_grad=True)
        mask = torch.tensor([[0.0, 0.0, -np.inf], [-np.inf] * 3])
        weights = functional.softmax(scores + mask, dim=-1)
        loss = weights.sum()
        found = backward(loss)
        assert found is not None
        assert found.operation == "torch.softmax"

    def test_a_row_that_is_partly_masked_is_not_blamed(self) -> None:
        scores = torch.randn(2, 3, requires_grad=True)
        hidden = torch.tensor([[False, False, True], [True, True, False]])
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        ratio = torch.zeros(2) / torch.zeros(2)
        loss = (weights.sum(1) * ratio).sum()
        found = backward(loss)
        assert found is not None
        assert found.operation == "torch.div"


def logarithm(x: torch.Tensor) -> torch.Tensor:
    return torch.log(x)


def root(x: torch.Tensor) -> torch.Tensor:
    return (x - 1).sqrt()


def power(x: torch.Tensor) -> torch.Tensor:
    shifted = x - 1.5
    return shifted**0.3


def inverse(x: torch.Tensor) -> torch.Tensor:
    return 1 / x


def exponential(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(100 * x)


@pytest.mark.parametrize(
    ("written", "operation", "least"),
    [
        (logarithm, "torch.log", "x from 0 to 2"),
        (root, "torch.sqrt", "x - 1 from -1 to 1"),
        (power, "torch.pow", "shifted from -1.5 to 0.5"),
        (inverse, "torch.div", "x from 0 to 2"),
        (exponential, "torch.exp", "100 * x from 0 to 200"),
    ],
)
def test_the_operation_is_named_with_its_least_value(
    written: Callable[[torch.Tensor], torch.Tensor], operation: str, least: str
) -> None:
    x = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
    loss = written(x).sum()
    found = backward(loss)
    assert found is not None
    assert found.operation == operation
    assert found.inputs[0].startswith(least)


def test_numpy_outside_of_the_graph() -> None:
    counts = np.array([[1.0, 3.0], [0.0, 0.0]])
    with np.errstate(all="ignore"):
        share = counts / counts.sum(1, keepdims=True)
    target = torch.tensor(share)
    loss = (torch.ones(2, 2, requires_grad=True) * target).sum()
    found = backward(loss)
    assert found is not None
    assert found.operation == "numpy.divide"
    assert found.rows == (1,)


def test_weights_of_a_loss_that_are_infinite() -> None:
    counts = torch.tensor([3.0, 0.0])
    weight = 1 / counts
    criterion = nn.CrossEntropyLoss(weight=weight / weight.sum())
    loss = criterion(torch.randn(4, 2, requires_grad=True), torch.tensor([0, 0, 0, 0]))
    found = backward(loss)
    assert found is not None
    assert found.operation == "torch.div"
    assert "counts from 0 to 3" in found.inputs[0]


def test_a_row_of_ctc_with_too_few_frames() -> None:
    scores = torch.randn(4, 2, 5, requires_grad=True).log_softmax(-1)
    texts, frames, lengths = torch.ones(2, 6).long(), torch.tensor([4, 4]), torch.tensor([2, 6])
    loss = functional.ctc_loss(scores, texts, frames, lengths)
    found = backward(loss)
    assert found is not None
    assert found.operation.endswith("ctc_loss")
    assert found.inputs == ("row 1 has 4 frames for 6 labels",)


def test_half_precision_that_overflows() -> None:
    apart = torch.tensor([300.0, 1.0], dtype=torch.float16, requires_grad=True)
    loss = (apart * apart).sum()
    found = backward(loss)
    assert found is not None
    assert (found.operation, found.overflowed) == ("torch.mul", "float16")


def test_what_was_changed_in_place_since_is_not_blamed() -> None:
    x = torch.ones(3, requires_grad=True)
    size = torch.zeros(3)
    same = size
    bad = size.log() * x
    same.fill_(2.0)
    loss = bad.sum()
    assert backward(loss) is None


def test_a_function_that_cannot_be_followed_is_not_called() -> None:
    calls = []

    def load() -> torch.Tensor:
        calls.append(1)
        while True:
            return torch.tensor([float("nan")])

    loss = load() * torch.ones(1, requires_grad=True)
    assert backward(loss) is None
    assert calls == [1]


def test_no_random_number_is_drawn_and_nothing_is_written() -> None:
    x = torch.zeros(3, requires_grad=True)
    noisy = functional.dropout(x) + torch.randn(3)
    loss = (noisy + x.log()).sum()
    state, before = torch.get_rng_state(), x.detach().clone()
    found = backward(loss)
    assert found is not None
    assert found.operation == "torch.log"
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(x, before)


def test_weights_that_were_destroyed_before_are_not_blamed_on_their_layer() -> None:
    layer = nn.Linear(2, 1)
    with torch.no_grad():
        layer.weight.fill_(float("nan"))
    out = watched(layer, torch.ones(3, 2))
    loss = out.sum()
    assert backward(loss) is None


def test_data_that_came_in_bad_are_given() -> None:
    generator = np.random.default_rng(0)
    y = generator.normal(size=4) * np.array([1.0, np.nan, 1.0, 1.0])
    target = torch.from_numpy(y)
    loss = (torch.ones(4, requires_grad=True) - target).square().mean()
    found = bad_in_source.of_call(given_to(loss), kept)
    assert found is not None
    assert found.given, found.code
    fact = bad_in_source.input_of(found, 3, None)
    assert fact is not None, found
    assert (fact.tensor, fact.rows, fact.nan) == ("y", (1,), 1)


def given_to(loss: torch.Tensor):  # type: ignore[no-untyped-def]
    """Return the frame of a function that passes a loss on, while it runs."""
    del loss
    return sys._getframe(1)


class Scaled(nn.Module):
    """Divides the outputs of torch modules by 0 in a method."""

    def __init__(self, parts: nn.Module) -> None:
        super().__init__()
        self.parts, self.head = parts, nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.parts(x)
        return self.head(hidden * self._scale(hidden))

    def _scale(self, hidden: torch.Tensor) -> torch.Tensor:
        zero = torch.zeros((), dtype=hidden.dtype)
        return zero / zero


@pytest.mark.parametrize(
    "parts",
    [
        nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU())),
        nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2),
    ],
    ids=["sequential", "transformer"],
)
def test_behind_modules_of_which_only_the_parts_are_kept(parts: nn.Module) -> None:
    model, x = Scaled(parts), torch.randn(2, 3, 4)
    watched(model, x, leaves=True)
    loss = model(x).sum()
    found = backward(loss)
    assert found is not None
    assert (found.operation, len(found.inputs)) == ("torch.div", 1)


def test_a_layer_that_adds_to_its_last_part_is_not_taken_for_it() -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, norm_first=True)
    model, x = Scaled(layer), torch.randn(2, 3, 4)
    watched(model, x, leaves=True)
    loss = model(x).sum()
    found = backward(loss)
    assert found is None
