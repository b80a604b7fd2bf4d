from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.layers import ImageChannels
from mothtrap.core.findings import Severity
from mothtrap.rules.mixed_channels import mixed_channels


def looks(*pairs: tuple[float, float]) -> list[ImageChannels]:
    return [
        ImageChannels(
            step=step,
            module="Net",
            shape=(8, 3, 32, 32),
            neighbor=neighbor,
            third=third,
            location="train.py:9",
        )
        for step, (neighbor, third) in enumerate(pairs)
    ]


def test_a_similar_third_value_is_a_warning() -> None:
    [finding] = mixed_channels().check(window(*looks((0.3, 0.1), (0.2, 0.1)), steps=20))
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:9")
    assert "of shape (8, 3, 32, 32)" in finding.message


@pytest.mark.parametrize("pair", [(0.1, 0.2), (0.3, 0.3), (0.0, 0.0)], ids=str)
def test_images_and_noise_are_quiet(pair: tuple[float, float]) -> None:
    assert mixed_channels().check(window(*looks(pair), steps=20)) == []
    assert mixed_channels().check(window(steps=20)) == []


def test_needs_a_step() -> None:
    with pytest.raises(NotEnoughData):
        mixed_channels().check(window())
