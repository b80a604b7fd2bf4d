from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import LoaderBegan
from mothtrap.core.facts.phases import PhasesTimed
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.phases import PHASES
from mothtrap.rules.waits_for_data import waits_for_data


def timed(number: int, data_s: float, idle: float, accelerator: bool = False) -> PhasesTimed:
    """100 steps of ten milliseconds, plus the time that they wait for data."""
    return PhasesTimed(
        step=100 * number + 99,
        first_step=100 * number,
        seconds=dict.fromkeys(PHASES, 0.0)
        | {"data": data_s, "forward": 0.4, "backward": 0.6, "mothtrap": 0.5},
        idle=idle,
        accelerator=accelerator,
    )


def check(
    *waits_s: float, idle: float = 0.5, workers: int = 0, accelerator: bool = False
) -> list[Finding]:
    loader = LoaderBegan(
        step=0, loader="train", sampler="shuffled", workers=workers, location="train.py:12"
    )
    facts = [timed(n, wait, idle, accelerator) for n, wait in enumerate(waits_s)]
    return waits_for_data().check(window(loader, *facts))


def test_names_the_loader_and_how_many_workers_would_keep_up() -> None:
    [finding] = check(0.0, 1.5, 1.5, 1.5)
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:12")
    assert (finding.step, finding.last_step) == (100, 399)
    assert finding.message == (
        "training waits for data 60 % of the time: 15 ms of 25 ms per step; "
        "`train` has 0 worker processes"
    )
    assert (
        finding.fixes[0] == "Give `train` `num_workers=2`, so that loading keeps up with training."
    )


def test_more_workers_are_asked_for_where_two_are_too_few() -> None:
    [finding] = check(0.0, 1.0, 1.0, 1.0, workers=2)
    assert (
        finding.fixes[0] == "Give `train` `num_workers=4`, so that loading keeps up with training."
    )


@pytest.mark.parametrize(
    ("waits_s", "idle"),
    [((0.0, 0.3, 0.3, 0.3), 0.5), ((0.0, 1.5, 0.1, 1.5), 0.5), ((0.0, 1.5, 1.5, 1.5), 0.1)],
    ids=["a little", "now and then", "the machine is busy"],
)
def test_stays_quiet(waits_s: tuple[float, ...], idle: float) -> None:
    assert check(*waits_s, idle=idle) == []


def test_the_first_observation_does_not_count() -> None:
    with pytest.raises(NotEnoughData):
        check(1.5, 1.5, 1.5)


def test_an_accelerator_may_be_what_is_waited_for() -> None:
    with pytest.raises(NotApplicable):
        check(0.0, 1.5, 1.5, 1.5, accelerator=True)
