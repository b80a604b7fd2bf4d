"""Values of buffers and parameters from before the forwards of a step that change them."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import nn

from mothtrap.adapters.torch.job.naming import strip_wrappers
from mothtrap.adapters.torch.job.readable import is_readable
from mothtrap.adapters.torch.job.tensor_refs import ContentRef
from mothtrap.tracing.jobs.identity import ByIdentity

SMALL_BYTES = 1 << 20
"""Maximum total size of a model's buffers that are copied before any change is observed."""
LOOK_EVERY = 64
"""Interval, in steps, at which a model is searched for new buffers, and for parameters that its
forward changes. This is also done in its 1st, 2nd, 4th, 8th step and so on.
"""

_Place = Literal["_buffers", "_parameters"]


@dataclass(slots=True, eq=False)
class _Known:
    """One buffer or parameter.

    `version` is the version of the tensor at its last inspection; -1: it must be copied. `copy`:
    None until a change was observed, and if there is no room. `always`: copied in every step. This
    is the case for running statistics, which PyTorch's batch norm changes without a new version.
    """

    module: weakref.ref[nn.Module]
    place: _Place
    name: str
    path: str
    tensor: ContentRef[torch.Tensor]
    version: int
    always: bool = False
    has_room: bool = True
    copy: torch.Tensor | None = None

    def current(self) -> torch.Tensor | None:
        """Return the tensor that currently has this name."""
        module = self.module()
        if module is None:
            return None
        held = module._buffers if self.place == "_buffers" else module._parameters
        # In a scripted module, this is not a dictionary.
        return held[self.name] if self.name in held else None  # noqa: SIM401

    def has_changed(self) -> bool:
        """Return whether the tensor has changed, or may have changed, since it was inspected."""
        tensor = self.current()
        if tensor is None or tensor.is_inference():
            return False
        if self.always or self.tensor() is not tensor or self.tensor.swapped:
            return True
        return tensor._version != self.version


@dataclass(slots=True, eq=False)
class _Model:
    """A called model; `step`: the last step in which it was called.

    `kept` are copied if they change. `noted` are parameters for which it is not known yet whether
    they are written to before an optimizer steps. `unkept` are the names of trained parameters that
    are.
    """

    kept: list[_Known] = field(default_factory=list)
    noted: list[_Known] = field(default_factory=list)
    unkept: set[str] = field(default_factory=set)
    steps: int = 0
    step: int = -1


