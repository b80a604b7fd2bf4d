from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.adapters.torch.watched import watched
from torch import nn
from torch.optim.lr_scheduler import LambdaLR, OneCycleLR, ReduceLROnPlateau

from mothtrap.adapters.torch.hooks.tracer import Tracer
from mothtrap.adapters.torch.replaying.restoring import Restoring
from mothtrap.adapters.torch.snapshots.state import StateTaker
from mothtrap.core.errors import StateMismatchError
from mothtrap.core.snapshot_orders import StateCopy
from mothtrap.statistics.torch.raw import digest


class Net(nn.Module):
    """Tied weights, running statistics, a counter and a carried state."""

    def __init__(self, width: int = 4, out: int = 4) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)
        self.drop = nn.Dropout(0.5)
        self.tied = nn.Linear(width, width, bias=False)
        self.tied.weight = self.first.weight
        self.last = nn.Linear(width, out)
        self.calls = 0
        self.carried: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.carried is not None:
            x = x + self.carried / self.calls
        self.carried = x.detach().mean(0)
        found: torch.Tensor = self.last(self.tied(self.drop(self.norm(self.first(x)))))
        return found


class Training:
    def __init__(self, make: Callable[[Any], torch.optim.Optimizer], **sizes: int) -> None:
        self.net = Net(**sizes)
        self.optimizer = make(self.net.parameters())
        cycles = "momentum" in self.optimizer.defaults
        self.schedulers = [
            OneCycleLR(self.optimizer, 0.1, total_steps=50, cycle_momentum=cycles),
            LambdaLR(self.optimizer, lambda step: 0.99**step),
            ReduceLROnPlateau(self.optimizer, patience=1),
        ]
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0)

    def loss(self) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = self.net(torch.randn(8, 4)).square().mean()
        self.scaler.scale(loss).backward()
        return loss.detach()

    def run(self, steps: int) -> list[int]:
        found = []
        for step in range(steps):
            torch.manual_seed(1000 + step)
            if isinstance(self.optimizer, torch.optim.LBFGS):
                loss: Any = self.optimizer.step(self.loss)  # type: ignore[arg-type]
            else:
                loss = self.loss()
                self.scaler.step(self.optimizer)
                self.scaler.update()
            for scheduler in self.schedulers:
                scheduler.step(*(loss,) if isinstance(scheduler, ReduceLROnPlateau) else ())
            self.net.drop.p *= 0.9
            found += [digest(loss), *(digest(p) for p in self.net.parameters())]
        return found


def taken(taker: StateTaker, *given: Any) -> StateCopy:
    state = taker.take(*given)
    assert state is not None
    return state


def restoring(state: StateCopy, tracer: Tracer) -> Restoring:
    tree, missing = state.make()
    assert missing == ()
    return Restoring(tree, state.arrays, tracer.known)


OPTIMIZERS = {
    "adam": lambda p: torch.optim.Adam(p, amsgrad=True),
    "adam fused": lambda p: torch.optim.AdamW(p, fused=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adagrad": torch.optim.Adagrad,
    "lbfgs": lambda p: torch.optim.LBFGS(p, max_iter=3, history_size=4),
    "tensor rate": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01)),
}


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_a_training_goes_on_elsewhere_to_the_same_bits(make: Any) -> None:
    with watched() as seen:
        training = Training(make)
        training.run(5)
        training.net.drop.eval()
        state = taken(StateTaker(seen.tracer.known))
        expected = training.run(4)
        assert state.missing == ()
    gc.collect()
    with watched() as seen:
        torch.manual_seed(77)
        other = Training(make)
        again = restoring(state, seen.tracer)
        again.apply()
        assert again.missing == []
        assert again.notes == []
        assert not other.net.drop.training
        assert other.run(4) == expected
        again.again()
        again.apply()
        assert other.run(4) == expected


def test_what_has_the_right_bits_is_not_written() -> None:
    with watched() as seen:
        training = Training(torch.optim.Adam)
        training.run(2)
        state = taken(StateTaker(seen.tracer.known))
        with torch.no_grad():
            training.net.last.bias[0] += 1
        before = training.net.last.weight.data_ptr(), training.net.last.weight._version
        restoring(state, seen.tracer).apply()
        assert (training.net.last.weight.data_ptr(), training.net.last.weight._version) == before


