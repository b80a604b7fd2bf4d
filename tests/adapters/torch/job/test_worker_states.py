"""State of one of several workers; torch's fake process group imitates the other one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from tests.adapters.torch.job.test_distributed import worker, wrapped
from tests.adapters.torch.watched import Seen, classifier, sgd, train, watched
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from mothtrap.adapters.torch.job.worker_states import ranks_with_parts
from mothtrap.core.facts.replicas import (
    BatchRows,
    BufferDigests,
    DropoutState,
    ReplicaBatch,
    UnwrappedDigests,
    WorkerSettings,
)


@pytest.fixture
def second_of_two() -> Iterator[None]:
    with worker(1, 2):
        yield


def trained(model: nn.Module, steps: int = 2) -> Seen:
    optimizer = sgd(model)
    with watched() as seen:
        train(model, optimizer, steps=steps)
    return seen


def test_parameters_without_a_wrapper_are_digested_before_and_after_steps(
    second_of_two: None,
) -> None:
    first, second = trained(classifier()).observed(UnwrappedDigests)
    assert list(first.digests) == list(first.initial) == ["0", "2"]
    assert first.digests != first.initial
    assert (second.step, second.initial) == (1, {})
    assert not trained(wrapped(classifier())).observed(UnwrappedDigests)


def test_alone_nothing_is_compared() -> None:
    seen = trained(classifier())
    for fact in (UnwrappedDigests, WorkerSettings, BatchRows):
        assert not seen.observed(fact)


def test_buffers_that_a_wrapper_copies_are_left_out(second_of_two: None) -> None:
    def net() -> nn.Sequential:
        class Codes(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("mean", torch.zeros(3))
                self.register_buffer("cache", torch.zeros(3), persistent=False)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                self.mean.add_(1)  # type: ignore[operator]
                return x

        return nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3), Codes())

    first, second = trained(net()).observed(BufferDigests)
    assert (list(first.digests), first.norms) == (["1", "2"], ("1",))
    assert all(first.digests[name] != second.digests[name] for name in ("1", "2"))
    model = wrapped(net())
    assert not trained(model).observed(BufferDigests)
    model = wrapped(net())
    model.broadcast_buffers = False
    assert list(trained(model, 1).observed(BufferDigests)[0].digests) == ["1", "2"]


def test_settings_name_rates_frozen_and_tied_parameters(second_of_two: None) -> None:
    net = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3))
    net[1].weight = net[0].weight
    net[0].bias.requires_grad_(False)
    told, _ = trained(net).observed(WorkerSettings)
    assert told.rates == {"0.weight": 0.1}
    assert told.frozen == ("0.bias",)
    assert told.tied == {"1.weight": "0.weight"}


def test_settings_are_those_with_which_the_step_was_made(second_of_two: None) -> None:
    """One worker may do more than the others before its step is closed, such as evaluating."""
    model = classifier()
    optimizer = sgd(model)
    with watched() as seen:
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.randn(4, 6)).sum().backward()
            optimizer.step()
            optimizer.param_groups[0]["lr"] = 0.05
            model[0].requires_grad_(False)
    first, second = seen.observed(WorkerSettings)
    assert (first.rates, first.frozen) == ({"0.weight": 0.1}, ())
    assert (second.rates, second.frozen) == ({"0.weight": 0.05}, ("0.weight", "0.bias"))


def test_the_generator_is_read_before_dropout_only(second_of_two: None) -> None:
    net = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3))
    torch.manual_seed(3)
    first, second = trained(net).observed(DropoutState)
    assert first.modules == ("1",)
    assert first.digest != second.digest
    torch.manual_seed(3)
    assert trained(net).observed(DropoutState)[0].digest == first.digest
    assert not trained(net.eval()).observed(DropoutState)


def test_rows_are_told_when_they_change(second_of_two: None) -> None:
    model = classifier()
    optimizer = sgd(model)
    with watched() as seen:
        for rows in (8, 8, 3, 8):
            optimizer.zero_grad()
            model(torch.randn(rows, 6)).sum().backward()
            optimizer.step()
    told = [(fact.step, fact.rows, fact.rank) for fact in seen.observed(BatchRows)]
    assert told == [(0, 8, 1), (2, 3, 1), (3, 8, 1)]


def test_models_in_parts_need_equal_batches_and_sharded_ones_do_not() -> None:
    def net() -> nn.Sequential:
        return nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))

    with worker(1, 2):
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        parts = parallelize_module(net(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        assert ranks_with_parts(parts) == [0, 1]
        sharded = net()
        fully_shard(sharded, mesh=mesh)
        assert ranks_with_parts(sharded) == []
        assert ranks_with_parts(net()) == []
        with watched() as seen:
            parts(torch.randn(4, 6)).sum().backward()
            torch.optim.SGD(parts.parameters(), 0.1).step()
        assert not [told for told in seen.observed(ReplicaBatch) if not told.in_parts]
