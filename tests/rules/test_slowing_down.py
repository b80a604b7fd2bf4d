from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.phases import PhasesTimed
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.phases import PHASES
from mothtrap.rules.slowing_down import slowing_down

COUNT = 17


def timed(number: int, phase: str, more_s: float, idle: float) -> PhasesTimed:
    """100 steps of ten milliseconds, plus the extra time of a phase."""
    seconds = dict.fromkeys(PHASES, 0.0) | {"forward": 0.3, "backward": 0.5, "other": 0.2}
    seconds[phase] += more_s
    return PhasesTimed(step=100 * number + 99, first_step=100 * number, seconds=seconds, idle=idle)


def check(more_s: Sequence[float], phase: str = "other", idle: float = 0.5) -> list[Finding]:
    facts = [timed(number, phase, each, idle) for number, each in enumerate(more_s)]
    return slowing_down().check(window(*facts))


GROWING = np.linspace(0, 0.8, COUNT)


def test_names_the_growth_and_its_phase() -> None:
    [finding] = check(GROWING)
    assert finding.severity is Severity.WARNING
    assert (finding.step, finding.last_step) == (500, 1699)
    assert finding.message == (
        "a step takes 53 % longer than at first: 17.2 ms instead of 11.2 ms before step 500; "
        "100 % of the increase is in the script's code between the steps"
    )


def test_a_longer_forward_pass_is_a_note() -> None:
    [finding] = check(GROWING, "forward")
    assert finding.severity is Severity.INFO
    assert finding.message.endswith("100 % of the increase is in the forward pass")


@pytest.mark.parametrize(
    ("more_s", "phase", "idle"),
    [
        (GROWING, "other", 0.1),
        (GROWING, "evaluation", 0.5),
        (GROWING, "save", 0.5),
        (GROWING, "mothtrap", 0.5),
        (GROWING / 8, "other", 0.5),
        (GROWING[::-1], "other", 0.5),
        ([0.0] * 12 + [0.8] * 5, "other", 0.5),
        ([0.0] * 8 + [0.8] * 4 + [0.0] * 5, "other", 0.5),
        (np.random.default_rng(0).uniform(0, 0.8, COUNT), "other", 0.5),
        ([*GROWING[:13], 0.0, 0.9, 0.0, 0.9], "other", 0.5),
    ],
    ids=[
        "the machine is busy",
        "evaluations",
        "checkpoints",
        "mothtrap",
        "a little",
        "faster",
        "once",
        "for a while",
        "varying",
        "varies more than it grows",
    ],
)
def test_stays_quiet(more_s: Sequence[float], phase: str, idle: float) -> None:
    assert check(more_s, phase, idle) == []


def test_the_first_observation_does_not_count() -> None:
    assert check([9.0, *[0.0] * (COUNT - 1)]) == []
    with pytest.raises(NotEnoughData):
        check(GROWING[:12])
