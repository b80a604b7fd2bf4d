"""The operation that made the first bad values is named, and never an innocent one."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from mothtrap.adapters.torch.origin.operations import (
    Localized,
    OperationObserver,
)

HERE = os.path.relpath(__file__)


def narrowed(loss: Callable[[], torch.Tensor], *weights: torch.Tensor, **options) -> Localized:
    """Return the result of a watched forward and backward; there must be one."""
    with OperationObserver(**options) as watch:
        loss().backward()
        found = watch.explain({str(n): weight.grad for n, weight in enumerate(weights)})
    assert found is not None, "nothing was found"
    return found


def weight(*values: float) -> torch.Tensor:
    return torch.tensor(values, requires_grad=True)


def line_of(text: str) -> str:
    """`file:line` of the one line in this file that ends with a mark."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    [number] = [n for n, line in enumerate(lines, start=1) if line.endswith(f"# {text}")]
    return f"{HERE}:{number}"


def test_the_first_operation_is_named_not_what_follows() -> None:
    x = weight(1.0, 0.0, 2.0)

    def loss() -> torch.Tensor:
        y = x.log()  # log
        return (y * 0 + y.exp()).sum()

    found = narrowed(loss, x)
    assert (found.operation, found.rows, found.rows_of) == ("torch.log", (1,), 3)
    assert found.location == line_of("log")
    assert found.stack[0] == found.location
    assert found.detail == "aten.log.default"
    [given] = found.inputs
    assert (given.minimum, given.maximum, given.zeros, given.at_bad) == (0.0, 2.0, 1, 0.0)
    assert found.sentence.startswith(f"torch.log made infinities at {HERE}:")


@pytest.mark.parametrize(
    ("operation", "compute"),
    [
        ("torch.div", lambda x: 1 / x),
        ("torch.div", lambda x: x / 0),
        ("torch.div", lambda x: x.clone().div_(0)),
        ("torch.exp", lambda x: (x * 1000).exp()),
        ("torch.pow", lambda x: x**-1.0),
        ("torch.matmul", lambda x: (x * 1e38) @ torch.full((3,), 1e3)),
        (
            "torch.nn.functional.linear",
            lambda x: functional.linear(x * 1e38, torch.tensor([[3.0] * 3])),
        ),
        ("torch.sum", lambda x: (x * 1e38 + 1e38).sum()),
        ("conversion to torch.float16", lambda x: (x * 1e6).half().float()),
        ("torch.rsqrt", lambda x: x.rsqrt()),
        ("torch.nn.functional.normalize", lambda x: functional.normalize(x * 0, eps=0.0, dim=0)),
        ("torch.std", lambda x: x[:1].std()),
    ],
)
@pytest.mark.filterwarnings("ignore:std")
def test_operations_bear_the_names_that_users_write(
    operation: str, compute: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    x = weight(0.0, 1.0, 2.0)
    assert narrowed(lambda: compute(x).sum(), x).operation == operation


def test_a_backward_is_named_after_its_forward() -> None:
    x = weight(4.0, 0.0)

    def loss() -> torch.Tensor:
        return torch.sqrt(x * x).sum()  # sqrt

    found = narrowed(loss, x)
    assert (found.operation, found.rows) == ("backward of torch.sqrt", (1,))
    assert found.location == line_of("sqrt")


def test_what_a_mask_leaves_out_in_the_forward_is_found_in_the_backward() -> None:
    x = weight(1.0, 0.0)
    found = narrowed(lambda: torch.where(x > 0, x.log(), 0.0).sum(), x)
    assert found.operation == "backward of torch.log"


class Doubled(torch.autograd.Function):
    """Its backward divides by 0."""

    @staticmethod
    def forward(ctx, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
        return gradient / torch.zeros_like(gradient)  # own backward


def test_an_autograd_function_of_the_user_is_named() -> None:
    x = weight(1.0)
    found = narrowed(lambda: Doubled.apply(x).sum(), x)
    assert found.operation == "backward of Doubled"
    assert found.location == line_of("own backward")


def test_masks_of_minus_infinity_are_in_order() -> None:
    scores = weight(1.0, 2.0, 3.0)
    mask = torch.tensor([0.0, -math.inf, 0.0])

    def loss() -> torch.Tensor:
        shares = torch.softmax(scores + mask, 0) + torch.softmax(
            scores.masked_fill(mask < 0, -math.inf), 0
        )
        biased = functional.scaled_dot_product_attention(
            scores.view(1, 3, 1), scores.view(1, 3, 1), scores.view(1, 3, 1), mask.view(1, 1, 3)
        )
        return (shares * biased.view(3)).sum() + torch.log(scores - 1).sum() * 0

    assert narrowed(loss, scores).operation == "torch.log"


def test_nothing_is_found_where_masks_do_no_harm() -> None:
    scores = weight(1.0, 2.0)
    with OperationObserver() as watch:
        torch.softmax(scores.masked_fill(scores > 1, -math.inf), 0).square().sum().backward()
        assert watch.explain({"scores": scores.grad}) is None


@pytest.mark.parametrize("given", ["filled", "mask"])
def test_softmax_over_masked_values_alone_is_named(given: str) -> None:
    scores = weight(1.0, 2.0)
    mask = torch.tensor([-math.inf, -math.inf])

    def loss() -> torch.Tensor:
        masked = scores + mask if given == "mask" else scores.masked_fill(scores > 0, -math.inf)
        return torch.softmax(masked, 0).sum()

    assert narrowed(loss, scores).operation == "torch.softmax"


def test_bad_data_are_no_operations_fault() -> None:
    batch = {"x": torch.tensor([[1.0, 2.0], [3.0, math.nan]]), "y": torch.zeros(2, 1)}
    model = nn.Linear(2, 1)
    with OperationObserver() as watch:
        watch.handed(batch)
        functional.mse_loss(model(batch["x"]), batch["y"]).backward()
        found = watch.explain({"weight": model.weight.grad})
    assert found is not None
    assert (found.operation, found.holder, found.rows) == (None, "batch['x']", (1,))
    assert found.sentence == "batch['x'] contains NaN in row 1, and already did at the start"


def test_missing_values_that_are_replaced_are_in_order() -> None:
    x = torch.tensor([1.0, math.nan])
    scale = weight(0.0)
    found = narrowed(lambda: (torch.nan_to_num(x) / scale).sum(), scale)
    assert found.operation == "torch.div"


def test_logarithms_of_zero_in_the_data_are_bad_data() -> None:
    x = torch.tensor([[1.0, -math.inf], [0.0, 0.0]])
    model = nn.Linear(2, 3)
    found = narrowed(lambda: torch.tanh(model(x)).mul(0).log().sum() + model(x).sum() * 0)
    assert (found.operation, found.holder) == (None, "argument input of Linear")


def test_bad_weights_are_named() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    with torch.no_grad():
        model[1].weight[0, 1] = math.inf
    found = narrowed(lambda: model(torch.ones(3, 2)).sum())
    assert (found.operation, found.holder, found.rows) == (None, "weight 1.weight", ())


def test_the_module_that_ran_is_named() -> None:
    class Head(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.acos(x + 2)

    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU(), Head()))
    found = narrowed(lambda: model(torch.ones(3, 2)).sum(), *model.parameters())
    assert (found.operation, found.module) == ("torch.acos", "1.1")


def test_an_overflow_inside_of_autocast_is_a_conversion() -> None:
    model = nn.Linear(2, 2)

    def loss() -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.float16):
            return model(torch.tensor([[1.0, 1e5], [1.0, 1.0]])).float().sum()

    found = narrowed(loss, *model.parameters())
    assert (found.operation, found.module, found.rows) == (
        "conversion to torch.float16",
        "Linear",
        (0,),
    )


