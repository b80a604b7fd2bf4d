"""Names of the rows in the batch: keys, paths or identifiers from the dataset."""

from __future__ import annotations

from typing import Any

from mothtrap.adapters.torch.job.nested import parts_of

WORDS = ("key", "path", "file", "name", "url", "id")
"""Words that mark keys of a batch with names of rows, best first."""
MAX_NAMES, MAX_LENGTH = 256, 200
"""Maximum number of names of a batch, and of characters per name."""


def names_in(batch: Any, drawn: object = None) -> tuple[str, ...]:
    """Return the names of a batch's rows; empty if there are none.

    Args:
        batch: batch from a loader; a list of strings in it counts if its key contains one of
            `WORDS`, or if its place is a number.
        drawn: samples that the sampler drew; used if they are a list of strings.
    """
    found = _texts(drawn)
    if found:
        return found
    best: tuple[int, tuple[str, ...]] | None = None
    for key, value in parts_of(batch):
        names = _texts(value)
        if names:
            lower = key.lower().strip("_")
            rank = next((i for i, word in enumerate(WORDS) if word in lower), None)
            if rank is None and key.isdigit():
                rank = len(WORDS)
            if rank is not None and (best is None or rank < best[0]):
                best = rank, names
    return best[1] if best is not None else ()


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not value:
        return ()
    few = value[:MAX_NAMES]
    if not all(type(name) is str for name in few):
        return ()
    return tuple(name[:MAX_LENGTH] for name in few)
