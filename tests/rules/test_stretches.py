from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mothtrap.rules._stretches import block_medians, last_stretch, share_below, stretches

VALUES = st.lists(st.integers(0, 5).map(float), min_size=1, max_size=20)


@given(st.lists(st.booleans(), max_size=40))
def test_stretches_cover_exactly_what_is_true(mask: list[bool]) -> None:
    found = stretches(np.array(mask, dtype=bool))
    covered = [i for start, stop in found for i in range(start, stop)]
    assert covered == [i for i, held in enumerate(mask) if held]
    assert all(a[1] < b[0] for a, b in itertools.pairwise(found))


@given(st.lists(st.booleans(), max_size=40))
def test_last_stretch_is_the_one_that_reaches_the_end(mask: list[bool]) -> None:
    held = np.array(mask, dtype=bool)
    every = stretches(held)
    expected = every[-1] if every and every[-1][1] == len(mask) else None
    assert last_stretch(held) == expected


@given(VALUES, VALUES)
def test_share_below_counts_pairs(later: list[float], earlier: list[float]) -> None:
    pairs = [1.0 if a < b else 0.5 if a == b else 0.0 for a in later for b in earlier]
    expected = sum(pairs) / len(pairs)
    assert abs(share_below(np.array(later), np.array(earlier)) - expected) < 1e-12


def test_blocks_are_aligned_to_the_end() -> None:
    assert block_medians(np.array([99.0, 1, 2, 3, 4, 5, 6]), 3).tolist() == [2.0, 5.0]
    assert len(block_medians(np.array([1.0]), 3)) == 0
