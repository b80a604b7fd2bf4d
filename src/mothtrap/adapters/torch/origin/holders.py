"""Names of the inputs of a step: weights, buffers, batches, arguments of models."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from mothtrap.adapters.torch.job.naming import NameBook, strip_wrappers
from mothtrap.adapters.torch.job.nested import placed_tensors


class Holders:
    """Names of tensors by the memory that they share.

    Args:
        book: names of modules.
    """

    def __init__(self, book: NameBook) -> None:
        self._book = book
        self._names: dict[int, str] = {}

    def batch(self, value: Any) -> None:
        """Record a batch from a loader."""
        for place, tensor in placed_tensors(value):
            self._name(tensor, f"batch[{_key(place)}]" if place else "the batch")

    def variables(self, values: Mapping[str, Any]) -> None:
        """Record variables set in the user's code."""
        for name, value in values.items():
            for place, tensor in placed_tensors(value):
                self._name(tensor, f"{name}[{_key(place)}]" if place else name)

    def called(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Record the call of an outermost module."""
        path = self.path(module)
        for name, weight in module.named_parameters():
            self._name(weight, f"weight {strip_wrappers(name)}")
        for name, buffer in module.named_buffers():
            self._name(buffer, f"buffer {strip_wrappers(name)}")
        for name, value in _by_name(module, args, kwargs).items():
            for place, tensor in placed_tensors(value):
                own = f"{name}[{_key(place)}]" if place else name
                self._name(tensor, f"argument {own} of {path}")

    def path(self, module: nn.Module) -> str:
        """Return the path of a module in its model."""
        if self._book.root_of(module) is None:
            self._book.add_root(self._book.top(module))
        return self._book.module_name(module)

    def of(self, memory: int) -> str | None:
        """Return the name of the tensor that owns the memory at an address; None if unknown."""
        return self._names.get(memory)

    def _name(self, tensor: torch.Tensor, name: str) -> None:
        if tensor.layout is torch.strided and tensor.device.type != "meta" and tensor.numel():
            self._names.setdefault(tensor.untyped_storage().data_ptr(), name)


def _key(place: str) -> str:
    return place if place.isdigit() else repr(place)


def _by_name(
    module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Mapping[str, Any]:
    try:
        return inspect.signature(module.forward).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return {**{str(place): value for place, value in enumerate(args)}, **kwargs}
