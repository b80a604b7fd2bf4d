"""Copies of the inputs of a step: one per value, until the value changes."""

from __future__ import annotations

import math
import random
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from mothtrap.adapters.torch.job.readable import is_readable
from mothtrap.adapters.torch.job.tensor_refs import ContentRef
from mothtrap.adapters.torch.recording.generators import generator_tree
from mothtrap.adapters.torch.recording.redaction import (
    RedactingMaker,
    described,
    redaction,
)
from mothtrap.adapters.torch.recording.uncopied import Uncopied
from mothtrap.adapters.torch.recording.values import array_of, framework_tree, tensor_tree
from mothtrap.core.snapshots import Array, Tree
from mothtrap.snapshot.tree import MAX_VALUES, TreeMaker
from mothtrap.statistics.dtypes import NAMES
from mothtrap.statistics.torch.in_place import glimpse
from mothtrap.tracing.snapshots.blocks import Blocks, Bytes

POOLED_BYTES = 1 << 16
"""Minimum size of copies that reuse the memory of older copies: the allocator returns memory of
such sizes to the system, and a new page costs more than the copy into it.
"""
IDLE_SHARE = 8
"""Divisor of the ring's memory: at most this share is kept for reuse."""
VALUE_BYTES = 250
"""Approximate size of a value in a tree: measured."""
_OF_GRAPH: Tree = {"opaque": "a tensor with a graph, or a parameter"}
_BIG = 2**63
MAX_REPORTED = 3
"""Maximum number of reported parts of one value that could not be kept."""
MAX_KNOWN = 512
"""Number of values distinguished by identity before deleted ones are forgotten."""

_ROWS = {"compressed": "crow_indices", "plain": "col_indices", "values": "values"}
_COLUMNS = {"compressed": "ccol_indices", "plain": "row_indices", "values": "values"}
_PARTS = {
    torch.sparse_coo: {"indices": "_indices", "values": "_values"},
    torch.sparse_csr: _ROWS,
    torch.sparse_bsr: _ROWS,
    torch.sparse_csc: _COLUMNS,
    torch.sparse_bsc: _COLUMNS,
}
"""Parts of a sparse tensor by name, and the methods that return them."""

_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
_DTYPES = {getattr(torch, name): name for name in NAMES if hasattr(torch, name)}


