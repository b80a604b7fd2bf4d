from __future__ import annotations

import gc
from collections.abc import Sequence

import pytest
import torch
from tests.adapters.torch.watched import (
    DEFAULT,
    EVERYTHING,
    Seen,
    batch,
    classifier,
    sgd,
    watched,
)
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, TensorDataset

from mothtrap.adapters.torch.comparing_runs import digests
from mothtrap.adapters.torch.job.randomness import RandomStates
from mothtrap.core.config import Config
from mothtrap.core.digests import MODULUS, as_scalar
from mothtrap.core.measured import DIGEST
from mothtrap.statistics import built
from mothtrap.statistics import torch as arithmetic
from mothtrap.statistics.torch import compiled


def owners(seen: Seen, step: int) -> list[str]:
    return [s.of for s in seen.steps()[step].scalars if s.name == DIGEST]


def values(seen: Seen, owner: str) -> list[float]:
    return seen.scalars(DIGEST, owner)


def step(
    model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor
) -> None:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()


class Job:
    """The attributes of a job that digests use."""

    def __init__(self, **settings: object) -> None:
        self.config = Config(**settings)
        self.recorder = self.notes = self.captures = self.grouper = self
        self.step, self.random_states = 0, RandomStates()
        self.told: list[str] = []

    def scalar(self, _: str, owner: str, __: float) -> None:
        self.told.append(owner)

    def number_of_each(self, _: str, owners: Sequence[str], __: Sequence[float]) -> None:
        self.told += owners


BATCH = torch.randn(4, 6), torch.arange(4)
RANDOM = ["rng.python", "rng.numpy", "rng.torch"]


def test_a_batch_of_a_loader_and_random_states_are_told_at_every_step() -> None:
    model, data = classifier(), TensorDataset(torch.randn(8, 6), torch.arange(8) % 3)
    with watched() as seen:
        optimizer = sgd(model)
        for x, y in DataLoader(data, 4):
            step(model, optimizer, x, y)
    batches = ["batch:loader 1.0", "batch:loader 1.1", "rows:loader 1"]
    state = ["weight:0.weight", "bias:0.bias", "weight:2.weight", "bias:2.bias"]
    assert owners(seen, 0) == [*state, *batches, *RANDOM]  # the targets are those of the batch
    assert owners(seen, 1) == [*batches, *RANDOM]
    first, second = values(seen, "batch:loader 1.0")
    assert first == as_scalar(arithmetic.digest(data.tensors[0][:4])) != second


def test_what_no_loader_gave_is_told_of_where_it_is_used() -> None:
    model, (x, y) = classifier(), batch()
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(2):
            step(model, optimizer, x, y)
    assert owners(seen, 1) == ["input:input", "rows:input", *RANDOM, "target"]
    assert len(set(values(seen, "target"))) == 1


def test_micro_batches_have_digests_each() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(3):
            nn.functional.cross_entropy(model(batch()[0]), batch()[1]).backward()
        optimizer.step()
    assert owners(seen, 0).count("input:input") == 3
    assert owners(seen, 0).count("rng.torch") == 3


def test_batches_of_an_evaluation_are_not_those_of_a_step() -> None:
    model, data = classifier(), TensorDataset(torch.randn(8, 6), torch.arange(8) % 3)
    with watched() as seen:
        optimizer = sgd(model)
        step(model, optimizer, *batch())
        with torch.no_grad():
            for x, _ in DataLoader(data, 4):
                model(x)
        step(model, optimizer, *batch())
    assert not any(owner.startswith("batch:") for owner in owners(seen, 1))


def test_a_teacher_that_is_called_first_does_not_take_the_batch_away() -> None:
    model, teacher = classifier(), classifier()
    data = TensorDataset(torch.randn(8, 6), torch.arange(8) % 3)
    with watched() as seen:
        optimizer = sgd(model)
        for x, _ in DataLoader(data, 4):
            optimizer.zero_grad()
            with torch.no_grad():
                wanted = teacher(x)
            nn.functional.mse_loss(model(x), wanted).backward()
            optimizer.step()
    assert len(values(seen, "batch:loader 1.0")) == 2


