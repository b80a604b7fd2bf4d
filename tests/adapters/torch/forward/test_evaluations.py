from __future__ import annotations

import copy
import gc
import weakref

import pytest
import torch
from tests.adapters.torch.watched import Seen, batch, classifier, sgd, train, watched
from torch import nn
from torch.nn import functional

from mothtrap.adapters.torch.forward import evaluations
from mothtrap.adapters.torch.losses import evaluated_losses
from mothtrap.core.facts.evaluations import Evaluation, EvaluationPhase
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.steps import Mode


def end(seen: Seen) -> None:
    """Close the job, so that observations after the last step are reported."""
    if seen.observed(WorkerEnded):
        return
    seen.tracer.recorder.finish(WorkerEnded(step=0, steps=0, own_s=0.0, wall_s=0.0))


def told(seen: Seen) -> list[Evaluation]:
    end(seen)
    return [one for one in seen.observed(Evaluation) if isinstance(one, Evaluation)]


def phases(seen: Seen) -> list[EvaluationPhase]:
    end(seen)
    return [one for one in seen.observed(EvaluationPhase) if isinstance(one, EvaluationPhase)]


def test_one_value_an_evaluation_is_the_mean_over_rows() -> None:
    model = classifier()
    optimizer = sgd(model)
    own: list[float] = []
    x, y = batch(rows=10)
    with watched() as seen:
        for _ in range(3):
            losses = train(model, optimizer, steps=2)
            with torch.no_grad():
                for part in (slice(0, 6), slice(6, 10)):
                    functional.cross_entropy(model(x[part]), y[part])
                own.append(float(functional.cross_entropy(model(x), y)))
    first = [one for one in told(seen) if one.rows == 10 and one.calls == 2]
    assert [one.value for one in first] == pytest.approx(own)
    assert [(one.step, one.number) for one in first] == [(2, 0), (4, 1), (6, 2)]
    assert [one.mode for one in first] == [Mode.EVAL] * 3
    assert first[2].first == pytest.approx(own[0])
    assert first[2].best == pytest.approx(min(own))
    assert list(first[2].train_losses.values()) == pytest.approx([sum(losses) / 2])


def test_call_sites_are_told_apart_by_who_called_them() -> None:
    model = classifier()

    def evaluate(x: torch.Tensor, y: torch.Tensor) -> float:
        with torch.no_grad():
            return float(functional.cross_entropy(model(x), y))

    x, y = batch(rows=8)
    with watched() as seen:
        train(model, sgd(model), steps=1)
        own = [evaluate(x[:5], y[:5]), evaluate(x[5:], y[5:])]
    assert [one.value for one in told(seen)] == pytest.approx(own)
    assert len({one.site for one in told(seen)}) == 2
    assert len({one.location for one in told(seen)}) == 1


@pytest.mark.parametrize("criterion", [nn.CrossEntropyLoss(), nn.CrossEntropyLoss(reduction="sum")])
def test_losses_of_modules_are_the_same_and_counted_once(criterion: nn.Module) -> None:
    model = classifier()
    x, y = batch()
    with watched() as seen:
        train(model, sgd(model), steps=1)
        with torch.no_grad():
            out = model(x)
            criterion(out, y)
    [one] = told(seen)
    assert (one.operation, one.calls) == ("cross_entropy", 1)
    assert one.value == pytest.approx(float(functional.cross_entropy(out, y)))
    [phase] = phases(seen)
    assert phase.labelled == 1


