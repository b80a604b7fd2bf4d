"""One of several workers in this process; torch's fake process group imitates the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
import torch.distributed as dist
from tests.adapters.torch.watched import classifier, sgd, train, watched
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    distribute_tensor,
)
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

from mothtrap.adapters.torch.job.distributed import local_shape, own_value, scope_of
from mothtrap.adapters.torch.job.naming import class_name
from mothtrap.core.facts.replicas import ReplicaBatch, ReplicaDigests, WrapperBypassed
from mothtrap.core.scopes import parse_scope


@contextmanager
def worker(rank: int, world_size: int) -> Iterator[None]:
    dist.init_process_group("fake", rank=rank, world_size=world_size, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


def wrapped(net: nn.Module) -> DistributedDataParallel:
    """Wrap a model whose gradients are averaged with no others: the fake group returns nothing."""

    def keep(_, bucket):  # type: ignore[no-untyped-def]  # torch checks annotations by identity
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    model = DistributedDataParallel(net)
    model.register_comm_hook(None, keep)
    return model


@pytest.fixture
def second_of_two() -> Iterator[None]:
    with worker(1, 2):
        yield


def test_a_plain_tensor_has_no_scope() -> None:
    tensor = torch.ones(2, 3)
    assert (scope_of(tensor), local_shape(tensor), own_value(tensor)) == ("", (2, 3), tensor)


@pytest.mark.parametrize(
    ("placements", "words"),
    [
        ((Replicate(), Shard(0)), "replica over dp; shard 2/2 of dim 0 over tp"),
        ((Shard(1), Shard(0)), "shard 2/2 of dim 1 over dp; shard 2/2 of dim 0 over tp"),
        ((Replicate(), Replicate()), "replica over dp; replica over tp"),
        ((Replicate(), Partial()), "replica over dp; partial sum over tp"),
    ],
)
def test_placements_become_words(placements: tuple[Placement, ...], words: str) -> None:
    with worker(3, 4):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        tensor = DTensor.from_local(torch.ones(4, 4), mesh, placements, run_check=False)
        assert scope_of(tensor) == words
        assert parse_scope(words).mergeable == ("partial" not in words)


def test_the_last_shard_may_be_smaller_than_the_others() -> None:
    with worker(2, 3):
        tensor = distribute_tensor(torch.ones(5, 2), init_device_mesh("cpu", (3,)), [Shard(0)])
        assert (scope_of(tensor), local_shape(tensor)) == ("shard 3/3 of dim 0", (1, 2))


def test_only_a_value_that_is_all_here_is_read(second_of_two: None) -> None:
    mesh = init_device_mesh("cpu", (2,))
    for placement, there in ((Replicate(), True), (Partial(), False), (Shard(0), False)):
        tensor = DTensor.from_local(torch.ones(2), mesh, [placement], run_check=False)
        assert (own_value(tensor) is not None) == there


def test_wrappers_and_shards_keep_the_names_of_the_model(second_of_two: None) -> None:
    class Net(nn.Sequential):
        pass

    net = Net(nn.Linear(6, 3))
    assert class_name(DistributedDataParallel(net)) == "Net"
    sharded = Net(nn.Linear(6, 3))
    fully_shard(sharded[0])
    fully_shard(sharded)
    assert type(sharded).__name__ != "Net"
    assert (class_name(sharded), class_name(sharded[0])) == ("Net", "Linear")


def test_the_parameters_of_a_wrapper_are_replicas_and_are_digested(second_of_two: None) -> None:
    model = wrapped(classifier())
    optimizer = sgd(model)
    with watched() as seen:
        train(model, optimizer, steps=3)
    assert seen.info("gradient:0.weight").scope == "replica"
    digests = seen.observed(ReplicaDigests)
    assert [d.step for d in digests] == [0, 1]
    assert [list(d.digests) for d in digests] == [["0", "2"]] * 2  # type: ignore[attr-defined]
    assert digests[0].digests != digests[1].digests  # type: ignore[attr-defined]


def test_parameters_that_the_wrapper_ignores_are_no_replicas(second_of_two: None) -> None:
    net = classifier()
    net._ddp_params_and_buffers_to_ignore = ["2.weight", "2.bias"]  # as users of torch do
    model = wrapped(net)
    optimizer = sgd(model)
    with watched() as seen:
        train(model, optimizer, steps=1)
    (digests,) = seen.observed(ReplicaDigests)
    assert list(digests.digests) == ["0"]  # type: ignore[attr-defined]
    assert seen.info("gradient:2.weight").scope == ""


def test_a_model_of_one_worker_has_no_replicas() -> None:
    with worker(0, 1), watched() as seen:
        model = wrapped(classifier())
        train(model, sgd(model), steps=2)
        train(model.module, sgd(model), steps=2)
    assert not seen.observed(ReplicaDigests)
    assert not seen.observed(WrapperBypassed)
    assert seen.info("gradient:0.weight").scope == ""


def batches_of(*given: object, model: nn.Module | None = None) -> list[ReplicaBatch]:
    """Return the reports of a step with a forward for each of the inputs."""
    model = wrapped(model or classifier())
    with watched() as seen:
        optimizer = sgd(model)
        for x in given:
            model(x).sum().backward()
        optimizer.step()
    return seen.observed(ReplicaBatch)


def test_what_a_wrapper_is_given_is_digested(second_of_two: None) -> None:
    x = torch.randn(4, 6)
    [told] = batches_of(x)
    assert (told.lowest, told.size) == (0, 2)
    assert "test_distributed.py:" in (told.location or "")
    assert batches_of(x.clone())[0].digest == told.digest
    assert batches_of(x + 1)[0].digest != told.digest
    assert batches_of(x, x + 1)[0].digest.startswith(told.digest), "all forwards of a step count"


def test_of_steps_in_between_and_of_a_model_alone_nothing_is_told(second_of_two: None) -> None:
    model, bare = wrapped(classifier()), classifier()
    with watched() as seen:
        train(model, sgd(model), steps=6)
    assert [told.step for told in seen.observed(ReplicaBatch)] == [0, 1, 3]
    with watched() as seen:
        train(bare, sgd(bare), steps=2)
    assert seen.observed(ReplicaBatch) == []


class Opaque:
    """Holds data in an attribute that is not searched."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


