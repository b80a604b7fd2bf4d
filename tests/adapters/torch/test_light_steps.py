"""Light steps: what they record of a training, and what is left to full steps."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from tests.adapters.torch.watched import DEFAULT, Seen, batch, classifier, sgd, watched
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mothtrap.capture import depths
from mothtrap.capture.depths import FIRST
from mothtrap.capture.selection import streams
from mothtrap.core.collections import Collection
from mothtrap.core.config import Config
from mothtrap.core.facts.captures import FullSteps
from mothtrap.core.facts.guards import StepGuarded
from mothtrap.core.facts.nonfinite import NonfiniteModule
from mothtrap.core.facts.samples import SamplesTaken
from mothtrap.core.measured import DIGEST
from mothtrap.core.needs import Need
from mothtrap.core.steps import Mode

OVERHEAD = 0.02
LIGHT = 75
"""A step that is light by its number, in jobs whose steps are as short as here."""
assert LIGHT > FIRST
assert LIGHT % 10 > 1


@pytest.fixture(autouse=True)
def _first_steps_are_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the first steps cheap: on a busy machine they may take too long and end early."""
    monkeypatch.setattr(depths, "FIRST_S", math.inf)


class Exponential(nn.Module):
    """Infinite for large numbers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (0.01 * x).exp()


def trained(
    seen_from: dict, steps: int = 90, bad: int | None = None, *, capture=DEFAULT, **kwargs
) -> tuple[Seen, list[float]]:
    """Train a small model; in step `bad` its second layer returns infinite numbers."""
    torch.manual_seed(0)
    model, losses = nn.Sequential(nn.Linear(6, 8), Exponential(), nn.Linear(8, 3)), []
    with watched(capture=capture, overhead=OVERHEAD, **kwargs) as seen:
        optimizer = sgd(model)
        for step in range(steps):
            x, y = batch()
            if step == bad:
                x[1] = 1e6
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            seen_from[step] = seen.tracer.light
    return seen, losses


def test_which_steps_are_full_is_told() -> None:
    light: dict[int, bool] = {}
    seen, _ = trained(light, 100)
    assert [step for step in light if step >= FIRST and not light[step]] == [70, 71, 80, 81, 90, 91]
    assert not any(light[step] for step in range(FIRST))
    assert [(fact.step, fact.every) for fact in seen.observed(FullSteps)] == [(FIRST, 10)]


def test_light_steps_have_losses_rates_times_and_gradient_norms() -> None:
    light: dict[int, bool] = {}
    seen, losses = trained(light)
    assert light[LIGHT]
    assert seen.scalars("loss") == losses
    for name in ("lr", "step_s", "own_s", "skipped", "micro_batches", "gradient_state"):
        assert len(seen.scalars(name)) == len(losses), name
    for name in ("0.weight", "0.bias", "2.weight", "2.bias"):
        norms = seen.rows(f"gradient:{name}", "l2")
        assert sorted(norms) == list(range(len(losses)))
        assert seen.rows(f"gradient:{name}", "nan")[LIGHT] == 0


def test_light_steps_have_no_digests_and_nothing_else_of_tensors() -> None:
    light: dict[int, bool] = {}
    seen, _losses = trained(light)
    with_digests = {
        record.key.step
        for record in seen.steps()
        if any(scalar.name == DIGEST for scalar in record.scalars)
    }
    assert with_digests == {step for step in light if not light[step]}
    for record in seen.steps():
        if light[record.key.step]:
            kinds = {seen.tensors[int(number)].kind for number in record.tensor_T}
            assert kinds == {"gradient"}


def test_a_batch_that_was_loaded_for_a_full_step_is_not_of_a_later_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loader = DataLoader(TensorDataset(torch.randn(320, 6), torch.arange(320) % 3), 8)
    model = classifier()
    with watched(capture=DEFAULT, overhead=OVERHEAD) as seen:
        optimizer = sgd(model)
        for step, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            if step == 25:  # from here on, first steps are too expensive to be full
                monkeypatch.setattr(depths, "FIRST_S", 0.0)
    digested = {
        record.key.step: [scalar.of for scalar in record.scalars if scalar.name == DIGEST]
        for record in seen.steps()
    }
    assert [step for step in digested if step > 20 and digested[step]] == [
        21,
        22,
        23,
        24,
        25,
        30,
        31,
    ]
    assert all(len(owners) == len(set(owners)) for owners in digested.values())


def test_with_digests_asked_for_every_step_is_full() -> None:
    light: dict[int, bool] = {}
    _seen, losses = trained(light, config=Config(digests=True))
    assert not any(light.values())
    assert len(losses) == 90


def test_steps_of_which_a_user_wants_values_are_full() -> None:
    hidden = Collection(tensors=("activations",), statistics=("mean",), every=7)
    asked = streams(Config(collections={"hidden": hidden}), [])
    light: dict[int, bool] = {}
    seen, _ = trained(light, capture=asked)
    assert set(seen.rows("activation:0", "mean")) <= set(range(0, 90, 7))
    assert [step for step in light if step >= FIRST and not light[step]] == sorted(
        {70, 71, 80, 81, *range(70, 90, 7)}
    )


def test_what_a_rule_wants_seldom_is_taken_at_the_next_full_step() -> None:
    [seldom] = streams(Config(), [Need(kinds=("weight",), statistics=("mean",), every=16)])
    # From step 100 on, the measured times determine the distance between full steps.
    seen, _ = trained({}, 100, capture=[replace(seldom, essential=True)])
    taken = sorted(seen.rows("weight:0.weight", "mean"))
    assert taken == [*range(8), 16, 32, 48, 70, 80]


@pytest.mark.parametrize("bad", [LIGHT, 80])
def test_the_onset_is_told_at_its_step_with_its_module(bad: int) -> None:
    light: dict[int, bool] = {}
    seen, losses = trained(light, bad=bad)
    assert light[bad] == (bad == LIGHT)
    assert [math.isfinite(loss) for loss in losses].index(False) == bad
    [found] = seen.observed(NonfiniteModule)
    assert (found.step, found.module) == (bad, "1")


def test_steps_after_the_onset_are_full() -> None:
    light: dict[int, bool] = {}
    trained(light, bad=LIGHT)
    assert not any(light[step] for step in range(LIGHT + 1, 90))


def test_a_bad_light_step_is_not_applied_where_it_is_to_be_skipped() -> None:
    light: dict[int, bool] = {}
    seen, losses = trained(light, bad=LIGHT, config=Config(on_nonfinite="skip"))
    assert light[LIGHT]
    assert [fact.step for fact in seen.observed(StepGuarded)] == [LIGHT]
    assert [step for step, loss in enumerate(losses) if not math.isfinite(loss)] == [LIGHT]
    assert [step for step, skipped in enumerate(seen.scalars("skipped")) if skipped] == [LIGHT]


def test_samples_of_every_step_are_known() -> None:
    light: dict[int, bool] = {}
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(40, 6), torch.arange(40) % 3)
    model, step = classifier(), 0
    with watched(capture=DEFAULT, overhead=OVERHEAD) as seen:
        optimizer = sgd(model)
        for _ in range(9):
            for x, y in DataLoader(data, batch_size=4, shuffle=True):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                light[step] = seen.tracer.light
                step += 1
    assert light[LIGHT]
    told = seen.observed(SamplesTaken)
    assert [fact.step for fact in told] == list(range(90))
    assert all(len(batch.indices) for fact in told for batch in fact.batches)


def test_evaluations_between_light_steps_are_watched_in_full() -> None:
    torch.manual_seed(0)
    model = classifier()
    with watched(capture=DEFAULT, overhead=OVERHEAD) as seen:
        optimizer = sgd(model)
        for step in range(90):
            x, y = batch()
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            if step == LIGHT:
                assert seen.tracer.light
                model.eval()
                with torch.no_grad():
                    expected = nn.functional.cross_entropy(model(x), y).item()
                model.train()

    assert seen.scalars("loss", mode=Mode.EVAL) == [expected]
