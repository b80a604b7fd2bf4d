from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.rules.windows import LOSS, series, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.fact import Fact
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.facts.trainers import SummedGradients, TrainerSettings, UndividedLoss
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Series
from mothtrap.rules.accumulation_not_averaged import AccumulationNotAveraged

N = 30


def check(
    micro_batches: np.ndarray | int = 4,
    *others: Fact | Series,
    optimizer: str = "SGD",
    calls: int = 1,
    **more: Any,
) -> list[Finding]:
    facts: dict[str, Any] = {
        "operation": "cross_entropy",
        "series": LOSS,
        "reduction": "mean",
        "above": (),
        "location": LOSS,
    }
    counts = np.broadcast_to(micro_batches, N)
    return AccumulationNotAveraged().check(
        window(
            series("micro_batches", counts, of=""),
            series("lr", np.full(N, 0.1), of=optimizer),
            *others,
            *(LossCall(step=step, **{**facts, **more}) for step in range(3 * calls)),
        )
    )


def test_fires_when_means_are_added_up() -> None:
    [finding] = check()
    assert (finding.severity, finding.step, finding.count) == (Severity.WARNING, 0, N)
    assert finding.location == LOSS
    assert "4 times" in finding.message


@pytest.mark.parametrize(
    ("adaptive", "severity"), [(False, Severity.WARNING), (True, Severity.INFO)]
)
def test_a_compiled_step_that_adds_gradients(adaptive: bool, severity: Severity) -> None:
    seen = SummedGradients(step=0, micro_batches=4, adaptive=adaptive, location="train.py:7")
    [finding] = check(4, seen)
    assert (finding.severity, finding.location) == (severity, "train.py:7")
    assert finding.message.startswith("the gradients of 4 micro-batches are summed, not averaged")


def test_a_mean_written_by_hand_counts() -> None:
    [finding] = check(operation="elementwise", reduction=None, above=("mean",))
    assert finding.severity is Severity.WARNING


def test_adam_does_not_mind() -> None:
    [finding] = check(optimizer="AdamW")
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    "more",
    [
        {"above": ("div",)},
        {"above": ("mul", "mean")},
        {"reduction": "sum", "optimizer": "Adam"},
        {"reduction": "sum", "above": ("div",)},
        {"alone": False, "above": ("div", "add")},
        {"above": None},
    ],
    ids=["divided", "multiplied", "a sum", "a divided sum", "a divided sum of terms", "not read"],
)
def test_stays_quiet(more: dict[str, Any]) -> None:
    assert check(**more) == []


@pytest.mark.parametrize("more", [{"reduction": "sum"}, {"reduction": None, "above": ("sum",)}])
def test_a_sum_over_rows_is_a_note(more: dict[str, Any]) -> None:
    [finding] = check(**more)
    assert finding.severity is Severity.INFO
    assert "the loss is a sum over rows" in finding.message
    assert 'reduction="mean"' in finding.fixes[0]


def test_the_correction_is_written_as_the_trainer_wants_it() -> None:
    trainer = TrainerSettings(step=0, trainer="Trainer of Lightning", model="Net", accumulates=1)
    [finding] = check(4, trainer)
    assert "`self.manual_backward(loss / 4)`" in finding.fixes[0]
    [finding] = check()
    assert "manual_backward" not in finding.fixes[0]


def test_a_sum_over_rows_matters_to_adam_where_it_is_clipped() -> None:
    clipped = series("clip_limit", np.ones(N), of="")
    assert check(4, clipped, reduction="sum", optimizer="Adam")


def test_a_term_that_is_never_divided_is_a_note() -> None:
    weighted = LossCall(
        step=1, operation="elementwise", series=LOSS, reduction="mean", above=("add", "mul")
    )
    [finding] = check(4, weighted, alone=False, above=("add",))
    assert finding.severity is Severity.INFO
    assert "one term of the loss is never divided" in finding.message


def test_the_rest_of_a_pass_that_a_trainer_divides_by_all_is_a_note() -> None:
    trainer = TrainerSettings(
        step=0, trainer="Trainer of Lightning", model="Net", accumulates=4, divides_by_all=True
    )
    counts = np.where(np.arange(N) % 10 == 9, 2, 4)
    [finding] = check(counts, trainer, above=("div",))
    assert (finding.severity, finding.step, finding.count) == (Severity.INFO, 9, 3)
    assert "only 2 micro-batches" in finding.message
    assert check(4, trainer, above=("div",)) == []
    assert check(counts, above=("div",)) == []


def test_one_backward_a_step_is_not_its_concern() -> None:
    with pytest.raises(NotApplicable, match="nothing is accumulated"):
        check(1)
    with pytest.raises(NotEnoughData, match="needs 10 steps of several micro-batches, saw 5"):
        check(np.where(np.arange(N) < 5, 4, 1))


def test_a_loss_that_leaves_out_the_division_of_the_trainer_is_named() -> None:
    seen = UndividedLoss(step=0, trainer="Distiller", micro_batches=8, location="train.py:31")
    [finding] = check(8, seen, optimizer="AdamW", above=("add", "mul"))
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:31")
    assert "the loss of Distiller ignores `num_items_in_batch`" in finding.message
    assert "model_accepts_loss_kwargs = False" in finding.fixes[0]
