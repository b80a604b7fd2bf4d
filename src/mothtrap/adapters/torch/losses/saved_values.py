"""Read the tensors that the nodes of an autograd graph saved for the backward pass.

No code of the user is called. A saved tensor with hooks is not read, because unpacking it may run a
checkpointed forward again. Nodes of user-defined functions and of compiled code are not read,
either. `_raw_saved_*` is private to PyTorch, and covered by the tests of this file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import torch

from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.statistics import torch as arithmetic

Node: TypeAlias = Any  # torch.autograd.graph.Node, whose attributes differ by operation

READ_BYTES = 64 * 2**20
"""Maximum number of bytes read in one search. Chosen by hand: about 20 ms."""
MAX_NODES = 20_000
"""Maximum number of visited nodes of a graph in one search."""
_RAW = "_raw_saved_"
_ABSENT = object()


class SavedValues:
    """Saved tensors, each read at most once, up to a limit in bytes.

    Args:
        left_bytes: number of bytes that may still be read.
    """

    def __init__(self, left_bytes: int = READ_BYTES) -> None:
        self._left_bytes = left_bytes
        self._names: dict[str, tuple[str, ...]] = {}
        self._finite: dict[tuple[int, int, tuple[int, ...]], tuple[bool, torch.Tensor]] = {}

    def of(self, node: Node) -> dict[str, torch.Tensor]:
        """Return a node's saved plain tensors, by their names in its formula."""
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            return {}
        kind = str(node.name())
        names = self._names.get(kind)
        if names is None:
            found = (name for name in dir(node) if name.startswith(_RAW))
            names = self._names[kind] = tuple(name.removeprefix(_RAW) for name in found)
        tensors: dict[str, torch.Tensor] = {}
        for name in names:
            saved = _read(node, name)
            if saved is not None and is_plain(saved):
                tensors[name] = saved.detach()
        return tensors

    def is_finite(self, tensor: torch.Tensor) -> bool | None:
        """Return whether all values are finite; None if the limit was reached."""
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return True
        key = tensor.data_ptr(), tensor._version, tuple(tensor.shape)
        if key in self._finite:
            return self._finite[key][0]
        if tensor.nbytes > self._left_bytes:
            return None
        self._left_bytes -= tensor.nbytes
        finite = not any(arithmetic.nonfinite_counts(tensor))
        self._finite[key] = finite, tensor  # kept, because another one could get the same address
        return finite


def _read(node: Node, name: str) -> torch.Tensor | None:
    """Return a saved tensor that has no hooks and was not changed since, else None."""
    try:
        raw = getattr(node, _RAW + name)
        if isinstance(raw, tuple) or getattr(raw, "unpack_hook", _ABSENT) is not None:
            return None
        saved = getattr(node, f"_saved_{name}")
    except RuntimeError:  # changed in place, or freed by a backward pass
        return None
    return saved if isinstance(saved, torch.Tensor) else None


def nodes_in_order(root: Node) -> list[Node]:
    """Return the nodes of a graph in forward order, without leaves."""
    known, waiting = {root}, [root]
    while waiting and len(known) <= MAX_NODES:
        for following in producers(waiting.pop()):
            if following not in known:
                known.add(following)
                waiting.append(following)
    return sorted(known, key=lambda node: int(node._sequence_nr()))


def producers(node: Node) -> Iterator[Node]:
    """Yield the nodes that produced a node's inputs."""
    for following, _ in node.next_functions:
        if following is not None and not hasattr(following, "variable"):
            yield following
