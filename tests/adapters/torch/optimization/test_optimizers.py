from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import DEFAULT, batch, classifier, sgd, train, watched
from torch import nn
from torch.nn import functional
from torch.optim import Optimizer

from mothtrap.core.records import GradientState

Tensor = torch.Tensor
FRESH, UNCHANGED, ABSENT = GradientState.FRESH, GradientState.UNCHANGED, GradientState.ABSENT


def backward(model: nn.Module) -> Tensor:
    x, y = batch()
    loss = functional.cross_entropy(model(x), y)
    loss.backward()
    return loss


class Sharp(Optimizer):
    """Sharpness-aware minimization: evaluates the closure twice and nests an optimizer."""

    def __init__(self, params: list[Tensor]) -> None:
        super().__init__(params, {"lr": 0.1})
        self.base = torch.optim.SGD(self.param_groups, lr=0.1)

    def step(self, closure: Callable[[], Tensor]) -> Tensor:
        with torch.enable_grad():
            loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.data.add_(parameter.grad, alpha=1e-2)
        with torch.enable_grad():
            closure()
        self.base.step()
        return loss


# Gradient states


@pytest.mark.parametrize("set_to_none", [True, False])
def test_a_plain_loop_has_fresh_gradients(set_to_none: bool) -> None:
    model = classifier()
    with watched() as seen:
        train(model, sgd(model), steps=3, set_to_none=set_to_none)
    assert seen.scalars("gradient_state") == [FRESH] * 3
    assert seen.scalars("stale_gradient") == [0.0] * 3


def test_a_second_step_on_the_same_gradients_is_unchanged() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        backward(model)
        optimizer.step()
        model(batch()[0])  # a forward ends the step
        optimizer.step()
    assert seen.scalars("gradient_state") == [FRESH, UNCHANGED]


@pytest.mark.parametrize(
    ("set_to_none", "states"), [(True, [FRESH, ABSENT]), (False, [FRESH, FRESH])]
)
def test_gradients_that_were_zeroed_are_absent_or_new(
    set_to_none: bool, states: list[float]
) -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        backward(model)
        optimizer.step()
        model(batch()[0])
        optimizer.zero_grad(set_to_none=set_to_none)
        optimizer.step()
    assert seen.scalars("gradient_state") == states


@pytest.mark.parametrize(("computes", "states"), [(False, []), (True, [ABSENT] * 4)])
def test_steps_between_which_nothing_is_computed_plot_a_schedule(
    computes: bool, states: list[float]
) -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        for _ in range(4):
            if computes:
                model(batch()[0])
            optimizer.step()
            scheduler.step()
    assert seen.scalars("gradient_state") == states


def test_a_gradient_that_appears_later_is_fresh() -> None:
    first, second = (nn.Parameter(torch.ones(2)) for _ in range(2))
    with watched() as seen:
        optimizer = torch.optim.SGD([first, second], lr=0.1)
        for parameter in (first, second):
            first.grad = first.grad
            parameter.sum().backward()
            optimizer.step()
    assert seen.scalars("gradient_state") == [FRESH, FRESH]


def test_two_optimizers_after_one_backward_are_both_fresh() -> None:
    model = classifier()
    with watched() as seen:
        pair = [torch.optim.SGD(part.parameters(), lr=0.1) for part in (model[0], model[2])]
        for _ in range(3):
            for optimizer in pair:
                optimizer.zero_grad()
            backward(model)
            for optimizer in pair:
                optimizer.step()
    assert seen.scalars("gradient_state", "SGD") == [FRESH] * 3
    assert seen.scalars("gradient_state", "SGD#1") == [FRESH] * 3
    assert len(seen.steps()) == 3


def test_gradients_assigned_by_hand_are_fresh() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(3):
            x, y = batch()
            loss = functional.cross_entropy(model(x), y)
            grads = torch.autograd.grad(loss, list(model.parameters()))
            for parameter, grad in zip(model.parameters(), grads, strict=True):
                parameter.grad = grad
            optimizer.step()
    assert seen.scalars("gradient_state") == [FRESH] * 3
    assert seen.scalars("stale_gradient") == [0.0] * 3


