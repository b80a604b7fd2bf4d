from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from tests.adapters.torch.watched import Seen, classifier, sgd, train, watched
from torch import nn

from mothtrap.adapters.torch.optimization import saved_weights
from mothtrap.core.facts.workers import (
    OptimizersNotRestored,
    Resumed,
    WeightsNotRestored,
    WeightsSaved,
)
from mothtrap.statistics.torch import fingerprint


def saved(seen: Seen) -> list[tuple[int, str]]:
    return [(o.step, o.digest) for o in seen.observed(WeightsSaved)]  # type: ignore[attr-defined]


def digest(model: nn.Module) -> str:
    return f"{fingerprint(list(model.parameters())):016x}"


def test_the_digest_of_saved_weights_bears_the_steps_that_they_have_taken() -> None:
    model = classifier()
    optimizer = sgd(model)
    with watched() as seen:
        train(model, optimizer, steps=2)
        model.state_dict()
        wanted = digest(model)
        train(model, optimizer, steps=1)
    assert saved(seen) == [(2, wanted)]


def test_a_watched_model_tells_too_and_its_parts_do_not() -> None:
    model = classifier()
    optimizer = sgd(model)
    with watched(model, optimizer) as seen:
        train(model, optimizer, steps=1)
        model[0].state_dict()
        model.state_dict()
        train(model, optimizer, steps=1)
    assert [step for step, _ in saved(seen)] == [1]


def test_models_that_no_one_trains_are_left_alone() -> None:
    model, other = classifier(), classifier()
    optimizer = sgd(model)
    with watched() as seen:
        other(torch.randn(2, 6))
        train(model, optimizer, steps=1)
        other.state_dict()
        model[2].state_dict()
        train(model, optimizer, steps=1)
    assert saved(seen) == []


def test_states_that_are_asked_for_in_every_step_are_digested_now_and_then() -> None:
    model = classifier()
    optimizer = sgd(model)
    with watched() as seen:
        train(model, optimizer, steps=1)
        for _ in range(10):
            model.state_dict()
        train(model, optimizer, steps=1)
    assert len(saved(seen)) < 10
    assert saved_weights.COST_SHARE <= 0.01


def test_a_restarted_job_counts_on_from_the_step_that_it_is_told() -> None:
    asked: list[tuple[Mapping[str, str], int | None]] = []

    def resume(digests: Mapping[str, str], own_steps: int | None) -> Resumed:
        asked.append((digests, own_steps))
        return Resumed(step=40, evidence="by hand", evaluations=7)

    model = classifier()
    before = digest(model)
    optimizer = sgd(model)
    with watched() as seen:
        seen.tracer.job.process.resumption = resume
        train(model, optimizer, steps=3)
    assert asked == [({"Sequential": before}, None)]
    assert [record.key.step for record in seen.steps()] == [40, 41, 42]
    assert seen.tracer.recorder.steps == 43
    (resumed,) = seen.observed(Resumed)
    assert resumed == Resumed(step=40, evidence="by hand", evaluations=7)


@pytest.mark.parametrize(
    ("restores", "loaded", "momentum", "told"),
    [
        pytest.param(False, True, 0.9, [("SGD",)], id="a new optimizer"),
        pytest.param(True, True, 0.9, [], id="a restored one"),
        pytest.param(False, False, 0.9, [], id="other weights"),
        pytest.param(False, True, 0.0, [], id="one without averages"),
    ],
)
def test_an_optimizer_without_its_averages_is_told(
    restores: bool, loaded: bool, momentum: float, told: list[tuple[str, ...]]
) -> None:
    model = classifier()
    first = torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum)
    train(model, first, steps=3)
    with watched() as seen:
        seen.tracer.job.process.resumption = lambda *_: Resumed(
            step=3, evidence="by hand", loaded=loaded
        )
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum)
        if restores:
            optimizer.load_state_dict(first.state_dict())
        train(model, optimizer, steps=1)
    found = seen.observed(OptimizersNotRestored)
    assert [one.optimizers for one in found] == told  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("restores", "loads", "told"),
    [
        pytest.param(True, False, [("SGD",)], id="the optimizer alone"),
        pytest.param(True, True, [], id="both"),
        pytest.param(False, False, [], id="neither"),
    ],
)
def test_weights_that_are_not_loaded_with_their_optimizer_are_told(
    restores: bool, loads: bool, told: list[tuple[str, ...]]
) -> None:
    before = classifier(hidden=32)
    first = torch.optim.SGD(before.parameters(), lr=0.1, momentum=0.9)
    train(before, first, steps=3)
    with watched() as seen:
        seen.tracer.job.process.resumption = lambda *_: Resumed(step=3, evidence="by hand")
        model = classifier(hidden=32)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        if restores:
            optimizer.load_state_dict(first.state_dict())
        if loads:
            model.load_state_dict(before.state_dict())
        train(model, optimizer, steps=1)
    found = [o for o in seen.observed(WeightsNotRestored) if isinstance(o, WeightsNotRestored)]
    assert [one.optimizers for one in found] == told
    assert all(one.untouched for one in found)


@pytest.mark.parametrize("sets_data", [False, True])
def test_weights_may_be_restored_in_place(sets_data: bool) -> None:
    before = classifier(hidden=32)
    first = torch.optim.SGD(before.parameters(), lr=0.1, momentum=0.9)
    train(before, first, steps=3)
    with watched() as seen:
        process = seen.tracer.job.process
        process.resumption = lambda *_: Resumed(step=3, evidence="by hand")
        model = classifier(hidden=32)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        optimizer.load_state_dict(first.state_dict())
        for parameter, saved in zip(model.parameters(), before.parameters(), strict=True):
            if sets_data:
                parameter.data = saved.detach().clone()
            else:
                parameter.data.copy_(saved)
        train(model, optimizer, steps=1)
    assert seen.observed(WeightsNotRestored) == []


def test_the_optimizer_says_how_many_steps_it_made() -> None:
    said: list[int | None] = []

    def resume(_: Mapping[str, str], own_steps: int | None) -> Resumed:
        said.append(own_steps)
        return Resumed(step=0, evidence="")

    for count in (1, 2):
        model = classifier()
        first, second = (torch.optim.Adam(model.parameters(), lr=0.1) for _ in range(2))
        train(model, first, steps=3)
        with watched() as seen:
            seen.tracer.job.process.resumption = resume
            optimizers = [torch.optim.Adam(model.parameters(), lr=0.1) for _ in range(count)]
            optimizers[0].load_state_dict(first.state_dict())
            train(model, optimizers[0], steps=1)
        del second
    assert said == [3, None]