def test_gradients_that_the_user_divides_are_seen() -> None:
    x = weight(1.0)
    with OperationObserver() as watch:
        x.square().sum().backward()
        x.grad.div_(0)  # by hand
        found = watch.explain({"x": x.grad})
    assert found is not None
    assert (found.operation, found.location) == ("torch.div", line_of("by hand"))


def test_operations_on_lists_are_seen() -> None:
    x, y = weight(1.0, 2.0), weight(0.0)
    with OperationObserver() as watch:
        (x.sum() * y.sum()).backward()
        torch._foreach_div_([x.grad, y.grad], [1.0, 0.0])
        found = watch.explain({"x": x.grad, "y": y.grad})
    assert found is not None
    assert found.detail == "aten._foreach_div_.ScalarList"


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_is_computed_again_in_a_backward_is_named(reentrant: bool) -> None:
    x = weight(0.0, 2.0)

    def part(values: torch.Tensor) -> torch.Tensor:
        return torch.log(values)

    found = narrowed(lambda: checkpoint(part, x, use_reentrant=reentrant).sum(), x)
    assert (found.operation, found.rows) == ("torch.log", (0,))


def test_uninitialized_memory_is_no_finding() -> None:
    x = weight(1.0)

    def loss() -> torch.Tensor:
        room = torch.empty(1000).fill_(math.nan)
        room = torch.empty_like(room)
        room.copy_(torch.ones(1000))
        return (room.sum() * x).log().sum() * 0 + (x - 1).log().sum()

    assert narrowed(loss, x).operation == "torch.log"


def test_values_beyond_a_limit_count_as_bad() -> None:
    x = weight(1.0, 2.0)
    found = narrowed(lambda: ((x * 1e4) ** 2).sum(), x, limit=1e7)
    assert (found.operation, found.rows) == ("torch.pow", (0, 1))
    assert "beyond the limit" in found.sentence


