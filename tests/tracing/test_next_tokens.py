"""Labels of sequences beside the tokens that a model was given."""

from __future__ import annotations

import numpy as np
import pytest

from mothtrap.tracing import next_tokens

TOKENS = np.arange(40).reshape(4, 10) % 7
AHEAD = np.concatenate([TOKENS[:, 1:], TOKENS[:, :1]], axis=1)


@pytest.mark.parametrize(
    ("target", "offsets"),
    [
        (TOKENS, (0,)),
        (TOKENS.reshape(-1), (0,)),
        (AHEAD, (1,)),
        (TOKENS[:, 1:], (1,)),
        (TOKENS[:, ::-1], ()),
        (np.full((4, 10), 3), ()),
        (np.zeros(4, np.int64), None),
    ],
)
def test_offsets_at_which_labels_are_tokens(
    target: np.ndarray, offsets: tuple[int, ...] | None
) -> None:
    assert next_tokens.offsets([TOKENS], target, None) == offsets
    if offsets is not None and target.ndim == 2:
        assert next_tokens.offsets([TOKENS.T], target.T, None) == offsets


def test_tokens_are_integers_or_one_hot() -> None:
    one_hot = np.eye(7, dtype=np.float32)[TOKENS]
    images = np.random.default_rng(0).normal(size=(4, 10, 7))
    found = list(next_tokens.sequences([TOKENS, one_hot, images, TOKENS[0]], 7))
    assert [seen.shape for seen in found] == [(4, 10), (4, 10), (1, 10)]
    assert (found[1] == TOKENS).all()
