"""Unobserved steps are counted and reported, and end when there is something to observe."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import Seen, batch, classifier, sgd, train, watched, whole
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mothtrap.adapters.torch.job.step_sampling import ALIKE_STEPS
from mothtrap.capture.step_sampling import MOST_LONG, StepSampler
from mothtrap.core.adapters import Given
from mothtrap.core.config import Config
from mothtrap.core.facts.captures import Unwatched
from mothtrap.core.facts.samples import SamplesTaken
from mothtrap.core.records import GradientState
from mothtrap.core.schedule import Schedule
from mothtrap.core.steps import Mode

EVERY, TOGETHER = 10, 2
FULL = 40
"""Full steps in these tests before the first unobserved ones."""


@pytest.fixture(autouse=True)
def _rests_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    def next_after(_: StepSampler, step: int) -> int:
        following = step + 1
        if following < FULL or following % EVERY < TOGETHER:
            return following
        return following + -following % EVERY

    monkeypatch.setattr(StepSampler, "next_after", next_after)
    monkeypatch.setattr(StepSampler, "long_s", lambda _: math.inf)
    assert ALIKE_STEPS < FULL


def expected(steps: int) -> list[int]:
    return [step for step in range(steps) if step < FULL or step % EVERY < TOGETHER]


def steps_of(seen: Seen) -> list[int]:
    return [record.key.step for record in seen.steps()]


def unwatched(seen: Seen) -> list[int]:
    seen.tracer.recorder.emit_facts()  # as at the end of a job
    found = []
    for fact in seen.observed(Unwatched):
        assert isinstance(fact, Unwatched)
        found += range(fact.step, fact.last_step + 1)
        assert fact.count == fact.last_step + 1 - fact.step
        assert fact.seconds > 0
    return found


def test_some_steps_are_watched_and_the_others_told() -> None:
    model = classifier()
    with watched() as seen:
        losses = train(model, sgd(model), steps=95)
    assert steps_of(seen) == expected(95)
    assert seen.scalars("loss") == [losses[step] for step in expected(95)]
    assert sorted(steps_of(seen) + unwatched(seen)) == list(range(95))
    assert seen.tracer.recorder.steps == 95


def test_where_nothing_is_captured_the_beginning_alone_is_watched() -> None:
    model = classifier()
    with watched(config=Config(capture="off")) as seen:
        train(model, sgd(model), steps=95)
    assert steps_of(seen) == list(range(ALIKE_STEPS + 1))
    assert seen.tracer.recorder.steps == 95


@pytest.mark.parametrize("set_to_none", [True, False])
def test_what_is_watched_between_rests_is_as_usual(set_to_none: bool) -> None:
    model = classifier()
    with watched() as seen:
        train(model, sgd(model), steps=80, set_to_none=set_to_none)
    for kind in ("gradient", "weight"):
        assert list(seen.rows(f"{kind}:0.weight", "l2")) == expected(80)
    assert list(seen.rows("activation:0", "mean")) == expected(80)
    assert set(seen.scalars("gradient_state")) == {GradientState.FRESH}
    assert set(seen.scalars("stale_gradient")) == {0.0}
    assert set(seen.scalars("micro_batches")) == {1.0}
    assert all(0 < step_s < 10 for step_s in seen.scalars("step_s"))


def test_gradients_that_are_never_cleared_are_still_seen_to_be_stale() -> None:
    model = classifier()
    optimizer = sgd(model, 1e-6)
    with watched() as seen:
        for _ in range(60):
            x, y = batch()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert seen.scalars("stale_gradient") == [0.0] + [1.0] * (len(expected(60)) - 1)


def test_the_training_is_the_same() -> None:
    results = []
    for sampler in (True, False):
        torch.manual_seed(0)
        model = classifier()
        with watched() as seen:
            seen.tracer.sampling.allowed = sampler
            losses = train(model, torch.optim.Adam(model.parameters()), steps=90)
        results.append((losses, [p.detach().clone() for p in model.parameters()]))
    assert results[0][0] == results[1][0]
    assert all(map(torch.equal, results[0][1], results[1][1]))


def test_a_loss_that_is_not_finite_is_seen_in_its_step() -> None:
    model = classifier()
    optimizer = sgd(model)
    with watched() as seen:
        for step in range(60):
            x, y = batch()
            loss = nn.functional.cross_entropy(model(x), y) * (math.nan if step == 47 else 1)
            optimizer.zero_grad()
            if step < 48:
                loss.backward()
            optimizer.step()
    assert steps_of(seen)[FULL : FULL + 3] == [40, 41, 47]
    by_step = dict(zip(steps_of(seen), seen.steps(), strict=True))
    losses = [s.value for s in by_step[47].scalars if s.name == "loss"]
    assert len(losses) == 1
    assert math.isnan(losses[0])
    assert seen.rows("gradient:0.weight", "nan")[47] == 48
    assert seen.tracer.recording.steps()[-1] == 59


@pytest.mark.parametrize("mode", ["no_grad", "eval"])
def test_an_evaluation_is_seen_at_its_step(mode: str) -> None:
    model = classifier()
    optimizer = sgd(model)
    x, y = batch()
    with watched() as seen:
        for step in range(70):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            if step == 55:
                model.train(mode != "eval")
                with torch.no_grad():
                    nn.functional.cross_entropy(model(x), y)
                model.train()
    (evaluated,) = [r for r in seen.records if r.key.mode is Mode.EVAL and r.tensor_T.size]
    assert evaluated.key.step == 56
    assert [step for step in steps_of(seen) if 52 <= step < 60] == [56]
    assert seen.tracer.recorder.steps == 70


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_users_log_belongs_to_its_step(when: str) -> None:
    model = classifier()
    optimizer = sgd(model)
    with watched() as seen:
        recorder = seen.tracer.recorder
        for step in range(72):
            optimizer.zero_grad()
            x, y = batch()
            nn.functional.cross_entropy(model(x), y).backward()
            if when == "after":
                optimizer.step()
            recorder.logs(False)
            recorder.notes.scalar("mine", "", float(step))
            if when == "before":
                optimizer.step()
    logged = {r.key.step: [s.value for s in r.scalars if s.name == "mine"] for r in seen.steps()}
    assert logged == {step: [float(step)] for step in range(72)}
    assert [r.key.step for r in seen.steps() if r.optimizers] == expected(72)
    assert recorder.steps == 72


def test_what_is_given_to_step_in_a_rest_is_logged() -> None:
    model = classifier()
    optimizer = sgd(model)
    with watched() as seen:
        for step in range(60):
            train(model, optimizer, steps=1)
            seen.tracer.step_given(Given(loss=torch.tensor(0.5), numbers={"mine": float(step)}))
    assert seen.scalars("mine") == [float(step) for step in range(60)]
    assert seen.scalars("loss") == [0.5] * len(expected(60))


def test_another_optimizer_ends_a_rest() -> None:
    model, other = classifier(), classifier()
    optimizer, second = sgd(model), sgd(other)
    with watched() as seen:
        for step in range(60):
            train(model, optimizer, steps=1)
            if step == 44:
                train(other, second, steps=1)
    assert [step for step in steps_of(seen) if step > 41] == [45, *range(46, 61)]
    assert seen.steps()[FULL + 2].optimizers == ("SGD#1",)
    assert seen.tracer.recorder.steps == 61


def test_micro_batches_are_no_steps() -> None:
    model = classifier()
    optimizer = sgd(model)
    with watched() as seen:
        for _ in range(65):
            optimizer.zero_grad()
            for _ in range(3):
                x, y = batch()
                nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert steps_of(seen) == expected(65)
    assert set(seen.scalars("micro_batches")) == {3.0}


def test_a_rest_is_over_when_steps_become_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        StepSampler, "next_after", lambda _, step: step + 1 if step < FULL else 1000
    )
    monkeypatch.setattr(StepSampler, "long_s", lambda _: 0.0)
    with watched() as seen:
        model = classifier()
        train(model, sgd(model), steps=60)
    assert steps_of(seen)[FULL:] == [FULL, FULL + 1 + MOST_LONG + 1]


def test_steps_that_someone_named_are_watched() -> None:
    model = classifier()
    capture = whole("weight", schedule=Schedule(steps=(47, 200)), modes=(Mode.TRAIN,))
    with watched(capture=capture) as seen:
        train(model, sgd(model), steps=60)
    assert [step for step, _ in seen.raw("weight:0.weight")] == [47]
    assert steps_of(seen)[FULL:] == [40, 41, 47, 50, 51]


def closures(model: nn.Module) -> None:
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    for _ in range(60):
        x, y = batch()
        optimizer.step(closure)


def in_turn(model: nn.Module) -> None:
    first, second = sgd(model), sgd(model)
    for _ in range(30):
        train(model, first, steps=1)
        train(model, second, steps=1)


def without_model(_: nn.Module) -> None:
    weight = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(60):
        optimizer.zero_grad()
        (weight - 1).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("loop", [closures, in_turn, without_model])
def test_only_plain_loops_rest(loop: Callable[[nn.Module], None]) -> None:
    with watched() as seen:
        loop(classifier())
    assert steps_of(seen) == list(range(60))


@pytest.mark.parametrize(
    "config",
    [
        Config(on_nonfinite="skip"),
        Config(max_gradient_norm=1e9),
        Config(snapshot_every=7),
        Config(snapshot_at=(55,)),
        Config(digests=True),
    ],
)
def test_what_needs_each_step_gets_it(config: Config) -> None:
    with watched(config=config) as seen:
        model = classifier()
        train(model, sgd(model), steps=60)
    assert steps_of(seen) == list(range(60))


def test_one_model_alone_is_always_watched() -> None:
    model = classifier()
    optimizer = sgd(model)
    with watched(model, optimizer) as seen:
        train(model, optimizer, steps=60)
    assert steps_of(seen) == list(range(60))


@pytest.fixture
def loader() -> DataLoader[tuple[torch.Tensor, ...]]:
    data = TensorDataset(torch.randn(40, 6), torch.arange(40) % 3)
    return DataLoader(data, batch_size=4, shuffle=True)


def test_samples_and_recorded_inputs_are_of_their_own_step(
    loader: DataLoader[tuple[torch.Tensor, ...]],
) -> None:
    model = classifier()
    optimizer = sgd(model)
    with watched() as seen:
        for _ in range(8):
            for x, y in loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
    taken = [fact for fact in seen.observed(SamplesTaken) if isinstance(fact, SamplesTaken)]
    assert [fact.step for fact in taken] == expected(80)
    for fact in taken:
        (told,) = fact.batches
        assert (told.number, told.pass_number - 1) == (fact.step % 10, fact.step // 10)
        assert told.sure
    recording = seen.tracer.recording
    kept = [recording.kept(step) for step in recording.steps()]
    assert [k.recorded.step for k in kept if k is not None] == expected(80)
    for k in kept:
        assert k is not None
        assert [type(event).__name__ for event in k.recorded.events] == [
            "BatchHanded",
            "ForwardCalled",
            "LossCalled",
        ]


def test_an_exception_in_a_rest_has_no_frame_of_ours() -> None:
    class Breaks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.calls = classifier(), 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            if self.calls == 46:
                raise ValueError("broken")
            out: torch.Tensor = self.inner(x)
            return out

    model = Breaks()
    with watched() as seen:
        with pytest.raises(ValueError, match="broken") as raised:
            train(model, sgd(model), steps=60)
        assert not [entry for entry in raised.traceback if "mothtrap" in str(entry.path)]
    assert seen.tracer.recorder.steps == 45
    assert unwatched(seen) == [42, 43, 44]
