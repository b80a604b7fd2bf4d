from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from tests.rules.windows import LOSS, loss, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import BatchesLoaded, LoaderBegan
from mothtrap.core.facts.losses import LossCall, TargetSample
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.memorized_rows import MemorizedRows

CALL = LossCall(
    step=0, operation="cross_entropy", series=LOSS, classes=4, label_counts=(8, 8, 8, 8)
)
GUESS = math.log(4)
LENGTH = 20


def losses(*, first: float = 1.02, fall: float = 0.03, rise: float = 0.05, passes: int = 12):
    """Losses that change by steps between passes and by a line within them, with noise."""
    place_P = np.linspace(-0.5, 0.5, LENGTH)
    noise_KP = 0.02 * np.random.default_rng(0).normal(size=(passes, LENGTH))
    level_K1 = first - fall * np.arange(passes)[:, None]
    return GUESS * (level_K1 + rise * place_P + noise_KP).reshape(-1)


def check(
    values: np.ndarray, *, sampler: str = "shuffled", batches: int = LENGTH, call: LossCall = CALL
) -> list[Finding]:
    given = {"loader": "loader", "sampler": sampler, "workers": 0}
    began = LoaderBegan(step=0, batches=batches, samples=640, **given)
    ended = BatchesLoaded(
        step=batches, pass_number=1, batches=batches, repeated=0, ended=True, **given
    )
    return MemorizedRows().check(window(loss(values), began, ended, call))


def test_a_loss_that_falls_between_passes_and_rises_within_them() -> None:
    [finding] = check(losses())
    assert (finding.severity, finding.step) == (Severity.WARNING, 0)
    assert "no better than guessing (1.386)" in finding.message
    assert "does each label match its input" in finding.fixes[0]


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(losses(first=0.97), id="the first pass helped"),
        pytest.param(losses(rise=-0.03), id="the loss falls within passes, too"),
        pytest.param(losses(rise=0.0), id="it is flat within passes"),
        pytest.param(losses(first=1.6, fall=0.03), id="the loss has another scale"),
        pytest.param(losses(fall=0.0), id="it does not fall"),
        pytest.param(losses(fall=0.3, passes=8), id="it soon falls far"),
    ],
)
def test_stays_quiet(values: np.ndarray) -> None:
    assert check(values) == []


def test_a_new_loader_for_each_pass_is_the_same_loader() -> None:
    facts = []
    for number in range(3):
        given = {"loader": f"loader {number}", "sampler": "shuffled", "workers": 0}
        facts += [
            LoaderBegan(step=LENGTH * number, batches=LENGTH, samples=640, **given),
            BatchesLoaded(
                step=LENGTH * (number + 1),
                pass_number=1,
                batches=LENGTH,
                repeated=0,
                ended=True,
                **given,
            ),
        ]
    assert len(MemorizedRows().check(window(loss(losses()), CALL, *facts))) == 1


def test_needs_passes_in_random_order() -> None:
    with pytest.raises(NotEnoughData):
        check(losses(passes=5))
    with pytest.raises(NotApplicable):
        check(losses(), sampler="sequential")
    with pytest.raises(NotApplicable):
        check(losses(), batches=10)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"alone": False}, id="another term"),
        pytest.param(
            {"targets": TargetSample(dtype="int64", count=32, weighted=True)}, id="class weights"
        ),
    ],
)
def test_the_loss_of_guessing_is_that_of_a_plain_class_loss(changes: dict[str, object]) -> None:
    with pytest.raises(NotApplicable):
        check(losses(), call=msgspec.structs.replace(CALL, **changes))