def test_marks_survive_when_no_one_in_python_holds_the_gradients() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        backward(model)
        optimizer.step()
        gc.collect()
        [(known, _)] = seen.tracer.optimizers.alive()
        assert len(known.marks) == 4
        assert all(mark() is parameter.grad for parameter, mark, _ in known.marks)


# Stale gradients: since the optimizer's own last step, was there a backward that began with clean
# gradients?


@pytest.mark.parametrize(
    ("order", "stale"),
    [
        (("zero", "backward", "step"), [0, 0, 0, 0]),
        (("backward", "step", "zero"), [0, 0, 0, 0]),
        (("backward", "zero", "step"), [0, 0, 0, 0]),
        (("zero in place", "backward", "step"), [0, 0, 0, 0]),
        (("zero the model", "backward", "step"), [0, 0, 0, 0]),
        (("backward", "step"), [0, 1, 1, 1]),
        (("zero", "backward", "backward", "step"), [0, 0, 0, 0]),
        (("backward", "backward", "step"), [0, 1, 1, 1]),
    ],
)
def test_gradients_are_stale_when_no_backward_began_with_clean_ones(
    order: tuple[str, ...], stale: list[int]
) -> None:
    model = classifier()
    with watched(capture=DEFAULT) as seen:
        optimizer = sgd(model)
        acts: dict[str, Callable[[], object]] = {
            "zero": optimizer.zero_grad,
            "zero in place": lambda: optimizer.zero_grad(set_to_none=False),
            "zero the model": model.zero_grad,
            "backward": lambda: backward(model),
            "step": optimizer.step,
        }
        for _ in range(4):
            for act in order:
                acts[act]()
    assert seen.scalars("stale_gradient") == stale


def test_a_generator_step_leaves_the_critic_clean() -> None:
    generator, critic = nn.Linear(2, 6), nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 1))
    with watched() as seen:
        for_critic, for_generator = sgd(critic), sgd(generator)
        for _ in range(4):
            noise = torch.randn(4, 2)
            for_critic.zero_grad()
            (critic(torch.randn(4, 6)) - critic(generator(noise).detach())).mean().backward()
            for_critic.step()
            for_generator.zero_grad()
            critic(generator(noise)).mean().backward()
            for_generator.step()
    assert seen.scalars("stale_gradient", "SGD") == [0.0] * 4
    assert seen.scalars("stale_gradient", "SGD#1") == [0.0] * 4


# Closures, wrappers, hooks inside a backward


def test_an_optimizer_with_a_closure_is_fresh_and_its_gradients_are_read() -> None:
    model = classifier()
    x, y = batch()
    with watched() as seen:
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            return loss

        losses = [optimizer.step(closure).item() for _ in range(2)]
    assert seen.scalars("gradient_state") == [FRESH] * 2
    assert seen.scalars("stale_gradient") == [0.0] * 2
    assert seen.scalars("loss") == losses
    assert list(seen.rows("gradient:0.weight", "l2")) == [0, 1]


def test_a_nested_optimizer_with_a_closure_is_one_step() -> None:
    model = classifier()
    x, y = batch()
    with watched() as seen:
        optimizer = Sharp(list(model.parameters()))

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            return loss

        losses = [optimizer.step(closure).item() for _ in range(3)]
    assert len(seen.steps()) == 3
    assert seen.scalars("loss") == losses
    assert set(seen.scalars("gradient_state")) == {FRESH}
    assert set(seen.scalars("stale_gradient")) == {0.0}


def test_an_optimizer_per_parameter_inside_the_backward_is_one_step() -> None:
    model = classifier()
    with watched() as seen:
        own = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

        def apply(parameter: Tensor) -> None:
            own[parameter].step()
            own[parameter].zero_grad()

        for parameter in own:
            parameter.register_post_accumulate_grad_hook(apply)
        losses = [backward(model).item() for _ in range(3)]
    assert len(seen.steps()) == 3
    assert seen.scalars("loss") == losses
    assert seen.scalars("gradient_state") == []
    assert list(seen.rows("gradient:0.weight", "l2")) == [0, 1, 2]