def test_a_loss_module_of_the_users_own_is_seen_too() -> None:
    class RootLoss(nn.Module):
        def forward(self, out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return (out - y).square().mean().sqrt()

    model = classifier()
    with watched() as seen:
        train(model, sgd(model), steps=1)
        with torch.no_grad():
            value = RootLoss()(model(batch()[0]), torch.zeros(4, 3))
    [one] = told(seen)
    assert one.operation == "RootLoss"
    assert one.value == pytest.approx(value.item())


def test_a_loss_inside_the_model_is_seen() -> None:
    class WithLoss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = classifier()

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            out = self.inner(x)
            return out, functional.cross_entropy(out, y)

    model = WithLoss()
    optimizer = sgd(model)
    with watched() as seen:
        model(*batch())[1].backward()
        optimizer.step()
        with torch.no_grad():
            loss = model(*batch())[1]
    assert [one.value for one in told(seen)] == pytest.approx([loss.item()])


def test_a_forgotten_no_grad_is_seen_by_the_mode() -> None:
    model = classifier()
    optimizer = sgd(model)
    own = []
    with watched() as seen:
        for _ in range(2):
            model.train()
            train(model, optimizer, steps=2)
            model.eval()
            own.append(functional.cross_entropy(model(batch()[0]), batch()[1]).item())
    assert [one.value for one in told(seen)] == pytest.approx(own)
    assert seen.scalars("loss", mode=Mode.EVAL) == []


def test_training_in_evaluation_mode_is_no_evaluation() -> None:
    model = classifier().eval()
    with watched() as seen:
        train(model, sgd(model), steps=evaluations.MAX_DOUBTS + 3)
        assert not seen.tracer.forwards.evaluations.in_doubt
    assert told(seen) == []
    assert phases(seen) == []


def test_what_is_in_doubt_keeps_no_graph_alive() -> None:
    model = classifier().eval()
    graphs: list[weakref.ref[torch.Tensor]] = []
    with watched() as seen:
        train(model.train(), sgd(model), steps=1)
        model.eval()
        for _ in range(3):
            out = model(batch()[0])
            graphs.append(weakref.ref(out))
            functional.cross_entropy(out, batch()[1])
        del out
        gc.collect()
        assert [graph() for graph in graphs[:2]] == [None, None]
        train(model.train(), sgd(model), steps=1)
    assert [one.calls for one in told(seen)] == [3]


def test_how_the_model_ran_is_told() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 3))
    with watched() as seen:
        train(model, sgd(model), steps=3)
        with torch.no_grad():
            for _ in range(2):
                functional.cross_entropy(model(batch()[0]), batch()[1])
        train(model, sgd(model), steps=2)
        model.eval()
        with torch.inference_mode():
            model(batch()[0])
    first, second = phases(seen)
    assert (first.step, first.number, first.steps) == (3, 0, 3)
    assert (first.trains, first.forwards, first.labelled) == (True, 2, 2)
    assert (first.dropouts, first.norms, first.output_shape) == (("2",), ("1",), (4, 3))
    assert "test_evaluations.py" in (first.location or "")
    assert (second.step, second.number, second.steps) == (5, 1, 2)
    assert (second.trains, second.dropouts, second.labelled) == (False, (), 0)


class OwnNorm(nn.Module):
    """Normalizes by the batch, and drops values by a function."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 4), nn.Linear(4, 3)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        if self.training:
            self.mean.copy_(hidden.detach().mean(0))
        hidden = functional.dropout(hidden - self.mean, 0.5, training=self.training)
        return self.last(hidden)


def test_parts_that_read_the_mode_themselves_are_told() -> None:
    model = OwnNorm()
    with watched() as seen:
        for mode in (True, False):
            train(model.train(), sgd(model), steps=2)
            model.train(mode)
            with torch.no_grad():
                functional.cross_entropy(model(batch()[0]), batch()[1])
    first, second = phases(seen)
    assert (first.trains, first.dropouts, first.updating) == (True, ("OwnNorm",), ("OwnNorm",))
    assert (second.trains, second.dropouts, second.updating) == (False, (), ())


def test_averages_that_are_estimated_before_an_evaluation_are_no_mistake() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    with watched() as seen:
        train(model, sgd(model), steps=2)
        with torch.no_grad():
            model(batch(rows=20)[0])  # for its running statistics
            model.eval()
            functional.cross_entropy(model(batch()[0]), batch()[1])
    [phase] = phases(seen)
    assert (phase.forwards, phase.trains) == (2, False)


def test_the_same_input_given_again_is_noted() -> None:
    model = classifier()
    x, _ = batch()
    with watched() as seen:
        for again in (True, False):
            train(model, sgd(model), steps=1)
            with torch.no_grad():
                model(x)
                model(x if again else x.clone())
    assert [phase.repeated for phase in phases(seen)] == [True, False]


def test_the_last_evaluation_is_told_of_a_model_that_is_gone_with_its_function() -> None:
    def main() -> None:
        model = classifier()
        train(model, sgd(model), steps=2)
        with torch.no_grad():
            x, y = batch()
            functional.cross_entropy(model(x), y)

    with watched() as seen:
        main()
        gc.collect()
    [phase] = phases(seen)
    assert (phase.module, phase.forwards, phase.labelled) == ("Sequential", 1, 1)
    assert phase.trains
    [loss] = told(seen)
    assert loss.calls == 1


class Output(dict):
    """Output type of a library's models: a mapping whose items are attributes, too."""

    @property
    def loss(self) -> torch.Tensor:
        return self["loss"]


class Averaging(nn.Module):
    """Sums its loss and divides it by a given number."""

    def __init__(self) -> None:
        super().__init__()
        self.body = classifier()

    def forward(self, x: torch.Tensor, y: torch.Tensor, rows: int) -> Output:
        logits = self.body(x)
        total = functional.cross_entropy(logits, y, reduction="sum")
        return Output(loss=total / rows, logits=logits)


