from __future__ import annotations

import numpy as np
import pytest

pandas = pytest.importorskip("pandas")

from mothtrap.tracing.describe.row_order import is_apart  # noqa: E402  # after pandas

RNG = np.random.default_rng(0)
X = pandas.DataFrame(RNG.normal(size=(200, 3)))
Y = pandas.Series(RNG.integers(0, 2, 200))
ORDER = RNG.permutation(200)


def test_labels_in_another_order() -> None:
    assert is_apart(X.iloc[ORDER[:150]], Y.iloc[RNG.permutation(200)[:150]])
    assert is_apart(X.iloc[ORDER], Y.sample(frac=1, random_state=0).to_frame())
    assert is_apart(X.iloc[ORDER[:150]], Y.iloc[ORDER[:150]].sort_index())


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (X, Y),
        (X.iloc[ORDER], Y.iloc[ORDER]),
        # A frame made of an array is numbered anew, in the order of the rows.
        (pandas.DataFrame(X.iloc[ORDER].values), Y.iloc[ORDER]),
        (X.iloc[ORDER], pandas.Series(Y.iloc[ORDER].values)),
        # Names of two unrelated tables.
        (X.iloc[ORDER], Y.iloc[ORDER].set_axis([f"r{n}" for n in range(200)])),
        (X.iloc[ORDER].values, Y),
        (X.iloc[ORDER[:20]], Y.iloc[ORDER[20:40]]),
        ([[1.0]] * 60, [0] * 60),
    ],
)
def test_stays_quiet(x, y) -> None:
    assert not is_apart(x, y)
