"""Conversion of PyTorch values to trees and arrays, and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer

from mothtrap.adapters.torch.recording.generators import KINDS, generator_of
from mothtrap.core.errors import DamagedSnapshotError
from mothtrap.core.snapshots import Array, Tree
from mothtrap.statistics.torch.in_place import as_array
from mothtrap.statistics.torch.plain import local
from mothtrap.statistics.torch.raw import copy_bytes, describe

PLAIN = (torch.Tensor, nn.Parameter)
"""Tensor types without separate local parts."""

_BY_NAME = (torch.dtype, torch.device, torch.memory_format, torch.layout)


def array_of(tensor: torch.Tensor) -> Array:
    """Return a host copy of a tensor; for a distributed tensor, of this worker's shard."""
    dtype, shape, size = describe(tensor)
    data = np.empty(size, np.uint8)
    copy_bytes(tensor, data)
    return Array(dtype=dtype, shape=shape, data=data)


def tensor_tree(tensor: torch.Tensor, key: str) -> dict[str, Any]:
    """Return the tree of a tensor whose elements are stored under a key."""
    tree: dict[str, Any] = {"tensor": key}
    if tensor.device.type != "cpu":
        tree["device"] = str(tensor.device)
    if tensor.requires_grad and tensor.is_leaf:
        tree["requires_grad"] = True
    values = tensor if type(tensor) in PLAIN else local(tensor)
    if values.layout is torch.strided and not values.is_contiguous() and _is_dense(values):
        tree["strides"] = list(values.stride())
    return tree


def framework_tree(value: Any, keep: Callable[[torch.Tensor], Tree]) -> Tree:
    """Return the tree of a PyTorch value; None for other values.

    Args:
        value: any value.
        keep: returns the tree of a tensor.
    """
    if isinstance(value, torch.Tensor):
        return keep(value)
    if isinstance(value, _BY_NAME):
        return {"framework": type(value).__name__, "fields": {"name": str(value)}}
    if isinstance(value, torch.Size):
        return {"tuple": list(value)}
    if isinstance(value, torch.Generator):
        fields = {"device": str(value.device), "state": keep(value.get_state())}
        return {"framework": "Generator", "fields": fields}
    if isinstance(value, nn.Module | Optimizer):
        return {"opaque": f"{type(value).__module__}.{type(value).__qualname__}"}
    return None


def framework_value(
    arrays: Mapping[str, Array], device: str | None = None
) -> Callable[[dict[str, Any]], Any]:
    """Recreate a PyTorch value for `snapshot.tree.value_of`.

    For the same key, one returned function always gives the same tensor.

    Args:
        arrays: arrays by key.
        device: device of the tensors; None = as recorded, or the CPU if that device is missing.
    """
    tensors: dict[str, torch.Tensor] = {}

    def made(tree: dict[str, Any]) -> Any:
        if "tensor" in tree:
            key = tree["tensor"]
            if key not in tensors:
                tensors[key] = tensor_of(arrays[key], tree, device)
            return tensors[key]
        kind, fields = tree["framework"], tree["fields"]
        if kind in KINDS:
            return generator_of(kind, fields.get("state"))
        if kind == "sparse":
            return sparse_of(fields)
        if kind == "Generator":
            generator = torch.Generator(_present(device or fields["device"]))
            state: torch.Tensor = fields["state"]
            generator.set_state(state.cpu())
            return generator
        if kind == "device":
            return torch.device(fields["name"] if device is None else device)
        found = getattr(torch, str(fields["name"]).removeprefix("torch."), None)
        if not isinstance(found, _BY_NAME):
            raise DamagedSnapshotError(
                f"the snapshot names {fields['name']!r}, which PyTorch does not have"
            )
        return found

    return made


def tensor_of(array: Array, tree: Mapping[str, Any], device: str | None = None) -> torch.Tensor:
    """Create a tensor from an array and its tree (see `tensor_tree`)."""
    dtype = getattr(torch, array.dtype, None)
    if not isinstance(dtype, torch.dtype):
        raise DamagedSnapshotError(f"PyTorch has no element type {array.dtype!r}")
    size = math.prod(array.shape) * dtype.itemsize
    if size != array.data.nbytes:
        raise DamagedSnapshotError(f"an array has {array.data.nbytes:,} bytes, not {size:,}")
    # The memory must belong to torch, so that the script can resize the tensor, as in the run.
    flat = torch.empty(size, dtype=torch.uint8)
    as_array(flat)[:] = array.data
    flat = flat.view(dtype)
    tensor = flat.reshape(array.shape)
    strides = tree.get("strides")
    if strides is not None:
        tensor = torch.empty_strided(array.shape, strides, dtype=dtype).copy_(tensor)
    tensor = tensor.to(_present(device or tree.get("device", "cpu")))
    return tensor.requires_grad_() if tree.get("requires_grad") else tensor


def sparse_of(fields: Mapping[str, Any]) -> torch.Tensor:
    """Create a sparse tensor from its parts.

    Raises:
        DamagedSnapshotError: the parts do not form a sparse tensor.
    """
    try:
        size, layout = tuple(fields["size"]), str(fields["layout"])
        if layout == "sparse_coo":
            made = torch.sparse_coo_tensor(
                fields["indices"], fields["values"], size, check_invariants=True
            )
            return made._coalesced_(bool(fields["coalesced"]))
        return torch.sparse_compressed_tensor(
            *(fields["compressed"], fields["plain"], fields["values"], size),
            layout=getattr(torch, layout),
            check_invariants=True,
        )
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError) as err:
        raise DamagedSnapshotError(f"the snapshot has no valid sparse tensor: {err}") from err


def _present(device: str) -> torch.device:
    """Return the device, or the CPU on a machine without that device."""
    wanted = torch.device(device)
    if wanted.type in ("cpu", "meta"):
        return wanted
    backend = getattr(torch, wanted.type, None)
    count = backend.device_count() if backend is not None else 0
    return wanted if (wanted.index or 0) < count else torch.device("cpu")


def _is_dense(tensor: torch.Tensor) -> bool:
    """Return whether the elements are contiguous in memory, in any order of the axes."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride != expected:
                return False
            expected *= size
    return True
