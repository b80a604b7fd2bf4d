"""The tensors of a model by name, collected again only if its parts have changed."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from mothtrap.adapters.torch.job.naming import strip_wrappers, value_kind
from mothtrap.tracing.jobs.identity import OwnRef

Placed = tuple[str, torch.Tensor]


class ModelState:
    """Parameters and buffers of a model, each with its kind and name.

    Walking through a model and building names takes longer than reading a small model. The object
    does not keep the model alive.

    Args:
        module: the whole model.
        prefix: prefix of all names.
    """

    def __init__(self, module: nn.Module, prefix: str) -> None:
        found = list(_named(module, prefix))
        # A lazy parameter becomes an initialized tensor but remains the same object.
        self._is_lazy = any(is_lazy(tensor) for _, tensor in found)
        self._made = [placed for placed in found if not is_lazy(placed[1])]
        self._kept = [(owner, OwnRef(tensor)) for owner, tensor in self._made]
        modules = list(module.modules())
        self._modules = [weakref.ref(part) for part in modules]
        self._parts = _parts(modules)

    def tensors(self) -> list[Placed] | None:
        """Return the tensors of the model; None if they are not the tensors of the first call."""
        if self._made:  # first call
            made, self._made = self._made, []
            return made
        if self._is_lazy:
            return None
        modules = []
        for reference in self._modules:
            module = reference()
            if module is None:
                return None
            modules.append(module)
        if _parts(modules) != self._parts:
            return None
        found: list[Placed] = []
        for owner, kept in self._kept:
            tensor = kept()
            if tensor is None:
                return None
            found.append((owner, tensor))
        return found


def _parts(modules: Sequence[nn.Module]) -> list[tuple[int, ...]]:
    """Return the identities of the children, parameters and buffers of each module."""
    found = []
    for module in modules:
        for held in (module._modules, module._parameters, module._buffers):
            found.append(tuple(map(id, held.values())) if held else ())
    return found


def _named(module: nn.Module, prefix: str) -> Iterator[Placed]:
    for name, parameter in module.named_parameters():
        own = strip_wrappers(name)
        yield f"{value_kind(own)}:{prefix}{own}", parameter
    for name, buffer in module.named_buffers():
        yield f"buffer:{prefix}{strip_wrappers(name)}", buffer
