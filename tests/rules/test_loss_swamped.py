from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from msgspec import structs
from tests.rules.classified import classified
from tests.rules.epochs import epochs
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.epochs import EpochMetrics
from mothtrap.core.findings import Severity
from mothtrap.core.window import Window
from mothtrap.rules.loss_swamped import LossSwamped
from mothtrap.testing import RuleTests

FALLS = 1e5 * 0.7 ** np.arange(9)
STAYS = np.linspace(0.69, 0.68, 9)
GUESSED = classified([[25, 25], [25, 25]])


def told(
    small: Sequence[float] | np.ndarray = STAYS,
    large: Sequence[float] | np.ndarray = FALLS,
    weights: tuple[float, float] = (1.0, 1.0),
) -> list[EpochMetrics]:
    """Epochs of a model with two outputs."""
    total = weights[0] * np.asarray(small) + weights[1] * np.asarray(large)
    seen = epochs({"loss": total, "kind_loss": small, "price_loss": large})
    outputs = ("kind_loss", "price_loss")
    return [structs.replace(one, output_losses=outputs) for one in seen]


class TestLossSwamped(RuleTests):
    rule = LossSwamped

    def sick(self) -> Iterable[Window]:
        yield window(*told(), *GUESSED)

    def healthy(self) -> Iterable[Window]:
        yield window(*told(small=0.69 * 0.8 ** np.arange(9)))
        yield window(*told(large=3 * 0.7 ** np.arange(9)))
        yield window(*told(weights=(1.0, 1e-4)))
        yield window(*told(large=np.full(9, 1e5)))
        yield window(*told(small=np.append(STAYS[:8], np.nan)))


def test_both_losses_are_named() -> None:
    [finding] = LossSwamped().check(window(*told(), *GUESSED))
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:9")
    assert finding.message.startswith("kind_loss was 0.69 and is 0.68, 0.00012 of the total")


def test_what_may_have_been_learned_in_the_first_epoch_is_a_note() -> None:
    [finding] = LossSwamped().check(window(*told(small=0.02 * STAYS), *GUESSED))
    assert finding.severity is Severity.INFO
    [finding] = LossSwamped().check(window(*told()))
    assert finding.severity is Severity.INFO


def test_an_output_whose_loss_is_always_0_hides_no_other() -> None:
    seen = [
        structs.replace(
            one,
            values={"a_loss": 0.0, **one.values},
            output_losses=("a_loss", *one.output_losses),
        )
        for one in told()
    ]
    [finding] = LossSwamped().check(window(*seen, *GUESSED))
    assert finding.message.startswith("kind_loss")


def test_metrics_that_are_no_losses_of_outputs_do_not_count() -> None:
    with pytest.raises(NotApplicable, match="several outputs"):
        LossSwamped().check(window(*epochs({"loss": FALLS, "kl_loss": STAYS, "mse_loss": FALLS})))


def test_few_epochs_are_not_judged() -> None:
    with pytest.raises(NotEnoughData, match="fewer than 3 epochs"):
        LossSwamped().check(window(*told()[:2]))