class Copy:
    """A stored value: a tensor on its device, or a NumPy array.

    Attributes:
        key: key that refers to it in trees.
        nbytes: size in memory.
        tree: dictionary that refers to the value. All trees share it, because garbage collection
            takes longer if there are more objects.
    """

    __slots__ = ("__weakref__", "_block", "_blocks", "_glimpse", "_value", "key", "nbytes", "tree")

    def __init__(
        self,
        key: str,
        value: torch.Tensor | npt.NDArray[Any],
        block: Bytes | None = None,
        blocks: Blocks | None = None,
    ) -> None:
        self.key, self._value, self.tree = key, value, {"tensor": key}
        self._block, self._blocks = block, blocks
        self._glimpse: bytes | None = None  # nothing writes to the value
        self.nbytes = int(value.nbytes)

    def array(self) -> Array:
        """Return the value on the host for a file, read-only.

        Large values are not copied again: their memory is not reused as long as something refers to
        it.
        """
        if not isinstance(self._value, torch.Tensor):
            raw = self._value.reshape(-1).view(np.uint8)
            return Array(dtype=self._value.dtype.name, shape=self._value.shape, data=raw)
        if self._block is None:
            return array_of(self._value)
        name, shape = _DTYPES[self._value.dtype], tuple(self._value.shape)
        return Array(dtype=name, shape=shape, data=self._block)

    def same_bytes(self, array: npt.NDArray[Any]) -> bool:
        """Return whether a NumPy array has the same content."""
        own = self._value
        if not isinstance(own, np.ndarray) or own.dtype != array.dtype or own.shape != array.shape:
            return False
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return np.array_equal(own.reshape(-1).view(np.uint8), flat)

    def shows(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor of this shape and type equals this copy, using a sample."""
        found = glimpse(tensor)
        if not found or not isinstance(self._value, torch.Tensor):
            return True
        if self._glimpse is None:
            self._glimpse = glimpse(self._value)
        return found == self._glimpse

    def __del__(self) -> None:
        block, self._block = self._block, None
        del self._value
        # A view of the copy may still keep the block alive.
        if block is not None and self._blocks is not None and sys.getrefcount(block) == 2:
            self._blocks.give_back(block)


class Copies:
    """Creates trees of values, with copies of their arrays.

    If a tensor was copied before and has not been written to since (`_version`, and a few sampled
    bytes on the host), the existing copy is used, even from an earlier step.

    Attributes:
        batch: counts the points in time after which values may have been changed without a new
            version.
        used: copies that trees refer to, by key, until they are taken.
        missing: descriptions of data that could not be kept.

    Args:
        limit_bytes: limit on the memory of all copies, which also limits each value.
        redacted: returns whether only the type and shape are kept for a name.
        later_bytes: size above which a tensor is not copied, but looked up when the step is kept.
    """

    def __init__(
        self,
        limit_bytes: float,
        redacted: Callable[[str], bool] | None = None,
        later_bytes: float = 0,
    ) -> None:
        self._blocks = Blocks(limit_bytes / IDLE_SHARE)
        self._redacted, self._later_bytes = redacted, later_bytes
        self._known: dict[tuple[Any, ...], _Known] = {}
        self._keys = self.batch = 0
        self.used: dict[str, Copy | Uncopied] = {}
        self._most_bytes, self._what, self._later = math.inf, "", True
        self._tree_bytes = 0
        self.missing: dict[str, None] = {}

    def tree(
        self,
        value: Any,
        what: str,
        most_bytes: float = math.inf,
        most_values: int = MAX_VALUES,
        *,
        name: str | None = None,
        later: bool = True,
    ) -> Tree:
        """Convert a value to a tree, copying its arrays.

        Args:
            value: any value.
            what: description of the value, for values that cannot be kept.
            most_bytes: limit on one array in it.
            most_values: maximum number of values in total, not counting numbers and strings.
            name: name of the value; if it is redacted, only its type and shape are kept.
            later: a tensor that is too large may be looked up when the step is kept.
        """
        if name is not None and self._redacted is not None and self._redacted(name):
            return redaction(value)
        kind = type(value)
        if value is None or kind is bool or (kind is int and -_BIG < value < _BIG):
            return value  # type: ignore[no-any-return]
        if (kind is float and math.isfinite(value)) or (kind is str and value.isascii()):
            self._tree_bytes += VALUE_BYTES
            return value  # type: ignore[no-any-return]
        self._most_bytes, self._what, self._later = most_bytes, what, later
        if kind is torch.Tensor:
            return self._tensor(value)
        maker = self._maker(most_values)
        tree = maker.tree(value)
        self._tree_bytes += VALUE_BYTES * (1 + most_values - maker.left)
        for text in list(maker.opaque)[:MAX_REPORTED]:
            self.missing[f"{what}: {text}"] = None
        return tree

    def take(self) -> tuple[dict[str, Copy | Uncopied], int]:
        """Return the copies referenced since the last call, and the size of the trees in bytes."""
        used, self.used = self.used, {}
        size, self._tree_bytes = self._tree_bytes, 0
        return used, size

    def _maker(self, most_values: int) -> TreeMaker:
        if self._redacted is None:
            return TreeMaker(self._of_framework, self._array, most_values)
        return RedactingMaker(self._of_framework, self._array, most_values, self._redacted)

    def _of_framework(self, value: Any) -> Tree:
        if type(value) is torch.Tensor:
            return self._tensor(value)
        if isinstance(value, _GENERATORS):
            return generator_tree(value, self._plain_tree)
        return framework_tree(value, self._tensor)

    def _plain_tree(self, value: Any) -> Tree:
        return TreeMaker(lambda _: None, self._array).tree(value)

    def _tensor(self, tensor: torch.Tensor) -> Tree:
        if tensor.grad_fn is not None and tensor.requires_grad:  # a prediction passed to a loss
            return _OF_GRAPH
        # Values that were copied before can be copied again.
        copy = None if tensor.requires_grad else self._lookup((id(tensor),), tensor, tensor)
        if copy is None:
            if tensor.layout in _PARTS and type(tensor) is torch.Tensor:
                return self._sparse(tensor)
            reason = _why_not(tensor)
            if reason is not None:
                if reason:
                    self.missing[f"{self._what}: {reason}"] = None
                return {"opaque": reason} if reason else _OF_GRAPH
            copy = self._known_or_made(tensor)
        if copy is None:
            self.missing[f"{self._what}: {described(tensor)} is too large"] = None
            return {"opaque": f"{described(tensor)}, too large to be kept"}
        self.used[copy.key] = copy
        if tensor.is_cpu and not tensor.requires_grad and tensor.is_contiguous():
            return copy.tree  # a shortcut for the most frequent case
        return tensor_tree(tensor, copy.key)

    def _known_or_made(self, tensor: torch.Tensor) -> Copy | Uncopied | None:
        """Return the copy of a view or a tensor with gradient, or a new one; None if too large."""
        owner = tensor._base if tensor._base is not None else tensor
        mark: tuple[Any, ...] = (id(tensor),)
        if owner is not tensor or tensor.requires_grad:
            mark = _mark(tensor, owner)
            known = self._lookup(mark, owner, tensor)
            if known is not None:
                return known
        size, version = tensor.nbytes, -1 if tensor.is_inference() else tensor._version
        made: Copy | Uncopied
        if size <= self._most_bytes:
            made = self._copied(tensor, size)
        elif self._later and size <= self._later_bytes and version >= 0:
            what = f"{self._what}: {described(tensor)}"
            made = Uncopied(self._new_key(), tensor, what)
        else:
            return None
        if version >= 0:
            self._remember(mark, _Known(ContentRef(owner), version, weakref.ref(made), self.batch))
        return made

    def _sparse(self, tensor: torch.Tensor) -> Tree:
        fields: dict[str, Any] = {
            "layout": str(tensor.layout).removeprefix("torch."),
            "size": {"list": list(tensor.shape)},
        }
        if tensor.layout is torch.sparse_coo:
            fields["coalesced"] = tensor.is_coalesced()
        for name, method in _PARTS[tensor.layout].items():
            fields[name] = self._tensor(getattr(tensor.detach(), method)())
        return {"framework": "sparse", "fields": fields}

    def _array(self, array: npt.NDArray[Any]) -> Tree:
        if array.nbytes > self._most_bytes:
            self.missing[f"{self._what}: {described(array)} is too large"] = None
            return {"opaque": f"{described(array)}, too large to be kept"}
        mark = ("array", id(array) if array.flags.owndata else array.ctypes.data)
        known = self._known.get(mark)
        copy = known.copy() if known is not None else None
        # Arrays have no version: only a comparison shows whether they changed.
        if copy is None or not copy.same_bytes(array):
            copy = Copy(self._new_key(), np.array(array, order="C"))
            # Not a reference to the array, because NumPy does not resize an array with a weak
            # reference.
            reference = ContentRef(copy)
            self._known[mark] = _Known(reference, 0, reference, self.batch)
        self.used[copy.key] = copy
        return {"array": copy.key}

    def constants(self, value: Any) -> tuple[Tree, tuple[Copy, ...]]:
        """Return the tree of constant arrays and plain values, with its data.

        Args:
            value: an array, or dicts that contain arrays and plain values.
        """
        if isinstance(value, dict):
            parts = {name: self.constants(part) for name, part in value.items()}
            tree = {"dict": [[name, part] for name, (part, _) in parts.items()]}
            return tree, tuple(copy for _, copies in parts.values() for copy in copies)
        if isinstance(value, np.ndarray):
            copy = Copy(self._new_key(), value)
            return {"array": copy.key}, (copy,)
        return self.tree(value, "a random state"), ()

    def _new_key(self) -> str:
        self._keys += 1
        return f"s{self._keys}"

    def _copied(self, tensor: torch.Tensor, size: int) -> Copy:
        plain = tensor.detach() if tensor.requires_grad else tensor
        if size < POOLED_BYTES or not tensor.is_cpu:
            return Copy(self._new_key(), plain.clone(memory_format=torch.contiguous_format))
        block = self._blocks.take(size)
        place = torch.from_numpy(block).view(tensor.dtype).view(tensor.shape)
        place.copy_(plain)
        return Copy(self._new_key(), place, block, self._blocks)

    # Earlier copies

    def _lookup(
        self, mark: tuple[Any, ...], owner: torch.Tensor, tensor: torch.Tensor
    ) -> Copy | Uncopied | None:
        known = self._known.get(mark)
        if known is None or known.owner() is not owner or known.owner.swapped:
            return None
        version = -1 if tensor.is_inference() else tensor._version
        copy = known.copy() if known.version == version else None
        if known.batch != self.batch:
            if isinstance(copy, Copy) and not copy.shows(tensor):
                return None  # written to without the framework, such as a loader's reused memory
            known.batch = self.batch
        return copy

    def _remember(self, mark: tuple[Any, ...], known: _Known) -> None:
        if len(self._known) >= MAX_KNOWN:
            alive = {m: k for m, k in self._known.items() if k.owner() is not None and k.copy()}
            # If all values still exist, the older half is forgotten, and copied again when used.
            self._known = dict(list(alive.items())[-MAX_KNOWN // 2 :])
        self._known[mark] = known


class _Known:
    """A value that was copied.

    `owner` has its memory, which had been written to `version` times; `batch` is the value of
    `Copies.batch` at its last inspection.
    """

    __slots__ = ("batch", "copy", "owner", "version")

    def __init__(
        self, owner: ContentRef[Any], version: int, copy: weakref.ref[Any], batch: int
    ) -> None:
        self.owner, self.version, self.copy, self.batch = owner, version, copy, batch


def _why_not(tensor: torch.Tensor) -> str | None:
    """Return the reason why a tensor is not copied: "" if not needed, None if it is copied."""
    if tensor.requires_grad and (tensor.grad_fn is not None or isinstance(tensor, nn.Parameter)):
        return ""
    if type(tensor) is not torch.Tensor and not isinstance(tensor, nn.Parameter):
        return f"a {type(tensor).__name__}"
    if tensor.is_nested or tensor.layout is not torch.strided or tensor.is_quantized:
        return f"a tensor of layout {tensor.layout}"
    if not is_readable(tensor):
        return f"a {tensor.device.type} tensor whose values do not exist"
    return None if tensor.dtype in _DTYPES else f"a tensor of {tensor.dtype}"


def _mark(tensor: torch.Tensor, owner: torch.Tensor) -> tuple[Any, ...]:
    if tensor is owner:
        return (id(tensor),)
    where = tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype
    return (id(owner), *where, tensor.is_conj(), tensor.is_neg())
