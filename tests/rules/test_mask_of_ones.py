from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.layers import MaskOfOnes
from mothtrap.core.findings import Severity
from mothtrap.rules.mask_of_ones import mask_of_ones


def test_a_mask_of_zeros_and_ones_is_an_error() -> None:
    seen = MaskOfOnes(step=0, shape=(8, 8), module="blocks.0.attention", location="gpt.py:12")
    [finding] = mask_of_ones().check(window(seen))
    assert (finding.severity, finding.location) == (Severity.ERROR, "gpt.py:12")
    assert finding.message.startswith(
        "blocks.0.attention gets a floating-point mask of shape (8, 8)"
    )
    assert finding.fixes[0].startswith("Pass a boolean mask")


def test_does_not_apply_without_such_a_mask() -> None:
    with pytest.raises(NotApplicable):
        mask_of_ones().check(window())
