"""The inputs of each step are in the ring, as they were when the loop passed them."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from tests.adapters.torch.watched import Seen, classifier, sgd, watched
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, TensorDataset

from mothtrap.adapters.torch.job import randomness
from mothtrap.adapters.torch.recording.recording import Recording
from mothtrap.adapters.torch.recording.values import framework_value
from mothtrap.core.config import Config
from mothtrap.core.snapshots import BatchHanded, ForwardCalled, KeptStep, LossCalled, Tree
from mothtrap.snapshot.tree import Opaque, value_of


def _kept(seen: Seen, step: int) -> KeptStep:
    found = seen.tracer.recording.kept(step)
    assert found is not None
    return found


def _value(kept: KeptStep, tree: Tree) -> Any:
    return value_of(tree, kept.arrays, framework_value(kept.arrays))


def _events(kept: KeptStep, kind: type) -> list[Any]:
    return [event for event in kept.recorded.events if isinstance(event, kind)]


def _kinds(kept: KeptStep) -> list[str]:
    names = {BatchHanded: "batch", ForwardCalled: "forward", LossCalled: "loss"}
    return [
        "evaluation" if getattr(event, "trains", True) is False else names[type(event)]
        for event in kept.recorded.events
    ]


def _loader(rows: int = 12, **options: Any) -> DataLoader[Any]:
    data = TensorDataset(torch.randn(rows, 6), torch.arange(rows) % 3)
    return DataLoader(data, batch_size=4, **options)


def _train(model: nn.Module, optimizer: torch.optim.Optimizer, loader: Any) -> Iterator[Any]:
    """Run the plain loop; yield the batches as they were when they were passed."""
    for x, y in loader:
        yield x.clone(), y.clone()
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def test_a_plain_loop_is_recorded_in_order_and_whole() -> None:
    with watched(capture=()) as seen:
        model = classifier()
        given = list(_train(model, sgd(model), _loader(shuffle=True)))
    for step, (x, y) in enumerate(given):
        kept = _kept(seen, step)
        assert _kinds(kept) == ["batch", "forward", "loss"]
        batch, forward, loss = kept.recorded.events
        assert all(map(torch.equal, _value(kept, batch.value), (x, y)))
        assert torch.equal(_value(kept, forward.args)[0], x)
        prediction, target = _value(kept, loss.args)
        assert isinstance(prediction, Opaque)
        assert torch.equal(target, y)
        assert (batch.loader, forward.root, loss.function) == (0, "Sequential", "cross_entropy")
        assert batch.site.split(":")[0].endswith("test_recording.py")
        assert kept.recorded.optimizers == ("SGD",)
        assert kept.recorded.losses == tuple(seen.scalars("loss")[step : step + 1])
        assert kept.recorded.missing == ()
        assert not kept.recorded.carried


def test_each_value_of_a_step_is_copied_once() -> None:
    with watched(capture=()) as seen:
        model = classifier()
        list(_train(model, sgd(model), _loader()))
    kept = _kept(seen, 1)
    batch, forward, loss = kept.recorded.events
    x, y = (tree["tensor"] for tree in batch.value["list"])
    assert forward.args == {"tuple": [{"tensor": x}]}
    assert loss.args["tuple"][1] == {"tensor": y}


def test_what_is_changed_in_place_later_does_not_reach_the_ring() -> None:
    with watched(capture=()) as seen:
        model, before = classifier(), []
        optimizer = sgd(model)
        for x, y in _loader():
            before.append(x.clone())
            x += 1
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            x.zero_()
            optimizer.step()
    for step, x in enumerate(before):
        kept = _kept(seen, step)
        batch, forward, _ = kept.recorded.events
        assert torch.equal(_value(kept, batch.value)[0], x)
        assert torch.equal(_value(kept, forward.args)[0], x + 1)


def test_random_states_are_those_after_the_batch() -> None:
    with watched(capture=()) as seen:
        model, drawn = nn.Sequential(nn.Linear(6, 8), nn.Dropout(), nn.Linear(8, 3)), []
        optimizer = sgd(model)
        for x, y in _loader(shuffle=True):
            drawn.append((random.random(), np.random.rand(), torch.rand(2)))
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    for step, (python, numpy, framework) in enumerate(drawn):
        kept = _kept(seen, step)
        [batch] = _events(kept, BatchHanded)
        assert _events(kept, ForwardCalled)[0].rng is None
        assert randomness.restore(_value(kept, batch.rng)) == []
        assert (random.random(), np.random.rand()) == (python, numpy)
        assert torch.equal(torch.rand(2), framework)


def test_without_a_loader_the_forward_has_the_random_states_and_the_variables() -> None:
    with watched(capture=()) as seen:
        model, data = classifier(), torch.randn(100_000, 6)
        optimizer, drawn = sgd(model), []
        for _ in range(3):
            index = torch.randint(0, len(data), (4,))
            drawn.append((index, data[index], torch.get_rng_state()))
            loss = (model(data[index]) - index[:, None]).square().mean()
            loss.backward()
            optimizer.step()
    for step, (index, x, state) in enumerate(drawn):
        kept = _kept(seen, step)
        assert _kinds(kept) == ["forward"]
        [forward] = kept.recorded.events
        variables = _value(kept, forward.variables)
        assert torch.equal(variables["index"], index)
        assert "data" not in variables  # the whole buffer, which does not change
        assert torch.equal(_value(kept, forward.args)[0], x)
        assert randomness.restore(_value(kept, forward.rng)) == []
        assert torch.equal(torch.get_rng_state(), state)


def test_micro_batches_each_have_their_random_states() -> None:
    with watched(capture=()) as seen:
        model = classifier()
        optimizer = sgd(model)
        for number, (x, y) in enumerate(_loader(24)):
            functional.cross_entropy(model(x), y).backward()
            if number % 2:
                optimizer.step()
    kept = _kept(seen, 1)
    assert _kinds(kept) == ["batch", "forward", "loss"] * 2
    assert all(event.rng is not None for event in _events(kept, BatchHanded))
    assert len(kept.recorded.losses) == 2


def test_a_batch_that_was_fetched_ahead_belongs_to_the_step_it_was_fetched_in() -> None:
    with watched(capture=()) as seen:
        model = classifier()
        optimizer, batches = sgd(model), iter(_loader(16))
        ahead = next(batches, None)
        while ahead is not None:
            (x, y), ahead = ahead, next(batches, None)
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert [_kinds(_kept(seen, step)).count("batch") for step in range(4)] == [2, 1, 1, 0]
    # Between two steps it belongs to the next one.
    assert _kinds(_kept(seen, 3)) == ["forward", "loss"]
    assert _events(_kept(seen, 3), ForwardCalled)[0].rng is not None


def test_a_gan_is_two_steps_with_the_variables_that_both_need() -> None:
    with watched(capture=()) as seen:
        judge, maker = classifier(), nn.Linear(2, 6)
        of_judge, of_maker = sgd(judge), sgd(maker)
        noise = []
        for x, _ in _loader():
            z = torch.randn(4, 2)
            noise.append(z)
            fake = maker(z)
            loss = judge(x).mean() - judge(fake.detach()).mean()
            loss.backward()
            of_judge.step()
            (-judge(fake).mean()).backward()
            of_maker.step()
    first, second = _kept(seen, 2), _kept(seen, 3)
    assert _kinds(first) == ["batch", "forward", "forward", "forward"]
    assert _kinds(second) == ["forward"]
    assert (first.recorded.optimizers, second.recorded.optimizers) == (("SGD",), ("SGD#1",))
    variables = _value(second, second.recorded.events[0].variables)
    assert torch.equal(variables["z"], noise[1])
    assert second.recorded.carried  # `fake` was computed in the previous step
    assert not first.recorded.carried


def test_a_hidden_state_is_an_argument_like_others() -> None:
    with watched(capture=()) as seen:
        cell, hidden, given = nn.RNNCell(3, 3), torch.zeros(2, 3), []
        optimizer = sgd(cell)
        for _ in range(3):
            hidden = hidden.detach()
            given.append(hidden.clone())
            hidden = cell(torch.randn(2, 3), hidden)
            hidden.sum().backward()
            optimizer.step()
    for step in range(2):
        kept = _kept(seen, step)
        assert torch.equal(_value(kept, kept.recorded.events[0].args)[1], given[step])
        assert not kept.recorded.carried


def test_closures_record_every_evaluation() -> None:
    with watched(capture=()) as seen:
        model, (x, y) = classifier(), (torch.randn(4, 6), torch.arange(4) % 3)
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            return loss

        for _ in range(2):
            optimizer.step(closure)
    assert _kinds(_kept(seen, 0))[:4] == ["forward", "loss", "forward", "loss"]


def test_batches_that_are_only_evaluated_are_forgotten() -> None:
    with watched(capture=()) as seen:
        model = classifier()
        optimizer, train, held_out = sgd(model), _loader(), _loader(40)
        for _ in range(2):
            list(_train(model, optimizer, train))
            with torch.no_grad():
                for x, _ in held_out:
                    model(x)
        list(_train(model, optimizer, train))
    for step in range(1, 6):
        assert _kinds(_kept(seen, step)) == ["batch", "forward", "loss"]


class _Sees(TorchDispatchMode):
    """A mode of the script that observes every operation."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


