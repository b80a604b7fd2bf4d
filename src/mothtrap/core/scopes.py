"""Part of a tensor that a worker holds, as a text that people and readers understand.

`TensorInfo.scope` has one part for each way in which the tensor is distributed over workers, joined
by `; `:

    replica                   the same on every worker
    shard 1/2 of dim 0        the first of two pieces along an axis; pieces count from 1
    partial sum               the values of all workers add up to the tensor

A part ends in ` over NAME` if the framework names the group of workers, e.g.
`shard 2/4 of dim 1 over tp`. If the scope is empty, the worker holds its own tensor.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

import msgspec

REPLICA = "replica"
PARTIAL = "partial sum"
_SHARD = re.compile(r"shard ([0-9]{1,9})/([0-9]{1,9}) of dim (-?[0-9]{1,9})")


class Shard(msgspec.Struct, frozen=True):
    """One of `count` pieces along the axis `dim`; `index` counts from 1."""

    index: int
    count: int
    dim: int

    def __str__(self) -> str:
        return f"shard {self.index}/{self.count} of dim {self.dim}"


class Scope(msgspec.Struct, frozen=True):
    """A parsed scope.

    `shards` are the axes along which the tensor is cut; `mergeable` is False if the statistics of
    the whole tensor cannot be computed from the statistics of the pieces (`partial sum`, or a term
    of a later version).
    """

    replicated: bool = False
    shards: tuple[Shard, ...] = ()
    mergeable: bool = True

    @property
    def pieces(self) -> int:
        """Number of different pieces that make up the whole."""
        return math.prod(shard.count for shard in self.shards)


def scope_words(parts: Iterable[tuple[str, str]]) -> str:
    """Join the parts of a scope, each with the name of its worker group ('' if it has none)."""
    return "; ".join(f"{part} over {over}" if over else part for part, over in parts)


def parse_scope(words: str) -> Scope:
    """Parse a scope; never fails, because unknown words make it not mergeable."""
    replicated, shards, mergeable = False, [], True
    for part in filter(None, words.split("; ")):
        what = part.partition(" over ")[0]
        shard = _SHARD.fullmatch(what)
        if what == REPLICA:
            replicated = True
        elif shard:
            index, count, dim = (int(number) for number in shard.groups())
            shards.append(Shard(index, count, dim))
            mergeable = mergeable and 1 <= index <= count
        else:
            mergeable = False
    return Scope(replicated, tuple(shards), mergeable)
