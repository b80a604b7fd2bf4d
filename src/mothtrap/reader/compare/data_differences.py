"""Differences between the data of two runs: another order of the same rows, or other rows."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

from mothtrap.core.digests import MODULUS
from mothtrap.core.steps import Mode
from mothtrap.core.window import Series
from mothtrap.reader.compare.comparable import rows_of_steps
from mothtrap.reader.run import Run
from mothtrap.reader.samples.sample_index import Sample

Digests = npt.NDArray[np.float64]


def same_rows(first: Run, second: Run, step: int) -> str:
    """Describe until which step both runs received the same rows; '' if they never did."""
    (mine_S, one_S), (theirs_S, other_S) = rows_of_steps(first), rows_of_steps(second)
    shared_S, in_mine, in_theirs = np.intersect1d(mine_S, theirs_S, return_indices=True)
    if not len(shared_S):
        return _same_batches(first, second)
    one_S, other_S = one_S[in_mine], other_S[in_theirs]
    at = int(np.searchsorted(shared_S, step))
    if at < len(shared_S) and shared_S[at] == step and one_S[at] == other_S[at]:
        return f"the rows of the batch of step {step} are the same, in a different order"
    sums = [np.cumsum(s.astype(np.uint64)) % np.uint64(MODULUS) for s in (one_S, other_S)]
    again = np.flatnonzero((sums[0] == sums[1]) & (shared_S > step))
    if not len(again):
        return _same_batches(first, second)
    until = int(shared_S[again[0]])
    return f"in steps {step} to {until} both runs got the same rows, in a different order"


def _same_batches(first: Run, second: Run) -> str:
    """Return whether the batches are the same except for their order."""
    counts = [Counter(map(tuple, _batches(run).T.tolist())) for run in (first, second)]
    if counts[0] and counts[0] == counts[1]:
        return f"the {sum(counts[0].values()):,} batches are the same, in a different order"
    return ""


def _batches(run: Run) -> Digests:
    """Return digests of batches: one row per position in the batch that all batches have."""
    found = [s.values_S for s in run.scalars("digest:batch:*", mode=Mode.TRAIN)]
    found = found or [s.values_S for s in run.scalars("digest:input:*", mode=Mode.TRAIN)]
    length = min(map(len, found), default=0)
    return np.array([values[:length] for values in found]).reshape(len(found), length)


def agree_again(first: Run, second: Run) -> bool:
    """Return whether batches are equal again after the first batch that differs."""
    mine, theirs = _batches(first), _batches(second)
    if mine.shape[0] != theirs.shape[0]:
        return False
    length = min(mine.shape[1], theirs.shape[1])
    differs_B = (mine[:, :length] != theirs[:, :length]).any(axis=0)
    return bool(differs_B.any() and not differs_B[int(differs_B.argmax()) :].all())


def other_parts(first: Run, second: Run) -> list[str]:
    """Describe how many batches differ, and in which parts."""
    mine, theirs = _batches(first), _batches(second)
    if mine.shape[0] != theirs.shape[0] or not mine.size or not theirs.size:
        return []
    length = min(mine.shape[1], theirs.shape[1])
    differs = mine[:, :length] != theirs[:, :length]
    share = f"{int(differs.any(axis=0).sum()):,} of {length:,} batches differ"
    names = [s.of for s in first.scalars("digest:batch:*", mode=Mode.TRAIN)]
    parts = [name for name, row in zip(names, differs, strict=False) if row.any()]
    if names and len(parts) < len(names):
        verb = "differs" if len(parts) == 1 else "differ"
        return [share, f"only {' and '.join(map(_part, parts))} {verb} in them"]
    return [share]


def _part(name: str) -> str:
    """Name a part of a batch: `batch:loader 1.0` is the first element of loader 1."""
    loader, _, key = name.partition(":")[2].partition(".")
    if not key:
        return name
    if key.isdecimal():
        ordinal = ("first", "second", "third")[int(key) : int(key) + 1]
        return f"the {ordinal[0]} element of {loader}" if ordinal else f"element {key} of {loader}"
    return f"{key!r} of {loader}"


def random_states_agree(first: Run, second: Run, step: int) -> bool:
    """Return whether all generators that are drawn from had equal states up to a step."""
    mine, theirs = (
        {s.of: s for s in run.scalars("digest:rng.*", mode=Mode.TRAIN)} for run in (first, second)
    )
    drawn = [
        name
        for name in mine.keys() & theirs.keys()
        if any(map(_is_drawn, (mine[name], theirs[name])))
    ]
    return bool(drawn) and all(
        np.array_equal(_until(mine[name], step), _until(theirs[name], step)) for name in drawn
    )


def _until(states: Series, step: int) -> Digests:
    return states.values_S[states.steps_S <= step]


def _is_drawn(states: Series) -> bool:
    """Return whether the state of a generator changed."""
    return len(states) > 1 and bool((states.values_S != states.values_S[0]).any())


def same_samples(first: Run, second: Run, step: int) -> tuple[bool | None, str]:
    """Return whether the samplers of both runs chose the same samples for a step.

    Returns:
        The result, and a description in words; None and empty if the samples are not known by index
        or name.
    """
    mine, theirs = (_named(run, step) for run in (first, second))
    if not mine or not theirs:
        return None, ""
    if mine == theirs:
        return True, f"the samples of step {step} are the same by index or name"
    if len(mine) != len(theirs):
        return None, f"step {step} has {len(mine)} and {len(theirs)} samples"
    other = [row for row, pair in enumerate(zip(mine, theirs, strict=True)) if pair[0] != pair[1]]
    row = other[0]
    return False, (
        f"{len(other)} of the {len(mine)} samples of step {step} differ: row {row} is {mine[row]} "
        f"in the first run and {theirs[row]} in the second"
    )


def _named(run: Run, step: int) -> list[Sample]:
    """Return the samples of a step in row order; empty if a sample is known only by its bytes."""
    batches = [b for told in run.samples.at(step) for b in told.batches]
    samples = [sample for batch in batches for sample in batch.samples]
    known = all(sample.name or sample.index >= 0 for sample in samples)
    return samples if known and not any(batch.missing for batch in batches) else []
