"""Random states as they are recorded: a state that has not changed is the tree that there is."""

from __future__ import annotations

from typing import Any

from mothtrap.adapters.torch.job.randomness import RandomStates
from mothtrap.adapters.torch.reproduce.recording.copies import Copies, Copy
from mothtrap.core.snapshots import Tree


class RandomTrees:
    """Makes trees of the states of all generators.

    Args:
        states: reads them.
        copies: is told which arrays the trees name.
    """

    def __init__(self, states: RandomStates, copies: Copies) -> None:
        self._states, self._copies = states, copies
        self._known: dict[str, tuple[Any, Tree, tuple[Copy, ...]]] = {}

    def read(self) -> Tree:
        """Return the tree of the states as they are."""
        trees: list[Any] = []
        used: list[Copy] = []
        for name, state in self._states.read():
            known = self._known.get(name)
            if known is None or known[0] is not state:
                known = self._known[name] = (state, *self._copies.constants(state))
            used += known[2]
            trees.append([name, known[1]])
        self._copies.use(used)
        return {"dict": trees}