class Beforehand:
    """Stores one copy of everything that forward passes change.

    Args:
        limit_bytes: limit on the size of all copies.

    Attributes:
        bytes_held: memory of all copies; copies of deleted models count until another model is
            copied.
        notes: parameters were noted that may be written to before an optimizer steps.
    """

    def __init__(self, limit_bytes: float) -> None:
        self.bytes_held = 0
        self._limit_bytes = limit_bytes
        self._models: ByIdentity[nn.Module, _Model] = ByIdentity()
        self._done: set[int] = set()
        self._step = 0
        self.notes = False

    def new_step(self) -> None:
        """Record that a model's next forward pass is the first of a step."""
        self._done.clear()
        self._step += 1

    def before_forward(self, model: nn.Module) -> None:
        """Handle the start of a model call."""
        if id(model) in self._done:
            return
        self._done.add(id(model))
        own = self._models.get(model)
        if own is None:
            own = self._models[model] = _Model()
        if own.steps & (own.steps - 1) == 0 or own.steps % LOOK_EVERY == 0:
            self._look(model, own)
        own.steps += 1
        own.step = self._step
        stale: list[tuple[_Known, torch.Tensor]] = []
        for known in own.kept:
            module = known.module()  # as `current` does, but hundreds of times in a step
            tensor: torch.Tensor | None = None
            if module is not None:
                held: dict[str, torch.Tensor] = getattr(module, known.place)
                tensor = held[known.name] if known.name in held else None  # noqa: SIM401
            if tensor is not None and tensor is known.tensor() and not known.tensor.swapped:
                if tensor._version == known.version and not known.always:
                    continue
            elif tensor is None or tensor.is_inference():
                known.copy = None
                continue
            else:
                known.tensor = ContentRef(tensor)
            known.version = tensor._version
            stale.append((known, tensor))
        if stale:
            self._copy(stale)

    def stepping(self) -> None:
        """Handle the start of an optimizer step: parameters that differ were written to."""
        if not self.notes:
            return
        self.notes = False
        for _, own in self._models.items():
            noted, own.noted = own.noted, []
            if own.step == self._step:
                self._compare(own, noted)

    def _compare(self, own: _Model, noted: list[_Known]) -> None:
        for known in noted:
            tensor = known.tensor()
            if tensor is None:
                continue
            if tensor._version == known.version and not known.tensor.swapped:
                continue
            if tensor.requires_grad:
                own.unkept.add(known.path)
            else:
                own.kept.append(known)

    def earlier(self) -> dict[int, torch.Tensor]:
        """Return earlier values of data changed in this step, by `id` of the current tensor."""
        found: dict[int, torch.Tensor] = {}
        for known in self._called():
            tensor = known.current()
            if tensor is not None and known.copy is not None and known.has_changed():
                found[id(tensor)] = known.copy
        return found

    def lost(self) -> tuple[str, ...]:
        """Return descriptions of data that changed in this step without a copy."""
        models = [own for _, own in self._models.items() if own.step == self._step]
        unkept = sorted({path for own in models for path in own.unkept})
        lost = {k for k in self._called() if k.copy is None and k.has_changed()}
        told = sorted({f"{known.place[1:-1]} {known.path} before the step" for known in lost})
        if unkept:
            more = f" and {len(unkept) - 1} more" if len(unkept) > 1 else ""
            why = "overwritten between the forward pass and the optimizer's step"
            told.append(f"parameter {unkept[0]}{more} before the step: {why}")
        return tuple(told)

    def _called(self) -> Iterator[_Known]:
        """Yield the tensors of models that were called in this step."""
        for _, own in self._models.items():
            if own.step == self._step:
                yield from own.kept

    def _look(self, model: nn.Module, own: _Model) -> None:
        before = {(id(known.module()), known.name): known for known in own.kept}
        own.kept, own.noted, left = [], [], SMALL_BYTES
        for place, path, module, name, tensor in _tensors(model):
            known = before.get((id(module), name))
            if known is None or (place == "_parameters" and tensor.requires_grad):
                path = f"{strip_wrappers(path)}.{name}".lstrip(".")
                at, reference = weakref.ref(module), ContentRef(tensor)
                known = _Known(at, place, name, path, reference, tensor._version)
                if place == "_parameters":
                    own.noted.append(known)
                    continue
                known.always = name.startswith("running_")
                if known.always or tensor.nbytes <= left:
                    known.version = -1
                    left -= tensor.nbytes
            known.has_room = True
            own.kept.append(known)
        self.notes = self.notes or bool(own.noted)

    def _copy(self, stale: list[tuple[_Known, torch.Tensor]]) -> None:
        """Update the copies, grouped by type and device."""
        groups: dict[tuple[torch.dtype, torch.device], tuple[list[torch.Tensor], ...]] = {}
        added: list[tuple[_Known, torch.Tensor]] = []
        first = stale[0][1]
        # Private API, covered by a test: tensors inside a transformed function have no values.
        plain = first.is_cpu and torch._C._functorch.peek_interpreter_stack() is None
        if not plain and not is_readable(first):  # e.g. while a CUDA graph is captured
            for known, _ in stale:
                known.copy, known.version = None, -1
            return
        for known, tensor in stale:
            copy, place = known.copy, (tensor.dtype, tensor.device)
            if copy is None or copy.shape != tensor.shape or (copy.dtype, copy.device) != place:
                known.copy = None
                if known.has_room:
                    added.append((known, tensor))
                continue
            copies, sources = groups.setdefault(place, ([], []))
            copies.append(copy)
            sources.append(tensor)
        with torch.no_grad():
            for copies, sources in groups.values():
                torch._foreach_copy_(copies, sources)
        if added:
            self._add(added)

    def _add(self, added: list[tuple[_Known, torch.Tensor]]) -> None:
        """Copy values that have no copy yet, the smallest first, as long as there is room."""
        copies = (known.copy for _, own in self._models.items() for known in own.kept)
        self.bytes_held = sum(copy.nbytes for copy in copies if copy is not None)
        for known, tensor in sorted(added, key=lambda pair: pair[1].nbytes):
            known.has_room = self.bytes_held + tensor.nbytes <= self._limit_bytes
            if known.has_room:
                known.copy = tensor.detach().clone()
                self.bytes_held += tensor.nbytes


def _tensors(model: nn.Module) -> Iterator[tuple[_Place, str, nn.Module, str, torch.Tensor]]:
    """Yield every buffer and parameter once, parameters last, so that small buffers have room."""
    seen: set[int] = set()
    places: tuple[_Place, _Place] = ("_buffers", "_parameters")
    for place in places:
        for path, module in model.named_modules():
            held: dict[str, torch.Tensor | None] = getattr(module, place)
            for name, tensor in held.items():
                if tensor is not None and id(tensor) not in seen and _has_version(tensor):
                    seen.add(id(tensor))
                    yield place, path, module, name, tensor


def _has_version(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a plain tensor with a version counter."""
    return (
        type(tensor) in (torch.Tensor, nn.Parameter)
        and tensor.layout is torch.strided
        and not (tensor.is_meta or tensor.is_nested or tensor.is_inference())
    )
