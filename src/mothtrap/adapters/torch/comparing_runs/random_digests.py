"""Digests of the states of random number generators, computed without drawing numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xxhash

from mothtrap.adapters.torch.job.randomness import RandomStates


class RandomDigests:
    """Digests of all global generators, recomputed when a state has changed.

    Args:
        states: reader of the states; may be shared.
    """

    def __init__(self, states: RandomStates | None = None) -> None:
        self._states = states or RandomStates()
        self._known: dict[str, tuple[Any, int]] = {}

    def read(self) -> list[tuple[str, int]]:
        """Return the name of every generator, `rng.python` or `rng.cuda:0`, with its digest.

        `rng.torch` is the framework's own generator on the host. Devices that are not in use are
        skipped.
        """
        found = []
        for name, state in self._states.read():
            known = self._known.get(name)
            if known is None or known[0] is not state:
                hashed = xxhash.xxh3_64()
                _update(hashed, state)
                known = self._known[name] = state, hashed.intdigest()
            found.append(("rng.torch" if name == "cpu" else f"rng.{name}", known[1]))
        return found


def _update(hashed: xxhash.xxh3_64, state: Any) -> None:
    if isinstance(state, Mapping):
        for key in sorted(state):
            hashed.update(key.encode())
            _update(hashed, state[key])
    elif isinstance(state, np.ndarray):
        hashed.update(state.tobytes())
    else:
        hashed.update(repr(state).encode())


def random_digests() -> list[tuple[str, int]]:
    """Return the digests of all generators now; see `RandomDigests.read`."""
    return RandomDigests().read()
