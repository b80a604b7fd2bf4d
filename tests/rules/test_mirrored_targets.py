from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.targets import MirroredTargets
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.mirrored_targets import mirrored_targets


def look(mirrored: int, *, rows: int = 60, step: int = 60) -> MirroredTargets:
    return MirroredTargets(
        step=step,
        looks=6,
        rows=rows,
        mirrored=mirrored,
        direction="left to right",
        location="train.py:9",
    )


def check(*looks: MirroredTargets) -> list[Finding]:
    return mirrored_targets().check(window(*looks, steps=200))


def test_half_of_the_masks_are_mirrored() -> None:
    [finding] = check(look(28))
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:9")
    assert "28 of 60 masks fit" in finding.message
    assert "mirrored left to right" in finding.message
    assert finding.fixes[0].startswith("Draw each random transform once")


@pytest.mark.parametrize(
    "looks",
    [
        [look(3)],
        [look(8, rows=12)],  # few masks fit at all
        [look(30), look(5, step=120)],  # the model has learned more
    ],
    ids=["a few", "few masks", "over"],
)
def test_stays_quiet(looks: list[MirroredTargets]) -> None:
    assert check(*looks) == []


def test_says_what_is_missing() -> None:
    with pytest.raises(NotEnoughData):
        mirrored_targets().check(window(steps=0))