class _Hears(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.heard.append(str(func))
        return func(*args, **(kwargs or {}))


def _operations(*, active: bool) -> list[str]:
    with watched(capture=()) as seen, _Sees() as mode, _Hears() as other:
        seen.tracer.recording.active = active
        model = classifier()
        list(_train(model, sgd(model), _loader()))
        operations = [*mode.seen, *(text.split(" at 0x")[0] for text in other.heard)]
    assert bool(seen.tracer.recording.steps()) == active
    return operations


def test_modes_of_the_scripts_own_see_nothing_of_it() -> None:
    assert _operations(active=True) == _operations(active=False)


def test_a_teacher_that_sees_the_batch_first_does_not_lose_it() -> None:
    with watched(capture=()) as seen:
        teacher, model = classifier(), classifier()
        optimizer = sgd(model)
        for x, _ in _loader():
            with torch.no_grad():
                wanted = teacher(x)
            functional.mse_loss(model(x), wanted).backward()
            optimizer.step()
    for step in range(3):
        assert _kinds(_kept(seen, step)) == ["batch", "evaluation", "forward", "loss"]


def test_nothing_of_the_scripts_is_kept_alive() -> None:
    with watched(capture=()) as seen:
        model = classifier()
        optimizer, alive = sgd(model), []
        for x, y in _loader():
            alive += [weakref.ref(x), weakref.ref(y)]
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            alive.append(weakref.ref(loss))
            del loss
        del x, y
        gc.collect()
        recording = seen.tracer.recording
        assert recording.steps()
        assert [reference() for reference in alive[:-3]] == [None] * (len(alive) - 3)


@pytest.mark.parametrize("config", [Config(ring_mb=0.0), Config(capture="off")])
def test_nothing_is_recorded_where_nothing_is_wanted(config: Config) -> None:
    with watched(capture=(), config=config) as seen:
        model = classifier()
        list(_train(model, sgd(model), _loader()))
    recording = seen.tracer.recording
    assert (recording.steps(), recording.bytes_held) == ((), 0)
    assert recording.current().recorded.events == ()


def test_under_watch_it_is_said_what_is_not_seen() -> None:
    model = classifier()
    optimizer = sgd(model)
    with watched(model, optimizer, capture=()) as seen:
        given = list(_train(model, optimizer, _loader()))
    kept = _kept(seen, 1)
    assert _kinds(kept) == ["forward"]
    assert "mothtrap.watch does not see" in kept.recorded.missing[0]
    assert torch.equal(_value(kept, kept.recorded.events[0].args)[0], given[1][0])


def test_names_that_are_redacted_keep_shape_only() -> None:
    config = Config(redact=("secret*", "input", "tokens"))
    with watched(capture=(), config=config) as seen:
        model, secret = classifier(), torch.full((4,), 7.0)
        optimizer = sgd(model)
        data = [{"tokens": torch.full((6,), 7.0), "label": 1.0} for _ in range(4)]
        for batch in DataLoader(data, batch_size=2):  # type: ignore[arg-type]
            secret = secret + 0
            functional.mse_loss(model(batch["tokens"]).mean(), batch["label"].mean()).backward()
            optimizer.step()
    kept = _kept(seen, 1)
    [batch_event], [forward] = _events(kept, BatchHanded), _events(kept, ForwardCalled)
    assert batch_event.value["dict"][0] == [
        "tokens",
        {"redacted": "float32 of shape (2, 6)"},
    ]
    assert forward.args == {"tuple": [{"redacted": "float32 of shape (2, 6)"}]}
    named = dict(forward.variables["dict"])
    assert named["secret"] == {"redacted": "float32 of shape (4,)"}
    sevens = torch.full((6,), 7.0).numpy().tobytes()
    assert all(sevens not in array.data.tobytes() for array in kept.arrays.values())


def test_what_is_too_large_is_left_out_and_said() -> None:
    with watched(capture=(), config=Config(ring_mb=0.25, snapshot_mb=0.5)) as seen:
        model = classifier()
        optimizer = sgd(model)
        for x, _ in DataLoader(TensorDataset(torch.randn(20_000, 6), torch.arange(20_000)), 10_000):
            model(x).mean().backward()
            optimizer.step()
    kept = _kept(seen, 1)
    assert any("float32 of shape (10000, 6) is too large" in text for text in kept.recorded.missing)
    [batch] = _events(kept, BatchHanded)
    assert list(batch.value["list"][0]) == ["opaque"]


def test_the_current_step_is_what_was_fed_so_far() -> None:
    with watched(capture=()) as seen:
        model = classifier()
        optimizer = sgd(model)
        recording: Recording = seen.tracer.recording
        for number, (x, y) in enumerate(_loader()):
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            current = recording.current()
            assert (current.recorded.step, _kinds(current)) == (
                number,
                ["batch", "forward", "loss"],
            )
            optimizer.step()
