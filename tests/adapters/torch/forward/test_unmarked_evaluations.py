"""Evaluations without `torch.no_grad()` and without `model.eval()`."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import Seen, batch, classifier, sgd, watched
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from mothtrap.core.facts.data import IndicesShared, InputDistribution, RowsShared
from mothtrap.core.facts.evaluations import Evaluation, EvaluationPhase
from mothtrap.core.facts.samples import SamplesTaken
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.steps import Mode

Tensor = torch.Tensor


def dropping() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3))


def train(model: nn.Module, x: Tensor, y: Tensor, *, size: int = 10) -> None:
    optimizer = sgd(model)
    for rows in torch.randperm(len(x)).split(size):
        optimizer.zero_grad()
        functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()


def end(seen: Seen) -> None:
    seen.tracer.ended()
    seen.tracer.recorder.finish(WorkerEnded(step=0, steps=0, own_s=0.0, wall_s=0.0))


def phases(seen: Seen) -> list[EvaluationPhase]:
    return [one for one in seen.observed(EvaluationPhase) if isinstance(one, EvaluationPhase)]


def test_forwards_that_no_backward_reaches_are_an_evaluation() -> None:
    model, own = dropping(), []
    x, y = batch(rows=40)
    with watched() as seen:
        for _ in range(2):
            train(model, x[:20], y[:20])
            for rows in (slice(20, 30), slice(30, 40)):
                loss = functional.cross_entropy(model(x[rows]), y[rows])
                own.append(loss.item())
        end(seen)
    found = phases(seen)
    assert [(one.step, one.forwards, one.labelled) for one in found] == [(2, 2, 2), (4, 2, 2)]
    assert [(one.trains, one.dropouts) for one in found] == [(True, ("1",))] * 2
    losses = [one for one in seen.observed(Evaluation) if isinstance(one, Evaluation)]
    assert [one.value for one in losses] == pytest.approx(
        [(own[0] + own[1]) / 2, (own[2] + own[3]) / 2]
    )
    assert [(one.step, one.rows) for one in losses] == [(2, 20), (4, 20)]


def test_an_evaluation_by_argmax_only_is_recognized() -> None:
    model = dropping()
    x, y = batch(rows=40)
    with watched() as seen:
        for _ in range(2):
            train(model, x[:20], y[:20])
            right = sum(
                int((model(x[20 + row : 30 + row]).argmax(1) == 0).sum()) for row in (0, 10)
            )
            assert right >= 0
        end(seen)
    assert [(one.forwards, one.labelled) for one in phases(seen)] == [(2, 0), (2, 0)]


def test_what_is_kept_of_an_evaluation_delays_it_by_a_step() -> None:
    model = dropping()
    x, y = batch(rows=40)
    with watched() as seen:
        train(model, x[:20], y[:20])
        kept = functional.cross_entropy(model(x[20:]), y[20:])
        train(model, x[:20], y[:20])
        train(model, x[:20], y[:20])
        assert kept.requires_grad
        end(seen)
    assert [(one.step, one.labelled) for one in phases(seen)] == [(2, 1)]


def test_a_model_in_evaluation_mode_with_a_graph_is_evaluated() -> None:
    model = dropping()
    x, y = batch(rows=40)
    with watched() as seen:
        for _ in range(2):
            model.train()
            train(model, x[:20], y[:20])
            model.eval()
            model(x[20:]).argmax(1)
        end(seen)
    assert [(one.trains, one.forwards) for one in phases(seen)] == [(False, 1), (False, 1)]


def gan_step() -> Callable[[], None]:
    generator, critic = nn.Linear(4, 6), nn.Linear(6, 1)
    of_generator, of_critic = sgd(generator), sgd(critic)

    def step() -> None:
        fake = generator(torch.randn(8, 4))
        of_critic.zero_grad()
        (critic(fake.detach()).mean() - critic(torch.randn(8, 6)).mean()).backward()
        of_critic.step()
        of_generator.zero_grad()
        (-critic(fake).mean()).backward()
        of_generator.step()

    return step


def siamese_step() -> Callable[[], None]:
    model = classifier()
    optimizer = sgd(model)

    def step() -> None:
        optimizer.zero_grad()
        (model(torch.randn(8, 6)) - model(torch.randn(8, 6))).square().mean().backward()
        optimizer.step()

    return step


def accumulating_step() -> Callable[[], None]:
    model = classifier()
    optimizer = sgd(model)

    def step() -> None:
        optimizer.zero_grad()
        losses = [functional.cross_entropy(model(x), y) for x, y in (batch(), batch())]
        torch.stack(losses).mean().backward()
        optimizer.step()

    return step


def targets_step() -> Callable[[], None]:
    model = classifier()
    optimizer = sgd(model)

    def step() -> None:
        x = torch.randn(8, 6)
        optimizer.zero_grad()
        out = model(x)
        target = model(x + 0.1).detach()
        functional.mse_loss(out, target).backward()
        optimizer.step()

    return step


@pytest.mark.parametrize("make", [gan_step, siamese_step, accumulating_step, targets_step])
def test_forwards_that_serve_a_step_are_no_evaluation(
    make: Callable[[], Callable[[], None]],
) -> None:
    step = make()
    with watched() as seen:
        for _ in range(12):
            step()
        gc.collect()
        end(seen)
    assert not phases(seen)
    assert not seen.observed(Evaluation)


def test_evaluated_rows_do_not_count_as_trained_on() -> None:
    model = classifier()
    x, y = batch(rows=140)
    with watched() as seen:
        for _ in range(4):
            train(model, x[:100], y[:100])
            model(x[95:]).argmax(1)
        end(seen)
    found = [one for one in seen.observed(RowsShared) if isinstance(one, RowsShared)]
    assert found
    assert {(one.train_rows, one.eval_rows, one.shared) for one in found} == {(100, 45, 5)}


def test_a_loader_of_an_unmarked_evaluation_is_no_training_data() -> None:
    model = classifier()
    x, y = batch(rows=60)
    data = TensorDataset(x, y)
    training = DataLoader(torch.utils.data.Subset(data, range(40)), batch_size=10, shuffle=True)
    held_out = DataLoader(torch.utils.data.Subset(data, range(35, 60)), batch_size=10)
    optimizer = sgd(model)
    with watched() as seen:
        for _ in range(3):
            for rows, labels in training:
                optimizer.zero_grad()
                functional.cross_entropy(model(rows), labels).backward()
                optimizer.step()
            for rows, labels in held_out:
                (model(rows).argmax(1) == labels).sum()
        end(seen)
    [shared] = seen.observed(IndicesShared)
    assert isinstance(shared, IndicesShared)
    assert (shared.train_samples, shared.eval_samples, shared.shared) == (40, 25, 5)
    taken = [one for one in seen.observed(SamplesTaken) if isinstance(one, SamplesTaken)]
    assert {batch.loader for one in taken for batch in one.batches} == {"loader 1"}


def test_the_program_computes_the_same_gradients() -> None:
    def gradients() -> list[Tensor]:
        torch.manual_seed(0)
        model = classifier()
        x, y = batch(rows=8)
        out = model(x)
        loss = functional.cross_entropy(out, y)
        [first] = torch.autograd.grad(loss, [out], create_graph=True)
        (loss + first.square().sum()).backward()
        return [p.grad for p in model.parameters() if p.grad is not None]

    plain = gradients()
    with watched():
        observed = gradients()
    assert all(torch.equal(a, b) for a, b in zip(plain, observed, strict=True))


def test_inputs_of_an_unmarked_evaluation_are_described_apart() -> None:
    model = classifier()
    x, y = batch(rows=60)
    held_out = x[40:] * 255
    with watched() as seen:
        for _ in range(3):
            train(model, x[:40], y[:40])
            model(held_out).argmax(1)
        end(seen)
    found = [one for one in seen.observed(InputDistribution) if isinstance(one, InputDistribution)]
    assert {one.std > 50 for one in found if one.mode is Mode.EVAL} == {True}
    assert [one.rows for one in found if one.mode is Mode.EVAL] == [20, 20, 20]
