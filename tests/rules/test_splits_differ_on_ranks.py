from __future__ import annotations

import numpy as np
import pytest
from tests.rules.test_ranks_diverge import joined, started
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import SplitDrawn
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.packed import pack
from mothtrap.core.window import Window
from mothtrap.rules.splits_differ_on_ranks import splits_differ_on_ranks


def split(seed: int, *, size: int = 1200, replicas: int = 2, data: str = "Digits") -> SplitDrawn:
    order = np.random.default_rng(seed).permutation(size)
    return SplitDrawn(
        step=16,
        data=data,
        size=size,
        trained=pack(np.sort(order[200:]).tolist()),
        evaluated=pack(np.sort(order[:200]).tolist()),
        eval_loader="loader 2",
        replicas=replicas,
        location="t.py:9",
    )


def worker(rank: int, *seen: SplitDrawn) -> Window:
    return window(started(2), *seen, worker=rank, steps=40)


def check(*workers: Window) -> list[Finding]:
    return splits_differ_on_ranks().check(joined(*workers))


def test_samples_of_one_rank_on_which_another_trains_are_reported() -> None:
    [found] = check(worker(0, split(1)), worker(1, split(2)))
    assert (found.severity, found.step, found.location) == (Severity.WARNING, 16, "t.py:9")
    assert found.workers == (0, 1)
    assert found.evidence["eval_samples"] == 200
    assert 130 < int(str(found.evidence["shared"])) < 200
    assert "of the 200 samples that rank 0 evaluates (loader 2)" in found.message
    assert "generator=" in found.fixes[0]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(split(1), id="the same split"),
        pytest.param(split(2, size=1100), id="other data"),
        pytest.param(split(2, data="Letters"), id="another class"),
    ],
)
def test_stays_quiet(other: SplitDrawn) -> None:
    assert check(worker(0, split(1)), worker(1, other)) == []


def test_each_rank_may_have_its_own_part_of_the_data() -> None:
    first, second = split(1, replicas=1), split(2, replicas=1)
    assert check(worker(0, first), worker(1, second)) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="one rank"):
        check(window(started(1), steps=5))
    with pytest.raises(NotEnoughData, match="several ranks"):
        check(worker(0, split(1)), worker(1))
