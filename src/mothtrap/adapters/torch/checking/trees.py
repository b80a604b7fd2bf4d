"""Tensors in the arguments of a call: convert them to arrays by path, and insert them again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils import _pytree as pytree

from mothtrap.statistics.torch.in_place import as_array

Array = npt.NDArray[Any]


def copied(value: Any) -> Any:
    """Return nested arguments with graph-free copies of their tensors."""
    return mapped(value, lambda tensor: tensor.detach().clone())


def mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return nested arguments with a function applied to each tensor."""
    return pytree.tree_map_only(torch.Tensor, change, value)


def tensors(value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors in nested arguments by path, such as `0` or `0.mask`."""
    for path, leaf in pytree.tree_flatten_with_path(value)[0]:
        if isinstance(leaf, torch.Tensor):
            yield ".".join(_word(key) for key in path), leaf


def replaced(value: Any, arrays: Mapping[str, Array]) -> Any:
    """Return nested arguments with the tensors at given paths replaced by arrays."""

    def change(path: Any, leaf: Any) -> Any:
        array = arrays.get(".".join(_word(key) for key in path))
        if array is None or not isinstance(leaf, torch.Tensor):
            return leaf
        made = torch.from_numpy(np.ascontiguousarray(array)).to(leaf.dtype).to(leaf.device)
        if leaf.layout != torch.strided:
            made = made.to_sparse(layout=leaf.layout)
        return made.requires_grad_(leaf.requires_grad)

    return pytree.tree_map_with_path(change, value)


def array_of(tensor: torch.Tensor) -> Array:
    """Return the values of a tensor; 16-bit floats become float32, sparse tensors dense."""
    plain = tensor.detach()
    if plain.layout != torch.strided:
        plain = plain.to_dense()
    if plain.dtype in (torch.bfloat16, torch.float16):
        plain = plain.float()
    return as_array(plain.cpu()).copy()


def floating(value: Any) -> list[torch.Tensor]:
    """Return the floating-point tensors in nested outputs, dataclasses and mappings."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, Mapping):
        return [tensor for part in value.values() for tensor in floating(part)]
    if isinstance(value, list | tuple):
        return [tensor for part in value for tensor in floating(part)]
    if hasattr(value, "__dataclass_fields__"):
        return [t for name in value.__dataclass_fields__ for t in floating(getattr(value, name))]
    return []


def _word(key: Any) -> str:
    for name in ("idx", "key", "name"):
        if hasattr(key, name):
            return str(getattr(key, name))
    return str(key)
