"""Copy many tensors at once, into one memory block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mothtrap.adapters.torch.recording.values import PLAIN, tensor_tree
from mothtrap.core.snapshots import Array, Tree
from mothtrap.statistics.torch.plain import local
from mothtrap.statistics.torch.raw import describe, gather_bytes

ALIGNED = 64
"""Alignment of tensors in bytes, as in torch's own memory."""


class CopiedArrays(Mapping[str, Array]):
    """Arrays by key, mostly in one memory block, created on access.

    Attributes:
        memory: uint8 memory of the arrays.
        size_bytes: required size of the memory.
    """

    def __init__(self) -> None:
        self._placed: dict[str, tuple[str, tuple[int, ...], int, int]] = {}
        self._whole: dict[str, Array] = {}
        self.memory: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        self.size_bytes = 0

    def place(self, key: str, dtype: str, shape: tuple[int, ...], size: int) -> int:
        """Allocate an array in the memory block; return its offset."""
        begin = self.size_bytes
        self._placed[key] = dtype, shape, begin, begin + size
        self.size_bytes += -(-size // ALIGNED) * ALIGNED
        return begin

    def add(self, key: str, array: Array) -> None:
        """Add an array stored elsewhere."""
        self._whole[key] = array

    def __getitem__(self, key: str) -> Array:
        """Return the array of a key."""
        if key in self._whole:
            return self._whole[key]
        dtype, shape, begin, end = self._placed[key]
        return Array(dtype=dtype, shape=shape, data=self.memory[begin:end])

    def __iter__(self) -> Iterator[str]:
        """Yield the keys."""
        return iter([*self._placed, *self._whole])

    def __len__(self) -> int:
        """Return the number of arrays."""
        return len(self._placed) + len(self._whole)


class Gathered:
    """Tensors to copy, each once, with their keys.

    Args:
        earlier: values, by the `id` of a tensor, that replace its current content.

    Attributes:
        arrays: copied arrays, by key.
    """

    def __init__(self, earlier: Mapping[int, torch.Tensor]) -> None:
        self._earlier = earlier
        self._of: dict[int, str] = {}
        self._keys: set[str] = set()
        self.arrays = CopiedArrays()
        self._tensors: list[torch.Tensor] = []
        self._begins: list[int] = []

    def add(self, value: Any, name: str) -> None:
        """Add the tensors in a value under a name, numbered if necessary."""
        if isinstance(value, torch.Tensor):
            if id(value) not in self._of and value.device.type != "meta":
                self._add(value, self._free(name))
        elif isinstance(value, dict):
            for item in value.values():
                self.add(item, name)
        elif isinstance(value, list | tuple):
            for item in value:
                self.add(item, name)

    def _add(self, tensor: torch.Tensor, key: str) -> None:
        self._of[id(tensor)] = key
        own = self._earlier.get(id(tensor), tensor) if self._earlier else tensor
        values = own if type(own) in PLAIN else local(own)
        self._tensors.append(values)
        self._begins.append(self.arrays.place(key, *describe(values)))

    def tree(self, tensor: torch.Tensor) -> Tree:
        """Return the tree of an added tensor."""
        key = self._of.get(id(tensor))
        if tensor.device.type == "meta":
            return {"opaque": "a tensor without memory"}
        if key is None:
            return {"opaque": "a tensor that was created in the meantime"}
        return tensor_tree(tensor, key)

    def array(self, values: npt.NDArray[Any]) -> Tree:
        """Return the tree of a NumPy array, and copy it to `arrays`."""
        key = self._free("array")
        data = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
        self.arrays.add(key, Array(dtype=values.dtype.name, shape=values.shape, data=data))
        return {"array": key}

    def _free(self, name: str) -> str:
        key, number = name, 1
        while key in self._keys:
            number += 1
            key = f"{name}#{number}"
        self._keys.add(key)
        return key

    def copy(self, memory: npt.NDArray[np.uint8]) -> None:
        """Copy all tensors into memory of at least `arrays.size_bytes`."""
        gather_bytes(self._tensors, self._begins, memory)
        self.arrays.memory = memory
        self._tensors.clear()  # release the tensors before the arrays are written
