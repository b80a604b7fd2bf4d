"""Labels of sequences that equal the input tokens at the same or a later position.

Shape suffixes: R = rows, L = positions of a sequence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

MAX_TARGETS: Final = 1 << 16
MAX_ONE_HOT: Final = 1 << 20
"""Maximum number of elements of an input that are tested for being one-hot."""
MIN_COMPARED: Final = 16
"""Minimum number of labels that must agree with inputs to count as equal; chosen by hand."""
MIN_LENGTHS: Final = 3
"""Minimum number of different sequence lengths whose equal last labels count as padding; by hand.
"""
MIN_PADDED: Final = 0.5
"""Minimum share of padded positions with the same input token; chosen by hand. Labels that only
indicate whether something has occurred so far also end with equal values.
"""
MIN_REST: Final = 2
"""Minimum number of tokens without a label after the last label; a single one may be the end."""
UNCOUNTED: Final = -100
"""Label that stands for positions whose loss is multiplied by 0."""
USUAL_OFFSETS: Final = (0, 1)
OTHER_OFFSETS: Final = (2, -1)
"""Offsets of labels that were shifted twice, or in the wrong direction."""
Array = npt.NDArray[Any]


def sequences(inputs: Sequence[Array], classes: int | None) -> Iterator[Array]:
    """Yield every input of a model that contains tokens, as integers of shape (rows, length).

    A single sequence is one row. Tokens may also be one-hot over the classes of the loss.
    """
    for given in inputs:
        if are_tokens(given):
            yield given
        elif given.ndim == 1 and are_tokens(given[None]):
            yield given[None]
        elif _is_one_hot(given, classes):
            yield given.argmax(axis=-1)


def _is_one_hot(given: Array, classes: int | None) -> bool:
    if given.ndim != 3 or given.shape[-1] != classes or given.size > MAX_ONE_HOT:
        return False
    return bool(np.isin(given, (0, 1)).all() and (given.sum(axis=-1) == 1).all())


def are_tokens(given: Array) -> bool:
    """Return whether a model input contains integer sequences: (rows, length), or transposed."""
    is_table = given.ndim == 2 and min(given.shape) >= 1 and max(given.shape) >= 4
    return is_table and given.dtype.kind in "iu" and given.size <= MAX_TARGETS


def offsets(tokens: Iterable[Array], target: Array, ignored: int | None) -> tuple[int, ...] | None:
    """Return the offsets k at which labels equal tokens; None if they do not align.

    Sequences may run along either axis; labels may be flat, and one position shorter. Each of
    several inputs may have its own offset. 2 and -1 are only tried if 0 and 1 do not fit.

    Args:
        tokens: inputs of the model, each of shape (rows, length).
        target: labels.
        ignored: label that does not count; None = none.
    """
    aligned = [
        (sequences_RL, sequences_RL is not given_RL)
        for given_RL in tokens
        for sequences_RL in (given_RL, given_RL.T)
        if target.size in (given_RL.size, given_RL.size - len(sequences_RL))
    ]
    if not aligned:
        return None
    for choices in (USUAL_OFFSETS, OTHER_OFFSETS):
        found = {
            k
            for sequences_RL, transposed in aligned
            for k in choices
            if agree(sequences_RL, target, k, ignored, transposed=transposed)
        }
        if found:
            return tuple(sorted(found))
    return ()


def compared(
    inputs: Sequence[Array], target: Array, classes: int | None
) -> tuple[tuple[int, ...] | None, bool]:
    """Compare the labels with the input tokens, in the rows that were stored of both.

    Returns:
        The offsets at which they are equal, as from `offsets`, and whether a decoder is given its
        targets.
    """
    if target.dtype.kind not in "iu" or target.ndim < 2:
        return None, False
    tokens = [one for one in sequences(inputs, classes) if len(one) > 1]
    kept = min([len(target), *(len(given) for given in tokens)])
    if not kept:
        return None, False
    target, tokens = target[:kept], [given[:kept] for given in tokens]
    found = offsets(tokens, target, None)
    return found, 0 in (found or ()) and are_decoded(tokens[1:], target, None)


def are_decoded(tokens: Sequence[Array], target: Array, ignored: int | None) -> bool:
    """Return whether a decoder is given its targets.

    It is, if the last input tokens that can be aligned with the targets are equal to them.

    An encoder is given its tokens first. In an autoencoder, the encoder is given the targets, and
    the decoder the shifted targets.

    Args:
        tokens: inputs of the layers that embed tokens, in the order of the calls.
        target: labels.
        ignored: label that does not count; None = none.
    """
    for one in reversed(tokens):
        found = offsets([one], target, ignored)
        if found:  # others are positions, or types
            return found == (0,)
    return False


def batch_and_length(
    tokens: Iterable[Array], target: Array, ignored: int | None
) -> tuple[int, int] | None:
    """Return the number and the length of the sequences whose next tokens are the labels.

    Args:
        tokens: inputs of the model, each a table of tokens with the sequences along either axis.
        target: labels.
        ignored: label that does not count; None = none.

    Returns:
        None if labels are not next tokens, or are next tokens along both axes.
    """
    for table in tokens:
        found = [
            given_RL.shape
            for given_RL in (table, table.T)
            if target.size in (given_RL.size, given_RL.size - len(given_RL))
            and agree(given_RL, target, 1, ignored, transposed=given_RL is not table)
        ]
        if found:
            return (int(found[0][0]), int(found[0][1])) if len(found) == 1 else None
    return None


def agree(
    given_RL: Array, target: Array, k: int, ignored: int | None, *, transposed: bool = False
) -> bool:
    """Return whether labels, shape (rows, length) or flat, equal the tokens k positions later.

    A negative k compares labels with earlier tokens.
    """
    rows, length = given_RL.shape
    positions = target.size // rows
    labels = target.reshape(positions, rows).T if transposed else target.reshape(rows, positions)
    first, last = max(0, -k), min(positions, length - k)
    labels, given = labels[:, first:last], given_RL[:, first + k : max(0, k + last)]
    if last < 1 or labels.shape != given.shape:
        return False
    kept = labels != ignored if ignored is not None else np.ones_like(labels, dtype=np.bool_)
    if int(kept.sum()) < MIN_COMPARED:
        return False
    shown = labels[kept]
    return bool((shown == given[kept]).all() and (shown != shown[0]).any())


def padding(
    tokens: Iterable[Array], target: Array, ignored: int | None
) -> tuple[int, float] | None:
    """Return the label that pads sequences at their ends, and the share of labels that it pads.

    The label ends sequences of at least `MIN_LENGTHS` different lengths, and does not occur
    earlier. The input is padded at these positions, too. Its first occurrence in a sequence does
    not count, because it may mark the end. Last positions that are ignored in every sequence do not
    count either: a model that shifts its labels adds such a position.

    Args:
        tokens: inputs of the model, each a table of tokens with the sequences along either axis.
        target: labels, one per token, or one label fewer per sequence.
        ignored: label that does not count; None = none.
    """
    for given_RL in tokens:
        for sequences_RL in (given_RL, given_RL.T):
            rows = len(sequences_RL)
            if target.size not in (sequences_RL.size, sequences_RL.size - rows):
                continue
            in_rows = sequences_RL is given_RL
            labels_RL = target.reshape(rows, -1) if in_rows else target.reshape(-1, rows).T
            if ignored is not None:
                used = np.flatnonzero((labels_RL != ignored).any(axis=0))
                labels_RL = labels_RL[:, : used[-1] + 1] if used.size else labels_RL[:, :0]
            given = sequences_RL[:, : labels_RL.shape[1]]
            found = _padding(labels_RL, given) if labels_RL.size else None
            if found is not None and found[0] != ignored:
                return found
    return None


def _padding(labels_RL: Array, given_RL: Array) -> tuple[int, float] | None:
    label, _ = _most_frequent(labels_RL[:, -1])
    others_RL = labels_RL[:, ::-1] != label
    run_R = np.where(others_RL.any(axis=1), others_RL.argmax(axis=1), labels_RL.shape[1])
    if len(set(run_R.tolist())) < MIN_LENGTHS or int((~others_RL).sum()) > int(run_R.sum()):
        return None
    padded_RL = np.arange(labels_RL.shape[1]) > (labels_RL.shape[1] - run_R)[:, None]
    padded = int(padded_RL.sum())
    if padded and _most_frequent(given_RL[padded_RL])[1] < MIN_PADDED * padded:
        return None
    return label, padded / labels_RL.size


class Endings(NamedTuple):
    """Ends of the sequences of a batch that are shorter than the longest sequence.

    Attributes:
        rows: number of rows.
        last: the most frequent last token that is a label.
        last_rows: number of rows with this last token.
        after: the most frequent following token, which is not a label.
        after_rows: number of rows with this following token.
    """

    rows: int
    last: int
    last_rows: int
    after: int
    after_rows: int


def endings(tokens: Iterable[Array], target: Array, ignored: int | None) -> Endings | None:
    """Return how sequences end if their labels are the next tokens.

    Args:
        tokens: inputs of the model, each of shape (rows, length).
        target: labels.
        ignored: label that does not count.

    Returns:
        None if labels are not next tokens, or all rows end at the same position.
    """
    for given_RL in tokens:
        rows, length = given_RL.shape
        if ignored is None or target.size % rows or not agree(given_RL, target, 1, ignored):
            continue
        labels_RL = target.reshape(rows, -1)
        kept_RL = labels_RL != ignored
        last_R = labels_RL.shape[1] - 1 - kept_RL[:, ::-1].argmax(axis=1)
        ends_R = kept_RL.any(axis=1) & (last_R + 2 < length)
        if len(set(last_R[ends_R].tolist())) < 2:
            return None
        number_R = np.flatnonzero(ends_R)
        last = _most_frequent(labels_RL[number_R, last_R[ends_R]])
        after = _most_frequent(given_RL[number_R, last_R[ends_R] + 2])
        return Endings(len(number_R), *last, *after)
    return None


def marked_endings(label_RL: Array, counted_RL: Array) -> Endings | None:
    """Return how sequences end whose last labels the loss does not count.

    The input tokens may be unknown, so the first label that does not count must differ from the
    next one: it marks the end, and is no padding.

    Args:
        label_RL: labels, shape (rows, length).
        counted_RL: whether the loss counts them.
    """
    length = label_RL.shape[1]
    last_R = length - 1 - counted_RL[:, ::-1].argmax(axis=1)
    number_R = np.flatnonzero(counted_RL.any(axis=1) & (last_R + 2 < length))
    last_R = last_R[number_R]
    if len(set(last_R.tolist())) < 2:
        return None
    after_R = label_RL[number_R, last_R + 1]
    if (after_R == label_RL[number_R, last_R + 2]).any():
        return None
    last = _most_frequent(label_RL[number_R, last_R])
    return Endings(len(number_R), *last, *_most_frequent(after_R))


class Shown(NamedTuple):
    """Labels of which the model receives some.

    Attributes:
        labels: number of labels that count.
        equal: number of these that equal the input token at the same position.
        masked: number of the others at which the input has the token that is most frequent there.
    """

    labels: int
    equal: int
    masked: int


def shown(tokens: Iterable[Array], target: Array, ignored: int | None) -> Shown | None:
    """Return how many labels equal the tokens at their positions; None if all or none do.

    Args:
        tokens: inputs of the model, each of shape (rows, length).
        target: labels.
        ignored: label that does not count; None = none.
    """
    for given_RL in tokens:
        if target.size != given_RL.size:
            continue
        labels_RL = target.reshape(given_RL.shape)
        kept_RL = labels_RL != ignored if ignored is not None else np.ones_like(labels_RL, np.bool_)
        label_N, token_N = labels_RL[kept_RL], given_RL[kept_RL]
        differs_N = label_N != token_N
        if len(label_N) < MIN_COMPARED or not differs_N.any() or differs_N.all():
            continue
        most = _most_frequent(token_N[differs_N])[1]
        return Shown(len(label_N), int((~differs_N).sum()), most)
    return None


class Stops(NamedTuple):
    """Labels that cover only the beginnings of sequences.

    Attributes:
        rows: number of rows with labels.
        early: number of these whose labels begin with the first token and stop before the end.
        share: mean share of the tokens after the last label, in these rows.
    """

    rows: int
    early: int
    share: float


def stops(tokens: Iterable[Array], target: Array, ignored: int | None) -> Stops | None:
    """Return whether labels cover only the beginnings of sequences.

    Args:
        tokens: inputs of the model, each of shape (rows, length).
        target: labels.
        ignored: label that does not count.

    Returns:
        None if labels are not next tokens, or all of them count.
    """
    for given_RL in tokens:
        rows, length = given_RL.shape
        if ignored is None or target.size % rows or not agree(given_RL, target, 1, ignored):
            continue
        kept_RL = target.reshape(rows, -1) != ignored
        begin_R, end_R = _run_length(given_RL), length - _run_length(given_RL[:, ::-1])
        first_R = kept_RL.argmax(axis=1)
        last_R = kept_RL.shape[1] - 1 - kept_RL[:, ::-1].argmax(axis=1)
        rest_R = end_R - (last_R + 2)  # the label at a position is the next token
        early_R = kept_RL.any(axis=1) & (first_R <= begin_R + 1) & (rest_R >= MIN_REST)
        share_R = rest_R[early_R] / (end_R - begin_R)[early_R]
        share = float(share_R.mean()) if share_R.size else 0.0
        return Stops(int(kept_RL.any(axis=1).sum()), int(early_R.sum()), share)
    return None


def _run_length(given_RL: Array) -> Array:
    """Return how many equal tokens begin each row, which are padding; 0 for a single one."""
    other_RL = given_RL != given_RL[:, :1]
    run_R = np.where(other_RL.any(axis=1), other_RL.argmax(axis=1), given_RL.shape[1])
    return np.where(run_R > 1, run_R, 0)


def _most_frequent(values: Array) -> tuple[int, int]:
    """Return the most frequent value, and its count."""
    found, counts = np.unique(values, return_counts=True)
    return int(found[counts.argmax()]), int(counts.max())
