from __future__ import annotations

import pytest

from mothtrap.core.errors import nearest

THRESHOLDS = ["start_ratio", "ratio_limit", "persisting_steps", "growth_factor"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        pytest.param("ratio", "ratio_limit", id="its beginning, before another's end"),
        pytest.param("steps", "persisting_steps", id="its end"),
        pytest.param("ratio_limits", "ratio_limit", id="a slip"),
        pytest.param("grow_fact", "growth_factor", id="spelled alike"),
    ],
)
def test_names_what_was_meant(typed: str, meant: str) -> None:
    assert nearest(typed, THRESHOLDS) == f" (did you mean {meant!r}?)"


@pytest.mark.parametrize("typed", ["r", "zzz", ""])
def test_says_nothing_where_nothing_is_near(typed: str) -> None:
    assert nearest(typed, THRESHOLDS) == ""
