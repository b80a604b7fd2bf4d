"""The state of a training before a step: taken in one pass over its memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.optim import Optimizer

from mothtrap.adapters.torch.naming import strip_wrappers
from mothtrap.adapters.torch.reproduce.attributes import Attributes
from mothtrap.adapters.torch.reproduce.known import KnownObjects, KnownRoot
from mothtrap.adapters.torch.reproduce.settings import settings
from mothtrap.adapters.torch.reproduce.values import framework_tree, tensor_tree
from mothtrap.core.snapshots import Array, Tree
from mothtrap.snapshot.taken import TakenState
from mothtrap.snapshot.tree import TreeMaker
from mothtrap.statistics.torch.plain import local
from mothtrap.statistics.torch.raw import copy_bytes, describe

Namer = Callable[[torch.Tensor, str], None]
"""Gets a tensor and the key under which it is best kept."""

ALIGNED = 64
"""Bytes at whose multiples copies begin, as torch's own memory does."""


class StateTaker:
    """Copies states, into the same memory again once nobody needs the last one.

    Args:
        known: the objects whose states make it up.
        keeps_memory: whether memory that was given back is kept for the next state.
    """

    def __init__(self, known: KnownObjects, *, keeps_memory: bool = False) -> None:
        self._known, self._keeps_memory = known, keeps_memory
        self._free: npt.NDArray[np.uint8] | None = None

    def take(
        self,
        earlier: Mapping[int, torch.Tensor] | None = None,
        attributes: Attributes | None = None,
    ) -> TakenState:
        """Return the state as it is; writes nothing but memory of its own.

        Args:
            earlier: values, by the `id` of a buffer, that stand for what it holds now.
            attributes: those of the modules, where they were read earlier.
        """
        with torch.no_grad():
            copies = _Copies(earlier or {})
            values = state_values(self._known, copies.name, attributes)
            maker = TreeMaker(lambda value: framework_tree(value, copies.keep), copies.array)
            tree = maker.tree(values)
            memory = self._memory_of(copies.size_bytes)
            arrays = copies.made(memory)

        def give_back() -> None:
            if self._keeps_memory:
                self._free = memory

        return TakenState(
            tree=tree, arrays=arrays, missing=tuple(maker.opaque), give_back=give_back
        )

    def size_bytes(self) -> int:
        """About how many bytes the arrays of a state have now: parameters and what
        optimizers hold of them."""
        sizes: dict[int, int] = {}
        for root in self._known.roots():
            for tensor in (*root.module.parameters(), *root.module.buffers()):
                sizes[id(tensor)] = tensor.nbytes
        for _, optimizer in self._known.optimizers():
            for state in optimizer.state.values():
                for value in state.values() if isinstance(state, dict) else ():
                    if isinstance(value, torch.Tensor):
                        sizes[id(value)] = value.nbytes
        return sum(sizes.values())

    def _memory_of(self, size: int) -> npt.NDArray[np.uint8]:
        memory, self._free = self._free, None
        if memory is None or memory.nbytes < size:
            memory = np.empty(size, np.uint8)
        return memory


def state_values(
    known: KnownObjects, name: Namer, attributes: Attributes | None = None
) -> dict[str, Any]:
    """Return the state as plain dicts and lists around the tensors themselves.

        roots       of each root module its path, kind and birth, parameters and buffers by
                    name, whether it trains and which parts differ, attributes of its parts
        optimizers  of each its name and kind, options of its groups, their parameters, and
                    the state of each by place
        schedulers, scalers   of each its name and kind, and attributes
        settings    of the framework: threads, determinism, autocast

    Args:
        known: the objects.
        name: is told the keys of tensors.
        attributes: those of the modules, where they were read earlier.
    """
    read = attributes if attributes is not None else Attributes(known).read()
    return {
        "roots": [_root(root, read, name) for root in known.roots()],
        "optimizers": [_optimizer(label, own, name) for label, own in known.optimizers()],
        "schedulers": [_plain_state(label, own) for label, own in known.schedulers()],
        "scalers": [
            {"name": label, "kind": type(own).__name__, "state": own.state_dict()}
            for label, own in known.scalers()
        ],
        "settings": settings(),
    }