def test_no_operation_is_made_that_a_mode_could_see() -> None:
    class Counts(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.count = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.count += 1
            return func(*args, **(kwargs or {}))

    digesting = digests.DigestObserver(Job())
    with Counts() as mode:
        digesting.loaded("loader 1", [("0", BATCH[0]), ("1", BATCH[1])])
        digesting.called([("input", BATCH[0])], True, True)
        digesting.loss_called([None, BATCH[1]], {})
    assert mode.count == 0


def test_rows_add_up_whatever_their_order() -> None:
    model, (x, y) = classifier(), batch(rows=6)
    with watched() as seen:
        optimizer = sgd(model)
        step(model, optimizer, x, y)
        step(model, optimizer, x[[3, 1, 0, 2, 5, 4]], y)
        step(model, optimizer, x[:2], y[:2])
        step(model, optimizer, x[2:], y[2:])
    whole, turned, one, other = (int(value) for value in values(seen, "rows:input"))
    assert whole == turned == (one + other) % MODULUS
    assert len(set(values(seen, "input:input"))) == 4


def test_buffers_are_told_as_they_were_before_the_first_forward() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    mean = as_scalar(arithmetic.digest(torch.zeros(4)))
    with watched() as seen:
        step(model, sgd(model), *batch())
    assert values(seen, "buffer:1.running_mean") == [mean]


def test_gradients_and_weights_are_told_at_every_step_where_asked_for() -> None:
    model = classifier()
    with watched() as seen:
        seen.tracer.digests.every_tensor = True
        optimizer = sgd(model)
        wanted = []
        for _ in range(2):
            wanted.append(as_scalar(arithmetic.digest(model[2].weight)))
            step(model, optimizer, *batch())
        gradient = as_scalar(arithmetic.digest(model[2].weight.grad))
    assert values(seen, "weight:2.weight") == wanted
    assert values(seen, "gradient:2.weight")[1] == gradient
    assert len(values(seen, "gradient:0.bias")) == 2


def test_digests_are_the_same_whatever_else_is_read_of_the_tensors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = []
    for capture, arrays in (
        (EVERYTHING, built.arrays),
        (DEFAULT, built.arrays),
        (EVERYTHING, None),
    ):
        monkeypatch.setattr(built, "arrays", arrays)
        torch.manual_seed(0)
        model, told = classifier(), []
        model[0].bias.requires_grad_(False)  # no gradient is computed of it
        with watched(capture=capture, config=Config(digests=True)) as seen:
            optimizer = sgd(model)
            for _ in range(2):
                step(model, optimizer, *batch())
                told.append(as_scalar(arithmetic.digest(model[2].weight.grad)))
        assert values(seen, "gradient:2.weight") == told
        assert values(seen, "gradient:0.bias") == []
        told_of = [s for s in seen.steps()[1].scalars if s.name == DIGEST]
        found.append({s.of: s.value for s in told_of if not s.of.startswith("rng")})
        assert len(told_of) == len({s.of for s in told_of})
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 4 + 3 + len(["input", "rows", "target"])


@pytest.mark.skipif(built.arrays is None, reason="the compiled part was not built")
def test_what_a_step_applies_is_read_once_for_statistics_and_digests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []
    digests_of = compiled.digests

    def noted(tensors: Sequence[torch.Tensor]) -> object:
        read.extend(map(id, tensors))
        return digests_of(tensors)

    monkeypatch.setattr(compiled, "digests", noted)
    model = nn.Sequential(classifier(), nn.BatchNorm1d(3))
    with watched(capture=EVERYTHING, config=Config(digests=True)) as seen:
        optimizer = sgd(model)
        step(model, optimizer, *batch())
        read.clear()
        step(model, optimizer, *batch())
    assert not {id(p) for p in model.parameters()} & {*read}
    assert {id(b) for b in model.buffers()} <= {*read}
    assert len(values(seen, "weight:0.2.weight")) == 2


def test_weights_that_are_not_applied_any_more_are_told_all_the_same() -> None:
    model = classifier()
    with watched() as seen:
        seen.tracer.digests.every_tensor = True
        optimizer, other = sgd(model[:2]), sgd(model[2:])
        for number in range(5):
            model.zero_grad()
            nn.functional.cross_entropy(model(batch()[0]), batch()[1]).backward()
            other.step()
            if number < 2:
                optimizer.step()
    # In its first step without an update it is still expected among the updated weights.
    assert len(values(seen, "weight:0.weight")) == 4
    assert len(values(seen, "weight:2.weight")) == 5


def test_a_new_weight_in_the_place_in_memory_of_one_that_was_applied_is_told_of() -> None:
    class Frozen(nn.Module):
        """Takes a weight that no optimizer has."""

        def __init__(self, weight: nn.Parameter) -> None:
            super().__init__()
            self.weight, self.line = weight, nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.line(x) + self.weight

    with watched() as seen:
        seen.tracer.digests.every_tensor = True
        model = classifier()
        optimizer = sgd(model)
        step(model, optimizer, *batch())
        gone = {id(parameter) for parameter in model.parameters()}
        del model, optimizer
        gc.collect()
        made = [nn.Parameter(torch.ones(3), requires_grad=False) for _ in range(10_000)]
        weight = next(parameter for parameter in made if id(parameter) in gone)
        later = Frozen(weight)
        step(later, sgd(later.line), *batch())
    assert len(values(seen, "weight:Frozen.weight")) == 1


def test_parts_that_are_exchanged_between_steps_are_told_of() -> None:
    model = classifier()
    with watched() as seen:
        seen.tracer.digests.every_tensor = True
        optimizer = sgd(model)
        for _ in range(2):
            step(model, optimizer, *batch())
        model[2] = nn.Linear(8, 3)
        optimizer.param_groups[0]["params"][2:] = model[2].parameters()
        wanted = as_scalar(arithmetic.digest(model[2].weight))
        step(model, optimizer, *batch())
        gradient = as_scalar(arithmetic.digest(model[2].weight.grad))
    last = {s.of: s.value for s in seen.steps()[2].scalars if s.name == DIGEST}
    assert last["weight:2.weight"] == wanted
    assert gradient in last.values()
    assert len(values(seen, "weight:2.weight")) == 3


def test_bare_parameters_are_told_before_the_first_step() -> None:
    scale = torch.ones(3, requires_grad=True)
    with watched() as seen:
        optimizer = torch.optim.SGD([scale], lr=0.1)
        for _ in range(2):
            (scale * 2).sum().backward()
            optimizer.step()
    assert values(seen, "weight:SGD.parameters[0]") == [as_scalar(arithmetic.digest(torch.ones(3)))]


def test_parameters_that_the_first_forward_makes_are_told_before_the_first_step() -> None:
    model = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d(), nn.Linear(4, 3))
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(2):
            step(model, optimizer, *batch())
    assert len(values(seen, "weight:2.weight")) == len(values(seen, "weight:0.weight")) == 1


