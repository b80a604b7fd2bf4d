"""Formatting of tensors and modules as in the user's code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn

from mothtrap.adapters.torch.job.naming import NameBook, class_name
from mothtrap.statistics.torch.dtypes import type_name

MAX_LISTED = 8
"""Maximum number of tensors of a list, or of numbers, that are listed individually."""


def shape(tensor: torch.Tensor) -> str:
    """Format the shape of a tensor: `(32, 64)`."""
    try:
        return str(tuple(tensor.shape))
    except RuntimeError:  # a nested tensor
        return "ragged"


def dtype(tensor: torch.Tensor) -> str:
    """Format the element type of a tensor: `float32`."""
    return type_name(tensor.dtype)


def tensor(value: torch.Tensor) -> str:
    """Format a tensor: `float32 (32, 64)`, with its device if it is not the CPU."""
    place = "" if value.device.type == "cpu" else f" on {value.device}"
    return f"{dtype(value)} {shape(value)}{place}"


def value(given: Any) -> str:
    """Format any argument without calling the `repr` of user classes."""
    if isinstance(given, torch.Tensor):
        return tensor(given)
    if type(given) in (list, tuple):
        parts = [value(part) for part in given[:MAX_LISTED]]
        more = ", ..." if len(given) > MAX_LISTED else ""
        return f"a {type(given).__name__} of {len(given)} ({', '.join(parts)}{more})"
    if type(given) in (int, float, bool, str, type(None)):
        return repr(given)[:80]
    kind = type(given).__name__
    return f"{'an' if kind[:1] in 'aeioun' else 'a'} {kind}"


def named(module: nn.Module, book: NameBook) -> str:
    """Format a module with its construction: `fc1 (nn.Linear(128, 10), model.py:14)`."""
    made, place = construction(module), book.location(module)
    about = ", ".join(part for part in (made, place) if part)
    path = path_of(module, book)
    return f"{path} ({about})" if path != made else f"{path} ({place})" if place else path


def path_of(module: nn.Module, book: NameBook) -> str:
    """Return the path of a module in its model, or its class if it has none."""
    return book.module_name(module)


def construction(module: nn.Module) -> str:
    """Format the construction of a framework module; for other modules, the class."""
    name = class_name(module)
    if not type(module).__module__.startswith("torch.nn"):
        return name
    return f"nn.{name}" + _arguments(module)


def _arguments(module: nn.Module) -> str:
    values: Iterable[Any] = ()
    if isinstance(module, nn.Linear):
        values = module.in_features, module.out_features
    elif isinstance(module, nn.modules.conv._ConvNd):
        size = module.kernel_size
        values = module.in_channels, module.out_channels, size[0] if len(set(size)) == 1 else size
    elif isinstance(module, nn.modules.batchnorm._NormBase):
        values = (module.num_features,)
    elif isinstance(module, nn.Embedding | nn.EmbeddingBag):
        values = module.num_embeddings, module.embedding_dim
    elif isinstance(module, nn.LayerNorm):
        values = (module.normalized_shape,)
    elif isinstance(module, nn.GroupNorm):
        values = module.num_groups, module.num_channels
    elif isinstance(module, nn.RNNBase):
        values = module.input_size, module.hidden_size
    elif isinstance(module, nn.MultiheadAttention):
        values = module.embed_dim, module.num_heads
    values = [str(value) for value in values]
    return f"({', '.join(values)})" if values else ""


def listed(numbers: Sequence[object], most: int = MAX_LISTED) -> str:
    """Format some of the numbers: `1, 2, 3 and 14 more`."""
    text = ", ".join(str(number) for number in numbers[:most])
    return text + (f" and {len(numbers) - most} more" if len(numbers) > most else "")


def samples(indices: Sequence[int]) -> str:
    """Format sample indices: `sample 7`, `samples 32 to 63`, or some of them."""
    if len(indices) == 1:
        return f"sample {indices[0]}"
    if len(indices) > 2 and list(indices) == list(range(indices[0], indices[0] + len(indices))):
        return f"samples {indices[0]} to {indices[-1]}"
    return f"samples {listed(indices)}"


def joined(parts: Sequence[str]) -> str:
    """Format a list: `a, b and c`."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def inputs_in_words(given: Iterable[tuple[str, Any]]) -> tuple[str, ...]:
    """Format every argument with its name: `x: float32 (32, 64)`."""
    return tuple(f"{name}: {value(one)}" for name, one in given)[:MAX_LISTED]
