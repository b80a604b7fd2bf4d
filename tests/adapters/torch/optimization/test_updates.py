from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, same, sgd, train, watched, whole
from torch import nn

from mothtrap.adapters.torch.optimization import updates
from mothtrap.core.schedule import Schedule

Tensor = torch.Tensor
BOTH = whole("update", "optimizer_state")


def one_step(model: nn.Module, step: Callable[[], Any]) -> None:
    x, y = batch()
    for parameter in model.parameters():
        parameter.grad = None
    nn.functional.cross_entropy(model(x), y).backward()
    step()


@pytest.mark.parametrize("watches_process", [True, False])
@pytest.mark.parametrize(
    ("kind", "options", "kept"),
    [
        (torch.optim.Adam, {}, {"step", "exp_avg", "exp_avg_sq"}),
        (torch.optim.AdamW, {"amsgrad": True}, {"exp_avg", "max_exp_avg_sq"}),
        (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, {"momentum_buffer"}),
        (torch.optim.Adam, {"fused": True}, {"exp_avg"}),
    ],
)
def test_changes_and_state_are_those_after_the_step_bit_by_bit(
    kind: Any, options: dict[str, Any], kept: set[str], watches_process: bool
) -> None:
    model = classifier()
    optimizer = kind(model.parameters(), **options)
    weight = model[0].weight
    own: dict[str, list[Tensor]] = {}
    given = () if watches_process else (model, optimizer)
    with watched(*given, capture=BOTH) as seen:
        for _ in range(3):
            before = weight.detach().clone()
            one_step(model, optimizer.step)
            own.setdefault("", []).append(weight.detach() - before)
            for name in kept:
                own.setdefault(name, []).append(optimizer.state[weight][name].clone())
            with torch.no_grad():
                weight.clamp_(-1, 1).mul_(0.5)  # changed by other code, not by the step
    assert same(seen.raw("update:0.weight"), own.pop(""))
    assert set(own) == kept
    for name, values in own.items():
        assert same(seen.raw(f"optimizer_state:0.weight.{name}"), values), name
    assert {f"update:{n}" for n, _ in model.named_parameters()} <= seen.kept()


def test_one_wrong_bit_of_a_change_is_seen() -> None:
    model = classifier()
    with watched(capture=BOTH) as seen:
        before = model[2].bias.detach().clone()
        one_step(model, sgd(model).step)
    change = model[2].bias.detach() - before
    assert same(seen.raw("update:2.bias"), [change])
    change.view(torch.int32)[0] ^= 1
    assert not same(seen.raw("update:2.bias"), [change])


def test_a_change_knows_its_module() -> None:
    model = classifier()
    with watched(capture=BOTH) as seen:
        train(model, torch.optim.Adam(model.parameters()), steps=1)
    info = seen.info("optimizer_state:2.weight.exp_avg")
    assert (info.module, info.module_type, info.shape) == ("2", "Linear", (3, 8))
    assert seen.info("optimizer_state:2.weight.step").shape == ()
    assert seen.info("update:2.weight").module == "2"


def test_the_ratio_is_that_of_norms() -> None:
    model = classifier()
    own: list[float] = []
    asked = whole("weight", "update", statistics=("update_ratio", "l2"))
    with watched(capture=asked) as seen:
        optimizer = sgd(model)
        for _ in range(3):
            before = model[0].weight.detach().clone()
            one_step(model, optimizer.step)
            own.append(float((model[0].weight.detach() - before).norm() / before.norm()))
    for identity in ("weight:0.weight", "update:0.weight"):
        rows = seen.rows(identity, "update_ratio")
        assert list(rows) == [0, 1, 2]
        assert list(rows.values()) == pytest.approx(own, rel=1e-5)
    assert seen.rows("bias:0.bias", "update_ratio") == {}


@pytest.mark.parametrize(("rate", "ratio"), [(0.1, math.inf), (0.0, 0.0)])
def test_the_ratio_of_what_was_zero(rate: float, ratio: float) -> None:
    model = nn.Linear(6, 3)
    nn.init.zeros_(model.bias)
    with watched(capture=whole("bias", statistics=("update_ratio",))) as seen:
        one_step(model, sgd(model, rate).step)
    assert list(seen.rows("bias:bias", "update_ratio").values()) == [ratio]


def test_parameters_are_copied_on_due_steps_only() -> None:
    model = classifier()
    held: list[int] = []

    class Counts(torch.optim.SGD):
        def _init_group(self, *args: Any) -> bool:  # runs inside the step
            held.append(len(seen.observer(updates.UpdateObserver)._before))
            return super()._init_group(*args)

    with watched(capture=whole("update", schedule=Schedule(steps=(1,)))) as seen:
        train(model, Counts(model.parameters(), lr=0.1), steps=4)
    assert held == [0, 4, 0, 0]
    assert [step for step, _ in seen.raw("update:0.weight")] == [1]
    assert seen.observer(updates.UpdateObserver)._before == {}


def test_nothing_is_looked_at_that_no_one_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    monkeypatch.setattr(updates, "parameters", lambda _: looked.append("parameters") or ())
    model = classifier()
    with watched(capture=whole("weight", "bias", "gradient", statistics=("l2",))):
        train(model, torch.optim.Adam(model.parameters()))
    assert looked == []
    with watched(capture=BOTH):
        train(model, torch.optim.Adam(model.parameters()))
    assert looked