def test_a_tensor_that_was_changed_in_place_is_told_anew() -> None:
    model, (x, y) = classifier(), batch()
    with watched() as seen:
        optimizer = sgd(model)
        model(x)
        x.add_(1)
        step(model, optimizer, x, y)
    assert len(set(values(seen, "input:input"))) == 2


def test_a_model_that_is_too_large_is_told_of_as_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "STATE_BYTES", 16)
    model = classifier()
    with watched() as seen:
        step(model, sgd(model), *batch())
    assert "digests of the first weights" in seen.blind()
    assert values(seen, "weight:0.weight") == []


@pytest.mark.parametrize(("capture", "looks"), [("default", True), ("off", False)])
def test_nothing_is_looked_at_where_nothing_is_stored(capture: str, looks: bool) -> None:
    job = Job(capture=capture)
    watch = digests.DigestObserver(job)  # type: ignore[arg-type]
    watch.called([("input", BATCH[0])], False, True)
    watch.loss_called(BATCH, {})
    assert bool(job.told) is looks
    assert watch.wants(sgd(classifier())) is looks


def test_a_batch_made_in_inference_mode_switches_nothing_off() -> None:
    """Such a tensor has no version: reading it raises."""
    model, data = classifier(), TensorDataset(torch.randn(8, 6), torch.arange(8) % 3)
    with watched() as seen:
        optimizer = sgd(model)
        step(model, optimizer, *data[:4])
        with torch.inference_mode():
            for x, _ in DataLoader(data, 4):
                assert x.is_inference()
                model(x)
        step(model, optimizer, *data[4:])
    assert seen.failed() == []
    assert owners(seen, 1) == ["input:input", "rows:input", *RANDOM, "target"]
