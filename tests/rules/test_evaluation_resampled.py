from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.fact import Fact
from mothtrap.core.facts.data import BatchesLoaded, LoaderBegan
from mothtrap.core.facts.evaluations import EvaluationPhase
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.steps import Mode
from mothtrap.rules.evaluation_resampled import evaluation_resampled

EPOCHS = (18, 36, 54)


def loader(sampler: str = "with_replacement", *, batches: int = 7) -> LoaderBegan:
    return LoaderBegan(
        step=17,
        loader="loader 2",
        sampler=sampler,
        samples=200,
        batch_size=32,
        batches=batches,
        location="train.py:35",
    )


def passed(step: int, name: str = "loader 2", *, trained: bool = False) -> BatchesLoaded:
    return BatchesLoaded(
        step=step,
        loader=name,
        sampler="with_replacement",
        workers=0,
        pass_number=1,
        batches=7,
        repeated=0,
        ended=True,
        trained=trained,
    )


def phase(step: int, forwards: int = 7, *, trains: bool = False) -> EvaluationPhase:
    return EvaluationPhase(
        step=step,
        mode=Mode.EVAL,
        module="Net",
        module_type="Net",
        forwards=forwards,
        trains=trains,
        number=0,
        steps=18,
    )


TRAINED = passed(17, "loader 1", trained=True)
EVALUATED = (*map(passed, EPOCHS), *map(phase, EPOCHS))


def check(*facts: Fact) -> list[Finding]:
    return evaluation_resampled().check(window(*facts, steps=60))


@pytest.mark.parametrize("batches", [6, 7], ids=["drop_last", "all"])
def test_a_validation_loader_that_draws_with_replacement(batches: int) -> None:
    [finding] = check(loader(batches=batches), TRAINED, *EVALUATED)
    assert (finding.severity, finding.step) == (Severity.WARNING, 18)
    assert (finding.last_step, finding.count) == (54, 3)
    assert finding.location == "train.py:35"
    assert "200 of 200 rows with replacement" in finding.message


@pytest.mark.parametrize(
    "facts",
    [
        (loader("shuffled"), *EVALUATED),
        (loader(batches=2), *EVALUATED),
        (loader(batches=20), *EVALUATED),
        (loader(), passed(18), phase(18)),
        (loader(), *map(passed, EPOCHS)),
        (loader(), *map(passed, EPOCHS), *(phase(s, forwards=3) for s in EPOCHS)),
        (loader(), *map(passed, EPOCHS), *(phase(s, trains=True) for s in EPOCHS)),
        (loader(), *map(passed, EPOCHS), *map(passed, EPOCHS), *(phase(s, 14) for s in EPOCHS)),
    ],
    ids=["once", "part", "more", "single", "unevaluated", "few", "trains", "bootstrap"],
)
def test_stays_quiet(facts: tuple[Fact, ...]) -> None:
    assert check(TRAINED, *facts) == []


def test_training_loaders_are_not_judged() -> None:
    with pytest.raises(NotApplicable):
        check(loader(), *EVALUATED[3:], *(passed(s, trained=True) for s in EPOCHS))
    with pytest.raises(NotApplicable):  # before training, it was evaluated
        check(loader(), passed(0), phase(0), *(passed(s, trained=True) for s in EPOCHS))


def test_waits_for_training() -> None:
    with pytest.raises(NotEnoughData):
        check(loader(), *EVALUATED)
