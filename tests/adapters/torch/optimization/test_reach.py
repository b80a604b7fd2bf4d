from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, sgd, train, watched
from torch import nn
from torch.nn import functional

from mothtrap.adapters.torch.optimization.reach import REPORTED_AT
from mothtrap.core.facts.modules import UnreachedModule
from mothtrap.core.facts.optimizers import IdleOptimizer

STEPS = REPORTED_AT[1]


class Net(nn.Module):
    """An encoder and a head; `cut` is applied between them."""

    def __init__(self, cut: str = "") -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 8))
        self.head = nn.Linear(8, 3)
        self.extra = nn.Linear(8, 3)
        self.cut = cut

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.cut == "no_grad":
            with torch.no_grad():
                z = self.encoder(x)
        else:
            z = self.encoder(x)
        if self.cut == "detach":
            z = z.detach()
        if self.cut == "copy":
            z = torch.tensor(z.tolist())
        if self.cut == "side":
            self.side = self.extra(z)
        return self.head(z)


def learn(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = STEPS) -> None:
    for _ in range(steps):
        x, y = batch()
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def unreached(act: Callable[[], None]) -> dict[str, UnreachedModule]:
    """Return the last report about every module."""
    with watched() as seen:
        act()
    return {told.module: told for told in seen.observed(UnreachedModule)}


def of_cut(cut: str) -> dict[str, UnreachedModule]:
    def act() -> None:
        model = Net(cut)
        learn(model, sgd(model))

    return unreached(act)


def test_what_runs_without_a_graph_is_told() -> None:
    told = of_cut("no_grad")
    assert set(told) == {"encoder.0", "encoder.2", "extra"}
    first = told["encoder.0"]
    assert first.parameters == ("encoder.0.weight", "encoder.0.bias")
    assert (first.own_steps, first.runs) == (STEPS, STEPS - 2)
    assert first.runs_without_graph == first.runs
    assert first.upstream
    assert first.untouched
    assert not first.changed
    assert 0 < first.share < 1
    assert "test_reach.py" in str(first.location)


def test_a_detached_output_is_told_with_the_module_that_gets_it() -> None:
    told = of_cut("detach")
    assert told["encoder.2"].detached_before == "head"
    assert told["encoder.2"].upstream
    assert told["encoder.2"].runs > 0
    assert told["encoder.2"].runs_without_graph == 0


def test_values_that_went_through_python_leave_their_module_upstream() -> None:
    told = of_cut("copy")
    assert told["encoder.0"].detached_before is None
    assert told["encoder.0"].upstream


def test_a_module_never_called_and_one_whose_output_goes_nowhere_are_told_apart() -> None:
    assert set(of_cut("")) == {"extra"}
    assert of_cut("")["extra"].runs == 0
    aside = of_cut("side")["extra"]
    assert aside.runs > 0
    assert not aside.upstream


def test_a_model_that_trains_has_nothing_to_tell_and_is_not_looked_at() -> None:
    with watched() as seen:
        model = classifier()
        train(model, sgd(model), STEPS)
        assert not seen.tracer.forwards.reach.looks
    assert seen.observed(UnreachedModule) == []


def test_zero_is_a_gradient() -> None:
    def act() -> None:
        model = classifier()
        optimizer = sgd(model)
        for _ in range(STEPS):
            optimizer.zero_grad()
            (model(batch()[0]).sum() * 0).backward()
            optimizer.step()

    assert unreached(act) == {}


def test_what_is_reached_later_is_taken_back() -> None:
    def act() -> None:
        model = Net("no_grad")
        optimizer = sgd(model)
        learn(model, optimizer)
        model.cut = ""
        learn(model, optimizer, 3)

    told = unreached(act)
    assert told["encoder.0"].own_steps == 0
    assert told["extra"].own_steps == STEPS


def test_values_that_another_changes_are_said_to_change() -> None:
    def act() -> None:
        model = Net("no_grad")
        optimizer = sgd(model)
        for _ in range(STEPS):
            learn(model, optimizer, 1)
            with torch.no_grad():
                model.encoder[0].weight.mul_(0.99)

    told = unreached(act)
    assert told["encoder.0"].changed
    assert not told["encoder.2"].changed


