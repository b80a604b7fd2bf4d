"""Parameters that a library does not know, and ignores."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from typing import Final

SIMILAR: Final = 0.8
"""Minimum similarity of a misspelled name and the intended one, as `difflib` measures it; chosen by
hand. Names of other libraries' parameters are less similar."""


def misspelled(given: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """Return the unknown names of parameters that resemble a known one.

    Args:
        given: names of the parameters that the script passes.
        known: names that the library knows.
    """
    found = {}
    for name in given:
        if name not in known:
            nearest = difflib.get_close_matches(name, known, n=1, cutoff=SIMILAR)
            if nearest:
                found[name] = nearest[0]
    return found
