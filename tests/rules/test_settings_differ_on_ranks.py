from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from tests.rules.ranks import STEPS, by_hand, check, worker
from tests.rules.test_ranks_diverge import started
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.fact import Fact
from mothtrap.core.facts.replicas import WorkerSettings
from mothtrap.core.findings import Severity
from mothtrap.rules.settings_differ_on_ranks import settings_differ_on_ranks

RULE = settings_differ_on_ranks()


def settings(
    rates: Sequence[float] = (0.1,) * 5,
    frozen: tuple[str, ...] = (),
    tied: Mapping[str, str] | None = None,
    names: str = "n",
) -> list[Fact]:
    return [
        WorkerSettings(
            step=s, rates={"fc.weight": r}, frozen=frozen, tied=dict(tied or {}), names=names
        )
        for s, r in zip(STEPS, rates, strict=True)
    ]


def test_quiet_on_equal_settings_that_change_together() -> None:
    falling = settings((0.1, 0.1, 0.05, 0.05, 0.01), ("emb.weight",), {"head.weight": "emb.weight"})
    assert check(RULE, falling, falling) == []


def test_another_learning_rate_is_dated_to_after_the_last_equal_step() -> None:
    [found] = check(RULE, settings(), settings((0.1, 0.1, 0.1, 0.05, 0.05)), settings())
    assert (found.severity, found.step, found.last_step) == (Severity.ERROR, 4, 15)
    assert (found.workers, found.layers) == ((1,), ("fc.weight",))
    assert "the learning rate of fc.weight differs" in found.message
    assert "0.05 on rank 1" in found.message


def test_frozen_and_tied_parameters_are_named() -> None:
    [found] = check(RULE, settings(), settings(frozen=("fc.weight", "fc.bias")))
    assert (found.step, found.layers) == (0, ("fc.bias", "fc.weight"))
    assert "trained on rank 0, frozen on rank 1" in found.message
    tied = settings(tied={"head.weight": "emb.weight"})
    [found] = check(RULE, tied, settings(), common=by_hand)
    assert "tied to emb.weight on rank 0, separate on rank 1" in found.message


def test_quiet_where_each_worker_trains_a_model_of_its_own() -> None:
    with pytest.raises(NotApplicable, match="do not average"):
        check(RULE, settings(), settings((0.2,) * 5), common=list)
    with pytest.raises(NotApplicable, match="different names"):
        check(RULE, settings(), settings(frozen=("fc.bias",), names="m"))


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="one rank"):
        RULE.check(window(started(1), steps=5))
    with pytest.raises(NotEnoughData, match="settings from every rank"):
        check(RULE, settings(), [])
    with pytest.raises(NotEnoughData, match="settings from every rank"):
        RULE.check(worker(0, *settings()))