@pytest.mark.filterwarnings("ignore:None of the inputs")
def test_a_reentrant_segment_whose_inputs_need_no_gradient_is_told() -> None:
    class Checkpointed(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(torch.utils.checkpoint.checkpoint(self.encoder, x, use_reentrant=True))

    def act() -> None:
        model = Checkpointed("")
        learn(model, sgd(model))

    first = unreached(act)["encoder.0"]
    assert first.runs_in_checkpoint == first.runs == STEPS - 2


@pytest.mark.filterwarnings("ignore:torch.utils.checkpoint")
@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpointed_segment_makes_a_graph(reentrant: bool) -> None:
    class Checkpointed(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.requires_grad_()
            z = torch.utils.checkpoint.checkpoint(self.encoder, x, use_reentrant=reentrant)
            return self.head(z.detach() if self.cut else z)

    def act() -> None:
        model = Checkpointed("detach")
        learn(model, sgd(model))

    told = unreached(act)
    assert told["encoder.0"].runs > 0
    assert told["encoder.0"].runs_without_graph == 0


def test_calls_in_an_evaluation_are_counted_apart() -> None:
    def act() -> None:
        model = Net()
        optimizer = sgd(model)
        for _ in range(STEPS):
            learn(model, optimizer, 1)
            with torch.no_grad():
                model.extra(torch.randn(2, 8))

    extra = unreached(act)["extra"]
    assert extra.runs == 0
    assert extra.runs_in_evaluation > 10


def test_hidden_calls_are_said_to_be_hidden() -> None:
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    frozen = nn.Linear(8, 3)
    optimizer = torch.optim.SGD([*model.parameters(), *frozen.parameters()], lr=0.1)
    with watched(model, optimizer) as seen:
        for _ in range(STEPS):
            optimizer.zero_grad()
            with torch.no_grad():
                z = model(torch.randn(2, 3, 8))
            frozen(z).sum().backward()
            optimizer.step()
    told = seen.observed(UnreachedModule)
    assert told
    assert not any(found.calls_are_seen for found in told)


def test_an_optimizer_of_another_model_finds_its_twin() -> None:
    with watched() as seen:
        optimizer = sgd(Net())
        model = Net()
        learn(model, optimizer, REPORTED_AT[0])
    [idle] = seen.observed(IdleOptimizer)
    assert (idle.optimizer, idle.own_steps, idle.parameters) == ("SGD", REPORTED_AT[0], 8)
    assert (idle.twins, idle.twin) == (6, "encoder.0.weight")
    assert "test_reach.py" in str(idle.location)
    assert seen.observed(UnreachedModule) == []


def test_an_optimizer_whose_gradients_come_late_is_taken_back() -> None:
    with watched() as seen:
        model = classifier()
        optimizer = sgd(model)
        for _ in range(REPORTED_AT[0]):
            optimizer.step()
        train(model, optimizer, 2)
    assert [idle.own_steps for idle in seen.observed(IdleOptimizer)] == [REPORTED_AT[0], 0]


def test_a_player_whose_turn_comes_rarely_is_not_idle() -> None:
    with watched() as seen:
        model = Net()
        often = sgd(model.head)
        rarely = torch.optim.SGD([*model.encoder.parameters(), *model.extra.parameters()], lr=0.1)
        for step in range(STEPS):
            x, y = batch()
            functional.cross_entropy(model(x), y).backward()
            often.step()
            if step % 4 == 0:
                rarely.step()
            often.zero_grad()
            rarely.zero_grad()
    assert seen.observed(IdleOptimizer) == []
    assert {told.module for told in seen.observed(UnreachedModule)} == {"extra"}


class TwoHeads(nn.Module):
    """Two heads; it returns the outputs of both, or of the first one only."""

    def __init__(self, returned: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 3), nn.Linear(6, 3)
        self.returned = returned

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        first, second = self.first(x), self.second(x)
        return {"first": first, "second": second} if self.returned else {"first": first}


@pytest.mark.parametrize("returned", [False, True])
def test_a_part_that_the_model_returns_is_told(returned: bool) -> None:
    def act() -> None:
        model = TwoHeads(returned)
        optimizer = sgd(model)
        for _ in range(STEPS):
            x, y = batch()
            optimizer.zero_grad()
            functional.cross_entropy(model(x)["first"], y).backward()
            optimizer.step()

    assert unreached(act)["second"].given_out is returned


def test_a_layer_that_a_transformer_has_copied_is_not_told() -> None:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True)
            self.stack = nn.TransformerEncoder(self.layer, 2)
            self.head, self.extra = nn.Linear(6, 3), nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.stack(x[:, None])[:, 0])

    def act() -> None:
        model = Encoder()
        learn(model, sgd(model))

    assert set(unreached(act)) == {"extra"}
