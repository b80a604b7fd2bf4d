from __future__ import annotations

import pytest
from tests.rules.windows import series, window

from mothtrap.core.errors import NotApplicable
from mothtrap.core.fact import Fact
from mothtrap.core.facts.workers import OptimizersNotRestored, Resumed
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.optimizer_not_restored import optimizer_not_restored


def check(*facts: Fact) -> list[Finding]:
    return optimizer_not_restored().check(window(*facts))


def resumed(step: int) -> Resumed:
    return Resumed(step=step, evidence="its weights", loaded=True)


def test_a_new_optimizer_for_old_weights_is_a_note() -> None:
    [finding] = check(resumed(500), OptimizersNotRestored(step=500, optimizers=("AdamW",)))
    assert (finding.severity, finding.step) == (Severity.INFO, 500)
    assert finding.message.startswith(
        "the job loaded the weights of step 500, but not the averages that AdamW had"
    )
    assert "optimizer.load_state_dict" in finding.fixes[0]


def test_stays_quiet() -> None:
    assert check(resumed(500)) == []
    assert check(resumed(5), OptimizersNotRestored(step=5, optimizers=("AdamW",))) == []


def test_applies_to_restarted_jobs() -> None:
    with pytest.raises(NotApplicable, match="was not restarted"):
        check()


WARM_UP = tuple(1e-5 * (step + 1) for step in range(16))


def rates(
    after: list[float], first: tuple[float, ...], last: float, step: int = 300
) -> list[Finding]:
    one = Resumed(
        step=step,
        evidence="",
        loaded=True,
        first_rates={"AdamW": first},
        last_rates={"AdamW": last},
    )
    steps = list(range(step, step + len(after)))
    return optimizer_not_restored().check(window(one, series("lr", after, of="AdamW", steps=steps)))


def test_a_warm_up_that_begins_again() -> None:
    [finding] = rates([6e-4, *WARM_UP[1:]], WARM_UP, 6e-4)
    assert (finding.severity, finding.step) == (Severity.WARNING, 300)
    assert "begins again at 1e-05, as at step 0, with a warm-up" in finding.message
    assert "scheduler.load_state_dict" in finding.fixes[0]


def test_a_rate_that_goes_back_to_its_first_value_is_a_note() -> None:
    [finding] = rates([1e-3] * 16, (1e-3,) * 16, 2.5e-4)
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    ("after", "first", "last"),
    [
        ([6e-4, *[5.9e-4] * 15], WARM_UP, 6e-4),
        ([1e-3] * 16, (1e-3,) * 16, 1e-3),
        (list(WARM_UP[:4]), WARM_UP, 6e-4),
        ([6e-4, *WARM_UP[1:]], (), 6e-4),
    ],
    ids=["goes on", "constant", "few", "unknown"],
)
def test_rates_that_go_on(after: list[float], first: tuple[float, ...], last: float) -> None:
    assert rates(after, first, last) == []
