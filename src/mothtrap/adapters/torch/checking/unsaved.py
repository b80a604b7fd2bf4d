"""State of a model that its `state_dict` does not contain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

MAX_VALUES = 1 << 22
"""Maximum number of stored values of a tensor (16 MB); chosen by hand."""


class UnsavedState:
    """Tensors that no `state_dict` contains, with their values at creation of this object.

    These are plain attributes of modules, directly or in lists and dictionaries, including those of
    layers in a list, and buffers that are not persistent.

    Args:
        model: the model.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._first = {name: one.detach().clone() for name, one in _unsaved(model).items()}

    def changed(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the tensors whose values, but not shape, have changed."""
        now = _unsaved(self._model)
        return {
            name: tuple(first.shape)
            for name, first in self._first.items()
            if name in now
            and now[name].shape == first.shape
            and now[name].dtype == first.dtype
            and not torch.equal(now[name].detach(), first)
        }

    @contextmanager
    def first_again(self, name: str) -> Iterator[None]:
        """Reset a tensor to its first value inside a block."""
        kept = _unsaved(self._model)[name].detach().clone()
        self._give(name, self._first[name])
        try:
            yield
        finally:
            self._give(name, kept)

    def _give(self, name: str, value: torch.Tensor) -> None:
        tensor = _unsaved(self._model).get(name)
        if tensor is not None and tensor.shape == value.shape:
            tensor.detach().copy_(value)


def unsaved_state(model: nn.Module) -> UnsavedState | None:
    """Return the state missing from a `state_dict`; None if it cannot be read."""
    try:
        return UnsavedState(model)
    except Exception:  # for tensors without storage and users' classes; the script must continue
        return None


def _unsaved(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the tensors missing from the `state_dict` of a model, by path."""
    held = {one.untyped_storage().data_ptr() for one in _held(model) if _is_plain(one)}
    found: dict[str, torch.Tensor] = {}
    for path, module in model.named_modules():
        if _saves_in_its_own_way(module):
            continue
        attributes = {**_attributes(module), **_passing_buffers(module)}
        for name, tensor in _tensors(attributes, path):
            small = tensor.numel() <= MAX_VALUES
            if small and _is_plain(tensor) and tensor.untyped_storage().data_ptr() not in held:
                found[name] = tensor
    return found


def _is_plain(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has storage and values."""
    return tensor.layout is torch.strided and tensor.numel() > 0


def _held(model: nn.Module) -> list[torch.Tensor]:
    passing = {id(one) for part in model.modules() for one in _passing_buffers(part).values()}
    buffers = [one for one in model.buffers() if id(one) not in passing]
    return [*model.parameters(), *buffers]


def _attributes(module: nn.Module) -> dict[str, Any]:
    own = ("_parameters", "_buffers", "_modules")
    return {name: value for name, value in vars(module).items() if name not in own}


def _passing_buffers(module: nn.Module) -> dict[str, torch.Tensor]:
    named = module._non_persistent_buffers_set  # as in `Module.state_dict`, torch 2.6-2.13
    return {name: one for name, one in module._buffers.items() if name in named and one is not None}


def _saves_in_its_own_way(module: nn.Module) -> bool:
    """Return whether a class overrides how its `state_dict` is written."""
    kind = type(module)
    return any(
        getattr(kind, name) is not getattr(nn.Module, name)
        for name in ("state_dict", "_save_to_state_dict", "get_extra_state")
    )


def _tensors(value: Any, path: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors in lists, dictionaries, and modules, by path."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, nn.Module):
        for name, tensor in value.state_dict(keep_vars=True).items():
            if isinstance(tensor, torch.Tensor):
                yield f"{path}.{name}", tensor
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _tensors(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from _tensors(part, f"{path}.{number}")