def _root(root: KnownRoot, attributes: Attributes, name: Namer) -> dict[str, Any]:
    found: dict[str, dict[str, torch.Tensor]] = {"parameters": {}, "buffers": {}}
    for kind, named in (
        ("parameters", root.module.named_parameters(remove_duplicate=False)),
        ("buffers", root.module.named_buffers(remove_duplicate=False)),
    ):
        for path, tensor in named:
            if not nn.parameter.is_lazy(tensor):
                own = strip_wrappers(path)
                found[kind][own] = tensor
                name(tensor, f"{kind[:-1]}:{root.prefix}{own}")
    training = root.module.training
    return {
        "path": root.path,
        "kind": root.kind,
        "birth": root.birth,
        **found,
        "training": training,
        "differs": [
            strip_wrappers(path)
            for path, module in root.module.named_modules()
            if module.training != training
        ],
        "attributes": attributes.of(root.module),
    }


def _optimizer(label: str, optimizer: Optimizer, name: Namer) -> dict[str, Any]:
    owned = [p for group in optimizer.param_groups for p in group["params"]]
    for place, parameter in enumerate(owned):
        name(parameter, f"parameter:{label}.{place}")
    groups = [{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups]
    states: list[Any] = []
    for place, parameter in enumerate(owned):
        own = optimizer.state.get(parameter)
        if own:
            for key, value in own.items():
                if isinstance(value, torch.Tensor):
                    name(value, f"optimizer_state:{label}.{place}.{key}")
            states.append([place, dict(own)])
    return {
        "name": label,
        "kind": type(optimizer).__name__,
        "sizes": [len(group["params"]) for group in optimizer.param_groups],
        "groups": groups,
        "parameters": owned,
        "states": states,
    }


def _plain_state(label: str, own: Any) -> dict[str, Any]:
    """Attributes of a scheduler that are values; what it is put together of has its own."""
    kept = {key: value for key, value in vars(own).items() if _is_plain(value)}
    return {"name": label, "kind": type(own).__name__, "state": kept}


def _is_plain(value: Any, depth: int = 0) -> bool:
    if value is None or isinstance(value, bool | int | float | str | torch.Tensor):
        return True
    if depth > 3:
        return False
    if isinstance(value, dict):
        return all(_is_plain(k, depth + 1) and _is_plain(v, depth + 1) for k, v in value.items())
    return isinstance(value, list | tuple) and all(_is_plain(item, depth + 1) for item in value)


class _Copies:
    """Tensors that are to be copied, each once, and their keys."""

    def __init__(self, earlier: Mapping[int, torch.Tensor]) -> None:
        self._earlier = earlier
        self._names: dict[int, str] = {}
        self._keys: dict[int, str] = {}
        self._tensors: dict[str, torch.Tensor] = {}
        self._arrays: dict[str, Array] = {}
        self._places: list[tuple[str, tuple[int, ...], int, int]] = []
        self.size_bytes = 0

    def name(self, tensor: torch.Tensor, name: str) -> None:
        """Say which key a tensor is to have."""
        self._names.setdefault(id(tensor), name)

    def keep(self, tensor: torch.Tensor) -> Tree:
        """Return the tree of a tensor that will be copied."""
        key = self._keys.get(id(tensor))
        if key is None:
            key = self._free(self._names.get(id(tensor), "tensor"))
            self._keys[id(tensor)] = key
            own = self._earlier.get(id(tensor), tensor)
            dtype, shape, size = describe(own)
            self._tensors[key] = own
            self._places.append((dtype, shape, self.size_bytes, size))
            self.size_bytes += -(-size // ALIGNED) * ALIGNED
        return tensor_tree(tensor, key)

    def array(self, values: npt.NDArray[Any]) -> Tree:
        """Return the tree of a numpy array, and copy it."""
        key = self._free("array")
        data = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
        self._arrays[key] = Array(dtype=values.dtype.name, shape=values.shape, data=data)
        return {"array": key}

    def _free(self, name: str) -> str:
        key, number = name, 1
        while key in self._tensors or key in self._arrays:
            number += 1
            key = f"{name}#{number}"
        return key

    def made(self, memory: npt.NDArray[np.uint8]) -> dict[str, Array]:
        """Copy all of them at once into memory that is large enough."""
        whole = torch.from_numpy(memory)
        into: list[torch.Tensor] = []
        out_of: list[torch.Tensor] = []
        for tensor, (_, shape, begin, size) in zip(
            self._tensors.values(), self._places, strict=True
        ):
            values = local(tensor)
            if values.layout is torch.strided and not values.is_quantized and size:
                place = whole[begin : begin + size].view(values.dtype).view(shape)
                into.append(place)
                out_of.append(values)
            elif size:
                copy_bytes(tensor, memory[begin : begin + size])
        if into:
            torch._foreach_copy_(into, out_of)
        found = {
            key: Array(dtype=dtype, shape=shape, data=memory[begin : begin + size])
            for key, (dtype, shape, begin, size) in zip(self._tensors, self._places, strict=True)
        }
        return found | self._arrays
