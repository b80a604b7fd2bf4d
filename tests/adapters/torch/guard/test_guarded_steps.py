"""An unsound step leaves no effect, whatever the optimizer; everything else is unchanged."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.guard.guarded_loops import (
    BAD,
    LOOPS,
    STEPS,
    ClosureTwice,
    Trained,
    batch,
    finite,
    network,
    same,
    skipped,
)
from tests.adapters.torch.watched import watched
from torch import nn, optim

from mothtrap.core.config import Config
from mothtrap.core.facts.captures import SettingIgnored
from mothtrap.core.facts.guards import StepGuarded

SKIP = Config(on_nonfinite="skip")


@pytest.mark.parametrize("name", LOOPS)
def test_a_bad_step_leaves_weights_and_state_as_if_it_had_not_been(name: str) -> None:
    with watched(config=SKIP) as seen:
        guarded = LOOPS[name](False)
    twin = LOOPS[name](True)
    assert finite(guarded)
    assert same(guarded, twin)
    assert skipped(seen) == list(BAD)
    assert len(seen.steps()) == STEPS
    assert not seen.observed(SettingIgnored)


@pytest.mark.parametrize("name", ["adam", "lbfgs", "muon and adamw"])
def test_without_the_guard_the_same_loops_are_spoilt(name: str) -> None:
    assert not finite(LOOPS[name](False))


@pytest.mark.parametrize("name", ["adam", "lbfgs", "sam", "muon and adamw", "accumulation"])
def test_reporting_changes_nothing(name: str) -> None:
    with watched(config=Config()) as seen:
        reported = LOOPS[name](False)
    alone = LOOPS[name](False)
    assert all(
        torch.equal(a.nan_to_num(7), b.nan_to_num(7))
        for a, b in zip(reported.model.parameters(), alone.model.parameters(), strict=True)
    )
    assert not seen.observed(StepGuarded)
    assert not any(record.skipped for record in seen.steps())


def test_what_only_the_second_evaluation_of_a_closure_shows_is_undone() -> None:
    def loop(twin: bool) -> Trained:
        model = network()
        optimizer = ClosureTwice(list(model.parameters()))
        for step in range(STEPS):
            x, y = batch(False)
            if twin and step in BAD:
                continue
            evaluations = []

            def evaluate() -> torch.Tensor:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)  # noqa: B023
                if step in BAD and evaluations:  # noqa: B023
                    loss = loss * math.nan
                evaluations.append(loss)  # noqa: B023
                loss.backward()
                return loss

            optimizer.step(evaluate)
        return Trained(model, optimizer)

    with watched(config=SKIP) as seen:
        guarded = loop(False)
    assert same(guarded, loop(True))
    assert skipped(seen) == list(BAD)


def test_optimizers_in_the_backward_undo_what_they_applied_before_the_fault_showed() -> None:
    def loop(twin: bool) -> Trained:
        model = network()
        own = {p: optim.Adam([p], lr=0.01) for p in model.parameters()}

        def apply(parameter: torch.Tensor) -> None:
            if bad and parameter is model[0].weight:  # reached after others were applied
                parameter.grad[0, 0] = math.nan  # type: ignore[index]
            own[parameter].step()  # type: ignore[index]
            own[parameter].zero_grad()  # type: ignore[index]

        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(apply)
        for step in range(STEPS):
            x, y = batch(False)
            bad = step in BAD
            if not (twin and bad):
                nn.functional.cross_entropy(model(x), y).backward()
        return Trained(model, *own.values())

    with watched(config=SKIP) as seen:
        guarded = loop(False)
    assert same(guarded, loop(True))
    assert skipped(seen) == list(BAD)


@pytest.mark.filterwarnings("error")
def test_a_scheduler_counts_on_and_does_not_complain() -> None:
    model = network()
    with watched(config=SKIP) as seen:
        optimizer = optim.SGD(model.parameters(), lr=1.0)
        scheduler = optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        for step in range(3):
            x, y = batch(step == 0)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            scheduler.step()
    assert skipped(seen) == [0]
    assert optimizer.param_groups[0]["lr"] == 0.125


def test_what_a_hook_of_the_optimizer_repairs_is_sound() -> None:
    def repair(optimizer: optim.Optimizer, *_: object) -> None:
        for p in optimizer.param_groups[0]["params"]:
            p.grad.nan_to_num_(0.0)

    model = network()
    with watched(config=SKIP) as seen:
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        optimizer.register_step_pre_hook(repair)
        applied: list[int] = []
        optimizer.register_step_post_hook(lambda *_: applied.append(1))
        for broken in (False, True, False):
            nn.functional.cross_entropy(model(batch(False)[0]), batch(False)[1]).backward()
            if broken:
                model[0].weight.grad[0, 0] = math.nan
            optimizer.step()
            optimizer.zero_grad()
    assert skipped(seen) == []
    assert len(applied) == 3


def test_hooks_after_a_step_that_was_not_made_do_not_run() -> None:
    model = network()
    with watched(config=SKIP):
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        applied: list[int] = []
        optimizer.register_step_post_hook(lambda *_: applied.append(1))
        for step in range(3):
            x, y = batch(step == 1)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            assert optimizer.step() is None
        assert not optimizer._optimizer_step_pre_hooks
    assert len(applied) == 2


def test_mothtrap_watch_guards_the_optimizer_it_was_given_and_gives_its_step_back() -> None:
    model, other = network(), network()
    optimizer, alone = optim.SGD(model.parameters(), lr=0.1), optim.SGD(other.parameters(), lr=0.1)
    scheduler = optim.lr_scheduler.StepLR(optimizer, 1)
    own = vars(optimizer)["step"]
    with watched(model, optimizer, config=SKIP) as seen, warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in range(3):
            x, y = batch(step == 1)
            for net, each in ((model, optimizer), (other, alone)):
                each.zero_grad()
                nn.functional.cross_entropy(net(x), y).backward()
                each.step()
            scheduler.step()
    assert skipped(seen) == [1]
    assert finite(Trained(model))
    assert not finite(Trained(other))
    assert vars(optimizer)["step"] is own


class Waiting(optim.SGD):
    """Does not end a step until it is allowed to."""

    entered: threading.Event
    let: threading.Event

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        self.entered.set()
        assert self.let.wait(30)
        super().step(closure)


def test_a_step_in_another_thread_is_applied_as_it_is_and_told() -> None:
    model, other = network(), network()
    ended: list[object] = []
    with watched(config=SKIP, may_fail=True) as seen:
        waiting = Waiting(other.parameters(), lr=0.1)
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        waiting.entered, waiting.let = threading.Event(), threading.Event()
        for net in (model, other):
            nn.functional.cross_entropy(net(batch(False)[0]), batch(False)[1]).backward()
        other[0].weight.grad[0, 0] = math.nan

        def train() -> None:
            ended.append(waiting.step())

        optimizer.step()
        beside = threading.Thread(target=train)
        beside.start()
        assert waiting.entered.wait(30)
        optimizer.step()  # while the other one is inside its own
        waiting.let.set()
        beside.join(30)
        model[0].weight.grad[0, 0] = math.nan
        optimizer.step()
    assert ended == [None]
    assert not finite(Trained(other))
    assert finite(Trained(model))
    assert seen.blind().count("whether steps in other threads are bad") == 1


def test_an_unobserved_step_is_counted_once() -> None:
    model, other = network(), network()
    missed: list[int] = []
    with watched(config=SKIP) as seen:
        optimizer, theirs = (optim.SGD(m.parameters(), lr=0.1) for m in (model, other))

        def train() -> None:
            for _ in range(5):
                theirs.step()
            missed.append(seen.tracer.training_thread._here.missed)

        optimizer.step()
        beside, done = threading.Thread(target=train), threading.Event()
        beside.start()
        while beside.is_alive():  # not `join`: a thread that is joined may be observed
            done.wait(0.001)
    assert missed == [5]


def test_a_thread_that_trains_when_the_first_one_has_ended_is_guarded() -> None:
    model = network()
    with watched(config=SKIP, may_fail=True) as seen:
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def train(bad: bool) -> None:
            nn.functional.cross_entropy(model(batch(False)[0]), batch(False)[1]).backward()
            if bad:
                model[0].weight.grad[0, 0] = math.nan
            optimizer.step()
            optimizer.zero_grad()

        for bad in (False, True):
            thread = threading.Thread(target=train, args=(bad,))
            thread.start()
            thread.join(30)
    assert finite(Trained(model))
    assert seen.blind().count("whether steps in other threads are bad") == 0


def test_classes_are_as_before_when_watching_ends() -> None:
    before = optim.SGD.step
    with watched(config=SKIP):
        optim.SGD(network().parameters(), lr=0.1)
        assert optim.SGD.step is not before
    assert optim.SGD.step is before


OF_TORCH = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def by_script(model: nn.Module, _: optim.Optimizer) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.01 * parameter.grad


def compiled(_: nn.Module, optimizer: optim.Optimizer) -> None:
    torch.compile(optimizer.step, backend="eager")()


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        (by_script, "updates the weights itself"),
        pytest.param(compiled, "is compiled", marks=[pytest.mark.full, OF_TORCH]),
    ],
)
def test_steps_that_cannot_be_left_out_are_said_to_be_applied(
    update: Callable[[nn.Module, optim.Optimizer], None], reason: str
) -> None:
    with watched(config=SKIP) as seen:
        model = network()
        optimizer = optim.SGD(model.parameters() if update is compiled else [torch.ones(1)])
        for _ in range(5):
            x, y = batch(False)
            model.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            update(model, optimizer)
    [ignored] = seen.observed(SettingIgnored)
    assert ignored.setting == "on_nonfinite = skip"
    assert reason in ignored.reason
