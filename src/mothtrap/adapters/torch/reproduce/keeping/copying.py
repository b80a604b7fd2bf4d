"""Many tensors copied at once, into one piece of memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mothtrap.adapters.torch.reproduce.keeping.values import PLAIN, tensor_tree
from mothtrap.core.snapshots import Array, Tree
from mothtrap.statistics.torch.dtypes import type_name
from mothtrap.statistics.torch.plain import local
from mothtrap.statistics.torch.raw import copy_bytes, describe

ALIGNED = 64
"""Bytes at whose multiples the elements of another type begin, as torch's own memory does."""

_Group = list[tuple[str, torch.Tensor]]


class Gathered:
    """Tensors that are to be copied, each once, and their keys.

    Args:
        earlier: values, by the `id` of a tensor, that stand for what it holds now.

    Attributes:
        arrays: what was copied, by key.
    """

    def __init__(self, earlier: Mapping[int, torch.Tensor]) -> None:
        self._earlier = earlier
        self._of: dict[int, str] = {}
        self._keys: set[str] = set()
        self.arrays: dict[str, Array] = {}
        self._groups: dict[torch.dtype, _Group] = {}
        self._others: _Group = []

    def add(self, value: Any, name: str) -> None:
        """Have the tensors in a value copied, under a name, or one with a number behind."""
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
        values = own.detach() if type(own) in PLAIN else local(own)
        if _lies_flat(values):
            self._groups.setdefault(values.dtype, []).append((key, values))
        else:
            self._others.append((key, values))

    def tree(self, tensor: torch.Tensor) -> Tree:
        """Return the tree of a tensor that was added."""
        key = self._of.get(id(tensor))
        if tensor.device.type == "meta":
            return {"opaque": "a tensor that was never given memory"}
        if key is None:
            return {"opaque": "a tensor that came to be meanwhile"}
        return tensor_tree(tensor, key)

    def array(self, values: npt.NDArray[Any]) -> Tree:
        """Return the tree of a numpy array, and copy it into `arrays`."""
        key = self._free("array")
        data = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
        self.arrays[key] = Array(dtype=values.dtype.name, shape=values.shape, data=data)
        return {"array": key}

    def _free(self, name: str) -> str:
        key, number = name, 1
        while key in self._keys:
            number += 1
            key = f"{name}#{number}"
        self._keys.add(key)
        return key

    @property
    def size_bytes(self) -> int:
        """Memory that `copied` needs."""
        flat = sum(_rounded(_size(group)) for group in self._groups.values())
        return flat + sum(_rounded(describe(tensor)[2]) for _, tensor in self._others)

    def copy(self, memory: npt.NDArray[np.uint8]) -> None:
        """Copy all of them into memory that is large enough: into `arrays`."""
        found, begin = self.arrays, 0
        for dtype, group in self._groups.items():
            size = _size(group)
            place = torch.from_numpy(memory[begin : begin + size]).view(dtype)
            torch.cat([tensor.view(-1) for _, tensor in group], out=place)
            name, end = type_name(dtype), begin
            for key, tensor in group:
                own, end = end, end + tensor.nbytes
                found[key] = Array(dtype=name, shape=tuple(tensor.shape), data=memory[own:end])
            begin += _rounded(size)
        for key, tensor in self._others:
            name, shape, size = describe(tensor)
            data = memory[begin : begin + size]
            if size:
                copy_bytes(tensor, data)
            found[key] = Array(dtype=name, shape=shape, data=data)
            begin += _rounded(size)


def _lies_flat(tensor: torch.Tensor) -> bool:
    """Whether a tensor lies on the host in C order, as it is."""
    return (
        tensor.is_cpu
        and tensor.layout is torch.strided
        and tensor.is_contiguous()
        and not (tensor.is_neg() or tensor.is_conj() or tensor.is_quantized)
        and tensor.nbytes > 0
    )


def _size(group: _Group) -> int:
    return sum(tensor.nbytes for _, tensor in group)


def _rounded(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED
