"""Buffers as they were before the forwards of a step, where forwards change them."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from mothtrap.adapters.torch.identity import ByIdentity
from mothtrap.adapters.torch.readable import is_plain

SMALL_BYTES = 1 << 20
"""Buffers of a model that are copied whether they change or not: together."""
LOOK_EVERY = 64
"""Steps after which a model is searched for buffers that it did not have."""


@dataclass(slots=True, eq=False)
class _Known:
    """One buffer.

    `version` is that of the tensor when it was looked at last, before the first forward of
    `step`. `copy`: None until it was seen to change. `always`: copied in every step, small
    ones and running statistics: a batch norm of PyTorch's writes to these without a new version.
    """

    module: weakref.ref[nn.Module]
    name: str
    tensor: weakref.ref[torch.Tensor]
    version: int
    always: bool
    step: int = -1
    copy: torch.Tensor | None = None


class BuffersBefore:
    """Keeps a copy of the buffers that forwards change, one of each."""

    def __init__(self) -> None:
        self._known: ByIdentity[nn.Module, tuple[int, list[_Known]]] = ByIdentity()
        self._places: dict[tuple[int, str], _Known] = {}
        self._done: set[int] = set()
        self._steps = 0

    def new_step(self) -> None:
        """The next forward of a model is the first of a step."""
        self._done.clear()
        self._steps += 1

    def before_forward(self, model: nn.Module) -> None:
        """A model is about to be called, to be trained."""
        if id(model) in self._done:
            return
        self._done.add(id(model))
        own = self._known.get(model)
        if own is None or self._steps >= own[0] + LOOK_EVERY:
            own = self._known[model] = self._steps, self._look(model, own[1] if own else ())
        if not own[1]:
            return
        stale: list[_Known] = []
        for known in own[1]:
            tensor = _current(known)
            if tensor is None or tensor.is_inference():
                known.copy = None
                continue
            replaced = known.tensor() is not tensor
            if known.always or replaced or tensor._version != known.version:
                known.tensor, known.version = weakref.ref(tensor), tensor._version
                stale.append(known)
            known.step = self._steps
        _copy(stale)

    def of(self, module: nn.Module, name: str) -> torch.Tensor | None:
        """A buffer of a module as it was; None where it is as it was, or was never seen."""
        known = self._find(module, name)
        if known is None or known.copy is None:
            return None
        return known.copy if self._has_changed(known) else None

    def lost(self) -> tuple[str, ...]:
        """The names of buffers that have changed in this step, and of which no copy is there."""
        return tuple(
            sorted(
                known.name
                for _, (_, every) in self._known.items()
                for known in every
                if known.copy is None and self._has_changed(known)
            )
        )

    def bytes_held(self) -> int:
        """Memory of all copies."""
        return sum(
            int(known.copy.nbytes)
            for _, (_, every) in self._known.items()
            for known in every
            if known.copy is not None
        )

    def _has_changed(self, known: _Known) -> bool:
        tensor = _current(known)
        if tensor is None or known.step != self._steps:  # its model was not called
            return False
        return known.always or known.tensor() is not tensor or tensor._version != known.version

    def _find(self, module: nn.Module, name: str) -> _Known | None:
        found = self._places.get((id(module), name))
        return found if found is not None and found.module() is module else None

    def _look(self, model: nn.Module, known_before: Sequence[_Known]) -> list[_Known]:
        before = {(id(known.module()), known.name): known for known in known_before}
        found, left = [], SMALL_BYTES
        for module, name, tensor in _buffers(model):
            known = before.get((id(module), name))
            if known is None:
                reference, version = weakref.ref(tensor), tensor._version
                always = name.startswith("running_") or tensor.nbytes <= left
                left -= tensor.nbytes if always else 0
                known = _Known(weakref.ref(module), name, reference, version, always)
            found.append(known)
            self._places[id(module), name] = known
        return found


def _buffers(model: nn.Module) -> Iterator[tuple[nn.Module, str, torch.Tensor]]:
    seen: set[int] = set()
    for module in model.modules():
        for name, tensor in module._buffers.items():
            if tensor is not None and id(tensor) not in seen and is_plain(tensor):
                seen.add(id(tensor))
                if not tensor.is_inference() and tensor.layout is torch.strided:
                    yield module, name, tensor


def _current(known: _Known) -> torch.Tensor | None:
    module = known.module()
    return module._buffers.get(known.name) if module is not None else None


def _copy(stale: list[_Known]) -> None:
    """Bring copies up to date, those of one type and place together."""
    groups: dict[tuple[torch.dtype, torch.device], tuple[list[torch.Tensor], ...]] = {}
    for known in stale:
        tensor = _current(known)
        if tensor is None:
            continue
        copy = known.copy
        if copy is None or copy.shape != tensor.shape or copy.dtype != tensor.dtype:
            known.copy = tensor.detach().clone()
            continue
        copies, sources = groups.setdefault((tensor.dtype, tensor.device), ([], []))
        copies.append(copy)
        sources.append(tensor.detach())
    with torch.no_grad():
        for copies, sources in groups.values():
            torch._foreach_copy_(copies, sources)