def test_a_closure_that_is_evaluated_many_times_is_one_change() -> None:
    model = classifier()
    x, y = batch()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    own, directions = [], []
    with watched(capture=BOTH) as seen:
        for _ in range(2):
            before = model[0].weight.detach().clone()
            optimizer.step(closure)
            own.append(model[0].weight.detach() - before)
            directions.append(optimizer.state[model[0].weight]["d"].clone())
    assert same(seen.raw("update:0.weight"), own)
    assert same(seen.raw("optimizer_state:0.weight.d"), directions)
    assert "optimizer_state:0.weight.old_dirs.0" in seen.kept()


def test_a_step_inside_a_step_is_read_when_the_outer_one_ends() -> None:
    class Slow(torch.optim.Optimizer):
        """Moves half as far as the optimizer that it wraps."""

        def __init__(self, fast: torch.optim.Optimizer) -> None:
            self.fast = fast
            super().__init__(fast.param_groups, {})

        def step(self, closure: Any = None) -> None:
            starts = [p.detach().clone() for g in self.param_groups for p in g["params"]]
            self.fast.step()
            with torch.no_grad():
                for group in self.param_groups:
                    for parameter, start in zip(group["params"], starts, strict=True):
                        parameter.add_(start).mul_(0.5)

    model = classifier()
    with watched(capture=BOTH) as seen:
        slow = Slow(torch.optim.Adam(model.parameters()))
        before = model[0].weight.detach().clone()
        one_step(model, slow.step)
    assert same(seen.raw("update:0.weight"), [model[0].weight.detach() - before])
    assert len(seen.raw("optimizer_state:0.weight.exp_avg")) == 1


def test_steps_inside_a_backward_are_read() -> None:
    model = classifier()
    own: list[Tensor] = []
    with watched(capture=BOTH) as seen:
        optimizers = {p: torch.optim.Adam([p]) for p in model.parameters()}
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(lambda p: optimizers[p].step())
        for _ in range(2):
            before = model[2].bias.detach().clone()
            one_step(model, lambda: None)
            own.append(model[2].bias.detach() - before)
    assert same(seen.raw("update:2.bias"), own)


def test_a_step_that_a_scaler_left_out_changed_nothing() -> None:
    model = classifier()
    with watched(capture=BOTH) as seen:
        optimizer = sgd(model)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        for number in range(3):
            x, y = batch()
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss * (math.inf if number == 1 else 1.0)).backward()
            scaler.step(optimizer)
            scaler.update()
    assert [step for step, _ in seen.raw("update:0.weight")] == [0, 2]


def test_updates_can_fail_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model = classifier()

    def fails(*_: Any) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(updates.UpdateObserver, "stepping", fails)
    with watched(capture=whole("update", "weight"), may_fail=True) as seen:
        train(model, sgd(model))
    assert seen.failed() == ["updates"]
    assert len(seen.raw("weight:0.weight")) == 3


def test_what_ratios_cost_is_booked_on_the_weights() -> None:
    ratios = whole("weight", statistics=("update_ratio",))
    with watched(capture=ratios) as seen:
        booked: list[tuple[str, float]] = []
        charge = seen.tracer.recorder.captures.charge
        seen.tracer.recorder.captures.charge = (  # type: ignore[method-assign]
            lambda kind, cost_s, *more: (
                booked.append((kind, cost_s)),
                charge(kind, cost_s, *more),
            )[1]
        )
        model = classifier()
        train(model, sgd(model), 2)
    costs = [cost_s for kind, cost_s in booked if kind == "weight" and cost_s > 0]
    assert len(costs) >= 2


def test_a_parameter_that_stands_twice_in_an_optimizer_is_read_once() -> None:
    ratios = whole("weight", statistics=("update_ratio",))
    with watched(capture=ratios) as seen:
        model = classifier()
        optimizer = sgd(model)
        optimizer.param_groups[0]["params"].append(model[0].weight)
        train(model, optimizer, 2)
    assert len(seen.rows("weight:0.weight", "update_ratio")) == 2


def test_of_large_parameters_a_part_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updates, "COPIED_ELEMENTS", 400)
    torch.manual_seed(0)
    large = nn.Linear(64, 64)
    optimizer = sgd(large)
    kept: list[int] = []
    with watched(capture=whole("weight", statistics=("update_ratio",))) as seen:
        large(torch.randn(8, 64)).square().sum().backward()
        before = large.weight.detach().clone()
        monkeypatch.setattr(
            torch.optim.SGD,
            "_init_group",
            _spied(kept, seen.observer(updates.UpdateObserver), torch.optim.SGD._init_group),
        )
        optimizer.step()
        large(torch.randn(8, 64)).sum().backward()
    own = float((large.weight.detach() - before).norm() / before.norm())
    assert seen.rows("weight:weight", "update_ratio")[0] == pytest.approx(own, rel=0.2)
    assert 100 < kept[0] <= 200


def _spied(kept: list[int], watch: updates.UpdateObserver, original: Callable[..., Any]) -> Any:
    def init_group(self: torch.optim.SGD, *args: Any) -> Any:
        kept.extend(copy.numel() for copy in watch._before.values())
        return original(self, *args)

    return init_group
