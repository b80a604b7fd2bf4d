"""Labels of sequences compared with the tokens that a model was given."""

from __future__ import annotations

import numpy as np
import pytest

from mothtrap.tracing.describe import next_tokens

TOKENS = np.arange(40).reshape(4, 10) % 7
AHEAD = np.concatenate([TOKENS[:, 1:], TOKENS[:, :1]], axis=1)


@pytest.mark.parametrize(
    ("target", "offsets"),
    [
        (TOKENS, (0,)),
        (TOKENS.reshape(-1), (0,)),
        (AHEAD, (1,)),
        (TOKENS[:, 1:], (1,)),
        (np.roll(TOKENS, -2, axis=1), (2,)),
        (TOKENS[:, 2:], None),
        (np.concatenate([TOKENS[:, 2:], TOKENS[:, :1]], axis=1), (2,)),
        (np.roll(TOKENS, 1, axis=1), (-1,)),
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


def padded(*, end: int | None) -> np.ndarray:
    """Return eight sequences of 3 to 10 words, 1 or none as the end token, padded with 0."""
    tokens_RL = np.zeros((8, 12), np.int64)
    for row, length in enumerate(range(3, 11)):
        tokens_RL[row, :length] = 2 + (np.arange(length) + row) % 9
        if end is not None:
            tokens_RL[row, length] = end
    return tokens_RL


def test_sequences_end_with_the_token_that_is_the_last_label() -> None:
    tokens_RL = padded(end=1)
    found = next_tokens.endings([tokens_RL[:, :-1]], tokens_RL[:, 1:], 0)
    assert found == (7, 1, 7, 0, 7)


def test_sequences_without_an_end_have_many_last_labels() -> None:
    tokens_RL = padded(end=None)
    found = next_tokens.endings([tokens_RL[:, :-1]], tokens_RL[:, 1:].reshape(-1), 0)
    assert found is not None
    assert (found.rows, found.after, found.after_rows) == (8, 0, 8)
    assert found.last_rows <= 2


def test_an_end_that_the_loss_ignores_follows_the_last_label() -> None:
    tokens_RL = padded(end=1)
    labels_RL = np.where(tokens_RL > 1, tokens_RL, -100)[:, 1:]
    found = next_tokens.endings([tokens_RL], labels_RL, -100)
    assert found is not None
    assert (found.rows, found.after, found.after_rows) == (8, 1, 8)


@pytest.mark.parametrize("end", [None, 1])
def test_a_marked_end_that_does_not_count_needs_no_tokens(end: int | None) -> None:
    labels_RL = padded(end=end)
    found = next_tokens.marked_endings(labels_RL, labels_RL > 1)
    assert found is None if end is None else found[:1] + found[3:] == (8, 1, 8)
    healthy = next_tokens.marked_endings(labels_RL, labels_RL > 0)
    assert healthy is None, "only padding does not count"


@pytest.mark.parametrize("shifted", [True, False])
def test_labels_that_stop_before_the_end(shifted: bool) -> None:
    tokens_RL = padded(end=1)
    place_L = np.arange(tokens_RL.shape[1])
    length_R = np.arange(3, 11)
    half_RL = place_L < (length_R // 2 + 1)[:, None]
    for kept_RL, early in ((half_RL, 8), (~half_RL & (tokens_RL > 0), 0), (tokens_RL > 0, 0)):
        labels_RL = np.where(kept_RL, tokens_RL, -100)
        given_RL = tokens_RL[:, :-1] if shifted else tokens_RL
        later_RL = labels_RL[:, 1:]
        if not shifted:
            later_RL = np.pad(later_RL, ((0, 0), (0, 1)), constant_values=-100)
        found = next_tokens.stops([given_RL], later_RL, -100)
        assert found is not None
        assert (found.rows, found.early) == (8, early)
    assert next_tokens.stops([tokens_RL], tokens_RL, None) is None


def test_sequences_of_one_length_have_no_endings() -> None:
    tokens_RL = padded(end=1)
    tokens_RL[:, 6:] = 0
    tokens_RL[:, :6] = 2
    tokens_RL[:, 1:6:2] = 3
    assert next_tokens.endings([tokens_RL[:, :-1]], tokens_RL[:, 1:], 0) is None
    assert next_tokens.endings([tokens_RL[:, :-1]], tokens_RL[:, 1:], None) is None


@pytest.mark.parametrize("end", [None, 0, 1])
def test_padding_at_the_ends_of_sequences_counts_in_the_loss(end: int | None) -> None:
    tokens_RL = padded(end=end)
    labels_RL = tokens_RL[:, 1:]
    share = {None: 44, 0: 44, 1: 36}[end] - 8
    expected = (0, pytest.approx(share / labels_RL.size))
    assert next_tokens.padding([tokens_RL[:, :-1]], labels_RL, None) == expected
    assert next_tokens.padding([tokens_RL[:, :-1].T], labels_RL.T, -100) == expected
    assert next_tokens.padding([tokens_RL], labels_RL.reshape(-1), None) == expected
    assert next_tokens.padding([tokens_RL[:, :-1]], labels_RL, 0) is None


def test_padding_before_a_column_of_ignored_labels_counts_in_the_loss() -> None:
    tokens_RL = padded(end=1)
    labels_RL = np.full_like(tokens_RL, -100)  # as models of Hugging Face shift their labels
    labels_RL[:, :-1] = tokens_RL[:, 1:]
    expected = (0, pytest.approx(28 / (labels_RL.size - len(labels_RL))))
    assert next_tokens.padding([tokens_RL], labels_RL.reshape(-1), -100) == expected
    masked_RL = np.where(labels_RL == 0, -100, labels_RL)
    assert next_tokens.padding([tokens_RL], masked_RL.reshape(-1), -100) is None
    assert next_tokens.padding([tokens_RL], np.full_like(labels_RL, -100), -100) is None


def test_labels_that_also_occur_inside_sequences_are_no_padding() -> None:
    pixels_RL = padded(end=None)
    pixels_RL[:, 1] = 0
    assert next_tokens.padding([pixels_RL], pixels_RL, None) is None
    assert next_tokens.padding([TOKENS], AHEAD, None) is None
    assert next_tokens.padding([TOKENS], np.zeros(4, np.int64), None) is None


def test_labels_that_say_whether_a_token_has_occurred_are_no_padding() -> None:
    tokens_RL = np.random.default_rng(0).integers(0, 12, (16, 20))
    seen_RL = np.maximum.accumulate(tokens_RL == 7, axis=1).astype(np.int64)
    assert (seen_RL[:, -1] == 1).sum() >= 8
    assert next_tokens.padding([tokens_RL], seen_RL, None) is None


def test_the_axis_along_which_labels_are_the_next_tokens_gives_batch_and_length() -> None:
    tokens = np.random.default_rng(0).integers(0, 50, (6, 9))
    following = np.random.default_rng(1).integers(0, 50, (6, 9))
    following[:, :-1] = tokens[:, 1:]
    assert next_tokens.batch_and_length([tokens], following.reshape(-1), None) == (6, 9)
    assert next_tokens.batch_and_length([tokens.T], following.T.reshape(-1), None) == (6, 9)
    assert next_tokens.batch_and_length([tokens], following[:, :-1], None) == (6, 9)
    assert next_tokens.batch_and_length([tokens], tokens, None) is None


def test_labels_that_the_model_sees_are_counted() -> None:
    masked = np.arange(40).reshape(4, 10) % 8 == 0
    given = np.where(masked, 99, TOKENS)
    assert next_tokens.shown([given], TOKENS, -100) == (40, 35, 5)
    assert next_tokens.shown([given], TOKENS.reshape(-1), None) == (40, 35, 5)
    only = np.where(masked, TOKENS, -100)
    assert next_tokens.shown([given], only, -100) is None  # too few
    assert next_tokens.shown([TOKENS], TOKENS, None) is None  # all of them
    assert next_tokens.shown([TOKENS + 1], TOKENS, None) is None  # none of them
    assert next_tokens.shown([TOKENS[:, :-1]], TOKENS, None) is None