def test_the_loss_of_an_evaluation_is_what_the_model_returns_as_its_loss() -> None:
    model = Averaging()
    optimizer = sgd(model)
    x, y = batch(rows=10)
    with watched() as seen:
        for _ in range(2):
            optimizer.zero_grad()
            model(x, y, 10).loss.backward()
            optimizer.step()
        with torch.no_grad():
            own = float(model(x, y, 12).loss)  # a library counts labels before they are shifted out
        train(model.body, optimizer, steps=1)
    assert seen.scalars("loss", mode=Mode.EVAL) == [own]
    assert [one.value for one in told(seen)] == pytest.approx([own])


def test_models_that_no_one_trains_are_not_evaluated() -> None:
    model, teacher = classifier(), classifier(hidden=9)
    with watched() as seen:
        train(model, sgd(model), steps=1)
        with torch.no_grad():
            functional.cross_entropy(teacher(batch()[0]), batch()[1])
    assert told(seen) == []
    assert phases(seen) == []


def test_evaluations_at_every_step_are_told_now_and_then() -> None:
    model = classifier()
    optimizer = sgd(model)
    with watched() as seen:
        for _ in range(40):
            train(model, optimizer, steps=1)
            with torch.no_grad():
                model(batch()[0])
    assert [phase.number for phase in phases(seen)] == [*range(16), 16, 32]


def test_sites_without_end_are_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluated_losses, "MAX_SITES", 1)
    model = classifier()
    x, y = batch()
    with watched() as seen:
        train(model, sgd(model), steps=1)
        with torch.no_grad():
            functional.cross_entropy(model(x), y)
            functional.cross_entropy(model(x), y)
    assert len(told(seen)) == 1


def test_losses_of_a_watched_function_are_scalars_of_the_evaluation() -> None:
    model = classifier()
    with watched() as seen:
        train(model, sgd(model), steps=1)
        with torch.no_grad():
            own = functional.cross_entropy(model(batch()[0]), batch()[1]).item()
    assert seen.scalars("loss", mode=Mode.EVAL) == [own]


def test_evaluations_can_fail_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("planted")

    model = classifier()
    with watched(may_fail=True) as seen:
        monkeypatch.setattr(seen.tracer.forwards.evaluations, "root_called", fails)
        losses = train(model, sgd(model))
    assert seen.failed() == ["evaluations"]
    assert seen.scalars("loss") == losses


def test_losses_of_a_copy_are_those_of_an_evaluation() -> None:
    model, other = classifier(), nn.Sequential(nn.Linear(6, 3))
    copied = copy.deepcopy(model)
    x, y = batch()
    with watched() as seen:
        for _ in range(2):
            train(model, sgd(model), steps=2)
            with torch.no_grad():
                own = float(functional.cross_entropy(copied(x), y))
        train(model, sgd(model), steps=1)
        with torch.no_grad():
            functional.cross_entropy(other(x), y)
    assert [one.step for one in told(seen)] == [2, 4]
    assert [one.value for one in told(seen)] == pytest.approx([own, own])
    assert not phases(seen)


def test_a_teacher_is_no_evaluation() -> None:
    model = classifier()
    teacher, optimizer = copy.deepcopy(model), sgd(model)
    with watched() as seen:
        for _ in range(6):
            x, _ = batch()
            with torch.no_grad():
                target = teacher(x)
            optimizer.zero_grad()
            functional.mse_loss(model(x), target).backward()
            optimizer.step()
    assert not told(seen)


class Dropping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(functional.dropout(self.body(x).relu(), 0.5))


def test_a_dropout_function_without_the_mode_is_told_in_evaluation_mode() -> None:
    model = Dropping()
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(3):
            model.train()
            train(model, optimizer, 2)
            model.eval()
            with torch.no_grad():
                functional.cross_entropy(model(batch()[0]), batch()[1])
        train(model, optimizer, 1)
    phases = [one for one in seen.observed(EvaluationPhase) if isinstance(one, EvaluationPhase)]
    assert len(phases) == 3
    assert {one.dropping for one in phases} == {("Dropping",)}
    assert not any(one.trains for one in phases)
    assert all("test_evaluations.py" in (one.location or "") for one in phases)


def test_a_call_keeps_its_site_when_python_specializes_it() -> None:
    def note(values: list[int]) -> None:
        for _ in values:
            sites.append(evaluated_losses.user_site())

    def evaluate() -> int:
        return sum(note([value]) is None for value in (1, 2))

    sites: list[evaluated_losses.Site] = []
    for _ in range(40):
        evaluate()
    assert len(set(sites)) == 1