class Opens(nn.Linear):
    def forward(self, given: Opaque | list[object]) -> torch.Tensor:
        opaque = given[-1] if isinstance(given, list) else given
        assert isinstance(opaque, Opaque)
        return super().forward(opaque.x)


def test_data_that_cannot_be_looked_into_are_not_compared_in_part(second_of_two: None) -> None:
    opaque = Opaque(torch.randn(4, 6))
    assert batches_of(opaque, model=Opens(6, 3)) == []
    assert batches_of([torch.ones(4), opaque], model=Opens(6, 3)) == []


def test_steps_past_the_wrapper_are_counted(second_of_two: None) -> None:
    model = wrapped(classifier())
    optimizer = sgd(model)
    with watched() as seen:
        train(model, optimizer, steps=2)
        train(model.module, optimizer, steps=10)
    first, tenth = seen.observed(WrapperBypassed)
    assert (first.step, first.called, first.steps) == (2, "Sequential", 1)  # type: ignore[attr-defined]
    assert (tenth.step, tenth.steps, tenth.world_size) == (11, 10, 2)  # type: ignore[attr-defined]


def test_a_step_with_a_forward_of_the_wrapper_is_none_past_it(second_of_two: None) -> None:
    model = wrapped(classifier())
    optimizer = sgd(model)
    x, y = torch.randn(4, 6), torch.arange(4) % 3
    with watched() as seen:
        for _ in range(3):
            optimizer.zero_grad()
            with model.no_sync():
                nn.functional.cross_entropy(model(x), y).backward()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            with torch.no_grad():
                model.module(x)
    assert not seen.observed(WrapperBypassed)


def test_forwards_that_are_never_averaged_are_told(second_of_two: None) -> None:
    model = wrapped(classifier())
    with watched() as seen, model.no_sync():
        train(model, sgd(model), steps=1)
    (bypassed,) = seen.observed(WrapperBypassed)
    assert bypassed.called == ""  # type: ignore[attr-defined]