# Rates, norms, groups, kinds of gradients


@pytest.mark.parametrize("rate", [0.25, torch.tensor(0.25)])
def test_the_learning_rate_is_the_largest_over_the_groups(rate: float | Tensor) -> None:
    model = classifier()
    with watched() as seen:
        groups = [{"params": model[0].parameters(), "lr": 0.125}, {"params": model[2].parameters()}]
        optimizer = torch.optim.Adam(groups, lr=rate, foreach=False)
        backward(model)
        optimizer.step()
    assert seen.scalars("lr", "Adam") == [0.25]


def test_the_norm_before_clipping_is_that_of_the_step() -> None:
    model = classifier()
    norms = []
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(2):
            optimizer.zero_grad()
            backward(model)
            norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), 1e-3)))
            optimizer.step()
    assert seen.scalars("gradient_norm") == norms
    assert seen.scalars("clip_limit") == [1e-3, 1e-3]
    clipped = sum(
        seen.rows(f"gradient:{name}", "l2")[0] ** 2 for name, _ in model.named_parameters()
    )
    assert clipped**0.5 == pytest.approx(1e-3, rel=1e-3)


def test_a_call_that_only_asks_for_the_norm_does_not_clip() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        backward(model)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=float("inf"))
        optimizer.step()
    assert len(seen.scalars("gradient_norm")) == 1
    assert seen.scalars("clip_limit") == []


def test_sparse_gradients_are_read_and_told_clean_from_dirty() -> None:
    table = nn.Embedding(10, 3, sparse=True)
    with watched() as seen:
        optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
        for clean in (True, True, False):
            if clean:
                optimizer.zero_grad()
            table(torch.tensor([1, 2, 1])).sum().backward()
            optimizer.step()
    assert seen.scalars("stale_gradient") == [0.0, 0.0, 1.0]
    assert seen.rows("gradient:weight", "l2")[0] == pytest.approx((3 * 4 + 3 * 1) ** 0.5)


def test_parameters_added_later_are_owned() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model[0])
        backward(model)
        optimizer.step()
        optimizer.add_param_group({"params": model[2].parameters()})
        backward(model)
        optimizer.step()
        assert seen.tracer.optimizers.owner(model[2].weight) is optimizer
    assert list(seen.rows("gradient:2.weight", "l2")) == [1]
    assert list(seen.rows("gradient:0.weight", "l2")) == [0, 1]


def test_weights_and_biases_are_captured_as_they_are_before_the_step() -> None:
    model = classifier()
    before = [p.detach().clone() for p in (model[0].weight, model[0].bias)]
    with watched() as seen:
        train(model, sgd(model), steps=1)
    assert seen.rows("weight:0.weight", "l2")[0] == pytest.approx(before[0].norm().item(), rel=1e-5)
    assert seen.rows("bias:0.bias", "l2")[0] == pytest.approx(before[1].norm().item(), rel=1e-5)
    assert seen.rows("weight:0.bias", "l2") == {}


# Lifetimes


def test_an_optimizer_that_is_gone_lets_its_parameters_go() -> None:
    model = classifier()
    gone = weakref.ref(model[0].weight)
    with watched() as seen:
        optimizer = sgd(model)
        train(model, optimizer, steps=2)
        del model, optimizer
        gc.collect()
        watch = seen.tracer.optimizers
        assert gone() is None
        assert list(watch.alive()) == []
        assert (len(watch._known), len(watch._owned_by), len(watch._gradient_ids)) == (0, 0, 0)


def test_an_owner_stays_known_when_a_later_one_is_gone() -> None:
    model = classifier()
    with watched() as seen:
        first = sgd(model)
        second = sgd(model)
        assert seen.tracer.optimizers.owner(model[0].weight) is second
        del second
        gc.collect()
        assert seen.tracer.optimizers.owner(model[0].weight) is first


def test_a_copied_optimizer_is_another_one() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        train(model, optimizer, steps=1)
        copied_model, copied = copy.deepcopy((model, optimizer))
        train(copied_model, copied, steps=1)
    assert [record.optimizers for record in seen.steps()] == [("SGD",), ("SGD#1",)]
