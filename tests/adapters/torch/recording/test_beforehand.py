"""Values that forwards change are recorded as they were before the forwards of a step."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn

from mothtrap.adapters.torch.recording.beforehand import SMALL_BYTES, Beforehand
from mothtrap.core.config import Config


class Queue(nn.Module):
    """A large buffer that changes, one that does not, and one that is replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(2, 2)
        self.register_buffer("mask", torch.ones(SMALL_BYTES))
        self.register_buffer("queue", torch.zeros(SMALL_BYTES))
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("nothing", None)
        self.register_buffer("view", self.queue[:2])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.queue[:2] += 1
        self.count = self.count + 1
        return self.line(x)


def _known(before: Beforehand, model: nn.Module) -> dict[str, list[float]]:
    found = before.earlier()
    return {
        name: found[id(tensor)].reshape(-1)[:2].tolist()
        for name, tensor in (*model.named_buffers(), *model.named_parameters())
        if id(tensor) in found
    }


def test_running_statistics_are_those_of_before_the_step() -> None:
    with watched(capture=()) as seen:
        model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        optimizer, before = sgd(model), seen.tracer.recording.before
        for step in range(3):
            norm = model[1]
            own = {name: value.clone() for name, value in norm.named_buffers()}
            for _ in range(2):  # micro-batches
                model(torch.randn(4, 2)).mean().backward()
            for name, value in own.items():
                copy = before.earlier()[id(norm.get_buffer(name))]
                assert torch.equal(copy, value), (step, name)
                assert not torch.equal(norm.get_buffer(name), value)
            assert before.lost() == ()
            optimizer.step()


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_buffers_of_a_scripted_model_are_those_of_before() -> None:
    """The container of the buffers in a scripted model is not a dictionary."""

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line = nn.Linear(2, 2)
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count += 1
            return self.line(x)

    with watched(capture=()) as seen:
        model = torch.jit.script(Counting())
        optimizer, before = sgd(model), seen.tracer.recording.before
        for step in range(3):
            model(torch.randn(4, 2)).mean().backward()
            assert _known(before, model)["count"] == [step]
            optimizer.step()


def test_buffers_that_do_not_change_are_not_copied_for_long() -> None:
    model, before = Queue(), Beforehand(64 * SMALL_BYTES)
    before.before_forward(model)
    model(torch.ones(2))
    # The change of the large buffer was not expected, so it is reported.
    assert before.lost() == ("buffer queue before the step",)
    assert _known(before, model)["count"] == [0.0]
    for step in range(1, 4):
        before.new_step()
        before.before_forward(model)
        model(torch.ones(2))
        found = _known(before, model)
        assert (found["queue"], found["count"]) == ([step, step], [step])
        assert "mask" not in found
        assert before.lost() == ()
    assert before.bytes_held < 4 * SMALL_BYTES + 100


def test_a_model_is_looked_at_once_a_step() -> None:
    model, before = Queue(), Beforehand(64 * SMALL_BYTES)
    for _ in range(2):
        before.new_step()
        for _ in range(3):
            before.before_forward(model)
            model(torch.ones(2))
    assert _known(before, model)["count"] == [3.0]


def test_models_are_not_kept_alive() -> None:
    model, before = Queue(), Beforehand(64 * SMALL_BYTES)
    before.before_forward(model)
    alive = weakref.ref(model), weakref.ref(model.queue)
    del model
    gc.collect()
    assert [reference() for reference in alive] == [None, None]
    before.new_step()
    assert before.lost() == ()
    before.before_forward(Queue())
    assert before.bytes_held == 4 + 8  # of the counter and of the view