def test_taking_changes_nothing() -> None:
    with watched() as seen:
        training = Training(torch.optim.Adam)
        training.run(2)
        versions = [p._version for p in training.net.parameters()]
        rng = torch.get_rng_state()
        taken(StateTaker(seen.tracer.known))
        assert [p._version for p in training.net.parameters()] == versions
        assert torch.equal(torch.get_rng_state(), rng)


def test_earlier_values_stand_for_buffers() -> None:
    with watched() as seen:
        training = Training(torch.optim.Adam)
        training.run(1)
        mean = training.net.norm.running_mean
        assert mean is not None
        state = taken(StateTaker(seen.tracer.known), {id(mean): torch.full((4,), 7.0)})
        restoring(state, seen.tracer).apply()
        assert mean.tolist() == [7.0] * 4


def test_memory_is_used_again_only_when_it_was_given_back() -> None:
    with watched() as seen:
        training = Training(torch.optim.Adam)
        training.run(1)
        taker = StateTaker(seen.tracer.known, keeps_memory=True)
        first = taken(taker)
        kept = {key: bytes(array.data) for key, array in first.arrays.items()}
        training.run(1)
        taker.take()
        assert {key: bytes(array.data) for key, array in first.arrays.items()} == kept
        first.give_back()
        third = taken(taker)
        third.give_back()
        fourth = taken(taker)
        key = "parameter:last.weight"
        assert third.arrays[key].data.ctypes.data == fourth.arrays[key].data.ctypes.data


def test_what_is_too_large_is_not_taken() -> None:
    with watched() as seen:
        training = Training(torch.optim.Adam)
        training.run(1)
        assert StateTaker(seen.tracer.known).take(limit_bytes=100) is None


def test_names_tell_whose_the_arrays_are() -> None:
    with watched() as seen:
        training = Training(torch.optim.Adam)
        training.run(1)
        arrays = taken(StateTaker(seen.tracer.known)).arrays
    assert {"parameter:first.weight", "buffer:norm.running_mean"} <= set(arrays)
    assert "parameter:tied.weight" not in arrays
    assert "optimizer_state:Adam.0.exp_avg" in arrays


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"out": 5}, r"Net.last.weight has shape \(5, 4\) here, but \(4, 4\) in the run"),
        ({"width": 4, "out": 4}, None),
    ],
)
def test_another_shape_is_named(sizes: dict[str, int], said: str | None) -> None:
    with watched() as seen:
        training = Training(torch.optim.Adam)
        training.run(1)
        state = taken(StateTaker(seen.tracer.known))
    del training
    gc.collect()
    with watched() as seen:
        other = Training(torch.optim.Adam, **sizes)
        other.run(1)
        if said is None:
            restoring(state, seen.tracer).apply()
        else:
            with pytest.raises(StateMismatchError, match=said):
                restoring(state, seen.tracer).apply()


def test_a_missing_parameter_and_other_groups_are_named() -> None:
    with watched() as seen:
        training = Training(torch.optim.Adam)
        training.run(1)
        state = taken(StateTaker(seen.tracer.known))
        del training.net.last.bias
        with pytest.raises(StateMismatchError, match=r"no parameter 'last.bias' here"):
            restoring(state, seen.tracer).apply()
        training.net.last.register_parameter("bias", nn.Parameter(torch.zeros(4)))
        training.optimizer.add_param_group({"params": [torch.zeros(1, requires_grad=True)]})
        with pytest.raises(StateMismatchError, match=r"groups of \[6, 1\] parameters here"):
            restoring(state, seen.tracer).apply()


def test_two_models_of_a_class_keep_their_own() -> None:
    def make() -> tuple[nn.Module, nn.Module, torch.optim.Optimizer]:
        first, second = nn.Linear(2, 2), nn.Linear(2, 2)
        return first, second, torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)

    def step(first: nn.Module, second: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        second(first(torch.ones(1, 2))).sum().backward()
        optimizer.step()

    with watched() as seen:
        models = make()
        step(*models)
        state = taken(StateTaker(seen.tracer.known))
        expected = [digest(m.weight) for m in models[:2]]  # type: ignore[arg-type]
    gc.collect()
    with watched() as seen:
        other = make()
        again = restoring(state, seen.tracer)
        again.apply()  # before any of them was called
        assert again.missing == []
        assert [digest(m.weight) for m in other[:2]] == expected  # type: ignore[arg-type]
