"""Trees of random states; an unchanged state keeps its tree."""

from __future__ import annotations

from typing import Any

from mothtrap.adapters.torch.job.randomness import RandomStates
from mothtrap.adapters.torch.recording.copies import Copies, Copy
from mothtrap.core.snapshots import Tree


class RandomTrees:
    """Creates trees of all generator states.

    Args:
        states: reader of the states.
        copies: records which arrays the trees use.
    """

    def __init__(self, states: RandomStates, copies: Copies) -> None:
        self._states, self._copies = states, copies
        self._known: dict[str, tuple[Any, Tree, tuple[Copy, ...]]] = {}
        self._read: list[tuple[str, Any]] = []
        self._tree: Tree = None
        self._used: dict[str, Copy] = {}

    def read(self) -> Tree:
        """Return the tree of the current states."""
        read = self._states.read()
        if read is not self._read:
            trees: list[Any] = []
            used: dict[str, Copy] = {}
            for name, state in read:
                known = self._known.get(name)
                if known is None or known[0] is not state:
                    known = self._known[name] = (state, *self._copies.constants(state))
                for copy in known[2]:
                    used[copy.key] = copy
                trees.append([name, known[1]])
            self._read, self._used, self._tree = read, used, {"dict": trees}
        self._copies.used |= self._used
        return self._tree