def test_an_exception_is_traced_to_its_operation() -> None:
    embed = nn.Sequential(nn.Embedding(4, 2))
    watch = OperationObserver()
    with pytest.raises(IndexError) as caught, watch:
        embed(torch.tensor([[1, 2], [4, 0]]))
    found = watch.raised(caught.value)
    assert found is not None
    assert (found.operation, found.module) == ("torch.nn.functional.embedding", "0")
    assert found.error == "IndexError: index out of range in self"
    assert found.inputs[0].maximum == 4


def refused(loss: Callable[[torch.Tensor], object], x: torch.Tensor) -> Localized | None:
    """Return the result of a watched call that raises."""
    watch = OperationObserver()
    with pytest.raises(Exception) as caught, watch:  # noqa: PT011  # whichever it is
        loss(x)
    return watch.raised(caught.value)


def test_nan_that_an_operation_refuses_is_traced_to_what_made_it() -> None:
    def loss(x: torch.Tensor) -> object:
        root = x.sqrt()  # root
        return functional.binary_cross_entropy(torch.sigmoid(root), torch.ones(3))

    found = refused(loss, torch.tensor([1.0, -1.0, 4.0]))
    assert found is not None
    assert (found.operation, found.location, found.rows) == ("torch.sqrt", line_of("root"), (1,))
    assert "binary_cross_entropy rejected it" in found.sentence


def test_nan_that_came_in_and_is_refused_is_named_as_what_held_it() -> None:
    def loss(x: torch.Tensor) -> object:
        return functional.binary_cross_entropy(x, torch.ones(2))

    found = refused(loss, torch.tensor([0.5, math.nan]))
    assert found is not None
    assert found.operation is None
    assert (
        "and already did at the start; torch.nn.functional.binary_cross_entropy" in found.sentence
    )


def test_nan_that_a_distribution_or_the_script_refuses_is_traced_too() -> None:
    def sample(x: torch.Tensor) -> object:
        return torch.distributions.Categorical(logits=x.log() * 0.0, validate_args=True)

    def stop(x: torch.Tensor) -> object:
        raise ValueError(f"the loss is {x.log().sum() * 0.0}")

    for loss in (sample, stop):
        found = refused(loss, torch.tensor([0.0, 1.0]))
        assert found is not None, loss
        assert found.operation == "torch.log"


def test_nan_is_not_blamed_for_a_shape_that_does_not_fit() -> None:
    found = refused(lambda x: functional.linear(x.sqrt(), torch.ones(2, 7)), torch.tensor([-1.0]))
    assert found is not None
    assert found.operation == "torch.nn.functional.linear"


def test_operands_of_an_exception_are_named_as_they_are_written() -> None:
    rows, parts = torch.ones(6, 1), [torch.ones(2, 1), torch.ones(2, 3)]
    watch = OperationObserver()
    with pytest.raises(RuntimeError) as caught, watch:
        rows * 2 - torch.ones(32, 1)
    found = watch.raised(caught.value)
    assert found is not None
    assert [given.name for given in found.inputs] == ["first operand", "second operand"]
    with pytest.raises(RuntimeError) as caught, watch:
        rows - parts[0].expand(2, 5)
    found = watch.raised(caught.value)
    assert found is not None
    assert [given.name for given in found.inputs] == ["rows", "second operand"]
    with pytest.raises(RuntimeError) as caught, watch:
        torch.cat(parts)
    found = watch.raised(caught.value)
    assert found is not None
    assert [given.name for given in found.inputs] == ["parts[0]", "parts[1]"]


def test_an_exception_of_the_users_own_is_no_one_elses() -> None:
    watch = OperationObserver()
    with pytest.raises(KeyError) as caught, watch:
        {}[torch.ones(2).sum()]
    assert watch.raised(caught.value) is None


def test_everything_is_as_before_afterwards() -> None:
    hooks = dict(torch.nn.modules.module._global_forward_hooks)
    x = weight(0.0)
    narrowed(lambda: x.log().sum(), x)
    assert torch.nn.modules.module._global_forward_hooks == hooks
    assert not torch.is_anomaly_enabled()
    assert torch.overrides._get_current_function_mode_stack() == []


def test_a_layer_that_raises_by_itself_is_named_and_no_operation() -> None:
    rnn = nn.GRU(3, 4)
    with pytest.raises(RuntimeError, match="hidden size") as caught, OperationObserver() as watch:
        rnn(torch.zeros(5, 2, 3), torch.zeros(1, 8, 4))  # hidden
    assert watch.raised(caught.value) is None
    found = watch.raised_in_module(caught.value)
    assert found is not None
    assert (found.operation, found.location) == (None, line_of("hidden"))
    assert found.sentence.startswith("GRU raised RuntimeError: Expected hidden size (1, 2, 4)")
    assert watch.raised_in_module(RuntimeError("another")) is None
