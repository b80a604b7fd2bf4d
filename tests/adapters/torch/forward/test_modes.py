from __future__ import annotations

import pytest
import torch
from tests.adapters.torch.watched import Seen, batch, sgd, train, watched
from torch import nn
from torch.nn import functional

from mothtrap.adapters.torch.forward import modes
from mothtrap.adapters.torch.job import forward_uses
from mothtrap.adapters.torch.job.dropouts import is_dropout
from mothtrap.core.facts.evaluations import NormBatches, TrainingMode


def told(seen: Seen) -> list[TrainingMode]:
    return [one for one in seen.observed(TrainingMode) if isinstance(one, TrainingMode)]


def samples(seen: Seen) -> list[NormBatches]:
    return [one for one in seen.observed(NormBatches) if isinstance(one, NormBatches)]


def normed() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3)
    )


def test_the_mode_is_told_at_the_first_step_and_when_it_changed_for_good() -> None:
    with watched() as seen:
        model = normed()
        optimizer = sgd(model)
        train(model, optimizer, steps=4)
        model.eval()
        train(model, optimizer, steps=modes.LASTING_STEPS + 3)
    assert [(one.step, one.trains) for one in told(seen)] == [(0, True), (4, False)]
    first, second = told(seen)
    assert (first.module, first.dropouts, first.norms, first.sleeping) == (
        "Sequential",
        ("3",),
        ("1",),
        (),
    )
    assert second.sleeping == ("3", "1")
    assert "test_modes.py" in (first.location or "")


def test_an_evaluation_right_after_a_step_puts_nothing_of_it_to_sleep() -> None:
    model = normed()
    with watched() as seen:
        train(model, sgd(model), steps=1)
        model.eval()
        with torch.no_grad():
            model(batch()[0])
    assert [(one.trains, one.sleeping) for one in told(seen)] == [(True, ())]


def test_modes_that_alternate_are_no_change() -> None:
    model = normed()
    optimizer = sgd(model)
    with watched() as seen:
        for step in range(40):
            model.train(step % 3 != 0)
            train(model, optimizer, steps=1)
    assert [one.trains for one in told(seen)] == [False]


def test_an_evaluation_with_a_graph_in_the_same_step_does_not_count() -> None:
    model = normed()
    optimizer = sgd(model)
    with watched() as seen:
        for _ in range(20):
            model.eval()
            functional.cross_entropy(model(batch()[0]), batch()[1]).item()
            model.train()
            train(model, optimizer, steps=1)
    assert [one.trains for one in told(seen)] == [True]


class WithScores(nn.Module):
    """Has a second way through its parts, which is no forward pass of the whole model."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.last = nn.Dropout(0.5), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.drop(x))

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.drop(x)).softmax(-1)


def test_parts_that_are_called_in_an_evaluation_with_a_graph_do_not_train() -> None:
    model = WithScores()
    optimizer = sgd(model)
    with watched() as seen:
        train(model, optimizer, steps=4)
        model.eval()
        for _ in range(3):
            model.scores(model.last.weight.sum() * batch()[0])
        model.train()
        train(model, optimizer, steps=modes.LASTING_STEPS + 3)
    assert [(one.module, one.trains) for one in told(seen)] == [("WithScores", True)]


def test_many_calls_of_parts_in_an_evaluation_do_not_train(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward_uses, "MAX_USES", 4)
    model = WithScores()
    optimizer = sgd(model)
    with watched() as seen:
        for _ in range(2):
            train(model.train(), optimizer, steps=4)
            model.eval()
            for _ in range(8):
                model.scores(model.last.weight.sum() * batch()[0])
        train(model.train(), optimizer, steps=modes.LASTING_STEPS + 3)
    assert [(one.module, one.trains) for one in told(seen)] == [("WithScores", True)]


def test_frozen_batch_norms_are_named() -> None:
    model = normed()
    model[1].eval()
    with watched() as seen:
        train(model, sgd(model), steps=2)
    [one] = told(seen)
    assert (one.trains, one.sleeping) == (True, ("1",))


@pytest.mark.parametrize(
    ("module", "drops"),
    [
        (nn.Dropout(0.1), True),
        (nn.Dropout(0.0), False),
        (nn.MultiheadAttention(4, 2, dropout=0.1), True),
        (nn.MultiheadAttention(4, 2), False),
        (nn.LSTM(4, 4, num_layers=2, dropout=0.3), True),
        (nn.GRU(4, 4), False),
        (nn.Linear(4, 4), False),
    ],
)
def test_what_drops_something(module: nn.Module, drops: bool) -> None:
    assert is_dropout(module) is drops


def test_batch_norms_without_statistics_do_the_same_in_both_modes() -> None:
    assert modes.is_batch_norm(nn.BatchNorm2d(4))
    assert not modes.is_batch_norm(nn.BatchNorm2d(4, track_running_stats=False))
    assert not modes.is_batch_norm(nn.LayerNorm(4))
    assert not modes.is_batch_norm(nn.InstanceNorm2d(4, track_running_stats=True))


def pictures(rows: int, steps: int) -> Seen:
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)
    )
    optimizer = sgd(model)
    with watched() as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.randn(rows, 1, 6, 6)).square().mean().backward()
            optimizer.step()
    return seen


def test_samples_of_batch_norms_are_counted_now_and_then() -> None:
    counts = samples(pictures(rows=1, steps=20))
    assert [one.forwards for one in counts] == [8, 16]
    assert [(one.single, one.few, one.samples) for one in counts] == [(8, 8, 1), (16, 16, 1)]
    assert counts[0].module == "1"
    few = samples(pictures(rows=3, steps=9))
    assert [(one.single, one.few, one.samples) for one in few] == [(0, 8, 3)]


def test_later_on_one_forward_in_fifty_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modes, "SAMPLES_FIRST", 4)
    monkeypatch.setattr(modes, "SAMPLES_EVERY", 5)
    assert [one.forwards for one in samples(pictures(rows=2, steps=31))] == [8]


def test_models_without_batch_norms_have_no_samples() -> None:
    model = nn.Sequential(nn.Linear(6, 3))
    with watched() as seen:
        train(model, sgd(model), steps=12)
    assert samples(seen) == []
    assert len(told(seen)) == 1


def test_modes_can_fail_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("planted")

    model = normed()
    with watched(may_fail=True) as seen:
        monkeypatch.setattr(seen.tracer.forwards.modes, "trained", fails)
        losses = train(model, sgd(model))
    assert seen.failed() == ["modes"]
    assert seen.scalars("loss") == losses