class Memory(nn.Module):
    """Buffers of different sizes that every forward writes to."""

    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self.line = nn.Linear(2, 2)
        for place, size in enumerate(sizes):
            self.register_buffer(f"bank{place}", torch.zeros(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for bank in self.buffers():
            bank += 1
        return self.line(x)


def test_copies_are_bounded_and_what_has_no_room_is_told() -> None:
    """Queues of features or caches: the copies are limited on the device and per step."""
    model, before = Memory(2 * SMALL_BYTES, SMALL_BYTES, 4), Beforehand(5 * SMALL_BYTES)
    for _ in range(3):
        before.new_step()
        before.before_forward(model)
        model(torch.ones(2))
    assert _known(before, model) == {"bank1": [2, 2], "bank2": [2, 2]}
    assert before.lost() == ("buffer bank0 before the step",)
    assert before.bytes_held == 4 * SMALL_BYTES + 16


def test_the_ring_gives_way_to_copies_of_buffers() -> None:
    with watched(capture=(), config=Config(ring_mb=16)) as seen:
        model = Memory(SMALL_BYTES // 2)
        optimizer, recording = sgd(model), seen.tracer.recording
        for _ in range(3):
            model(torch.ones(2)).mean().backward()
            optimizer.step()
    assert recording.before.bytes_held == 2 * SMALL_BYTES
    assert recording._ring.limit_bytes == 14 * 2**20


def test_small_buffers_that_do_not_change_are_copied_once() -> None:
    model, before = Queue(), Beforehand(64 * SMALL_BYTES)
    model.register_buffer("small", torch.ones(4))
    for _ in range(2):
        before.new_step()
        before.before_forward(model)
    assert _known(before, model) == {}
    (small,) = (k for own in before._models.items() for k in own[1].kept if k.name == "small")
    copy = small.copy
    model.small += 1  # type: ignore[operator]
    assert _known(before, model) == {"small": [1, 1]}
    assert small.copy is copy


class Momentum(nn.Module):
    """A slow encoder that is updated in the forward from the trained one."""

    def __init__(self, *, frozen: bool) -> None:
        super().__init__()
        self.quick, self.slow = nn.Linear(2, 2), nn.Linear(2, 2)
        self.slow.requires_grad_(not frozen)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.slow.weight.mul_(0.5).add_(self.quick.weight, alpha=0.5)
        return self.quick(x) + self.slow(x)


def test_parameters_that_a_forward_changes_are_those_of_before() -> None:
    model, before = Momentum(frozen=True), Beforehand(SMALL_BYTES)
    optimizer = sgd(model.quick)
    for step in range(3):
        before.new_step()
        weight = model.slow.weight.detach().clone()
        before.before_forward(model)
        model(torch.ones(2)).mean().backward()
        before.stepping()
        if not step:  # not known yet
            assert before.lost() == ("parameter slow.weight before the step",)
        else:
            assert before.lost() == ()
            found = before.earlier()
            assert found.keys() == {id(model.slow.weight)}
            assert torch.equal(found[id(model.slow.weight)], weight)
        optimizer.step()


def test_parameters_that_are_trained_and_written_to_are_told() -> None:
    model, before = Momentum(frozen=False), Beforehand(SMALL_BYTES)
    optimizer = sgd(model)
    for _ in range(2):
        before.new_step()
        before.before_forward(model)
        model(torch.ones(2)).mean().backward()
        before.stepping()
        optimizer.step()
        why = "overwritten between the forward pass and the optimizer's step"
        assert before.lost() == (f"parameter slow.weight before the step: {why}",)
        assert before.earlier() == {}


def test_what_optimizers_and_the_script_change_later_is_nothing_that_a_forward_changes() -> None:
    """Weights of an average that are updated after each step."""
    model, before = Momentum(frozen=True), Beforehand(SMALL_BYTES)
    optimizer = sgd(model.quick)
    for _ in range(6):
        before.new_step()
        before.before_forward(model)
        (model.quick(torch.ones(2)) + model.slow(torch.ones(2))).mean().backward()
        before.stepping()
        optimizer.step()
        before.stepping()  # another buffer
        with torch.no_grad():
            model.slow.weight.lerp_(model.quick.weight, 0.5)
        assert before.lost() == ()
        assert before.earlier() == {}
