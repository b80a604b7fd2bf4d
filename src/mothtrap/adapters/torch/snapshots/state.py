"""Copy the state of a training run before a step, in one pass over its memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.optim import Optimizer

from mothtrap.adapters.torch.comparing_runs.settings import settings
from mothtrap.adapters.torch.job.naming import strip_wrappers
from mothtrap.adapters.torch.recording.attributes import Attributes
from mothtrap.adapters.torch.recording.tracked_objects import TrackedObjects, TrackedRoot
from mothtrap.adapters.torch.recording.values import framework_tree
from mothtrap.adapters.torch.snapshots.copying import Gathered
from mothtrap.core.snapshot_orders import StateCopy
from mothtrap.snapshot.tree import TreeMaker

Adder = Callable[[Any, str], None]
"""Function that receives a value, and the preferred key for a tensor in it."""


class StateTaker:
    """Copies states, reusing the memory of the previous one.

    Args:
        known: objects whose states are copied.
        keeps_memory: whether returned memory is kept for the next state.
    """

    def __init__(self, known: TrackedObjects, *, keeps_memory: bool = False) -> None:
        self._known, self._keeps_memory = known, keeps_memory
        self._free: npt.NDArray[np.uint8] | None = None

    def take(
        self,
        earlier: Mapping[int, torch.Tensor] | None = None,
        attributes: Attributes | None = None,
        limit_bytes: float = math.inf,
        spare: Callable[[], float] = lambda: math.inf,
    ) -> StateCopy | None:
        """Copy the current state, without changing anything else.

        Args:
            earlier: values, by the `id` of a buffer, that replace its current content.
            attributes: attributes of the modules, if they were read earlier.
            limit_bytes: a larger state is not copied, and None is returned.
            spare: returns how many bytes of new memory may be used beyond the existing memory;
                called if new memory is needed.
        """
        with torch.no_grad():
            copies = Gathered(earlier or {})
            values = state_values(self._known, copies.add, attributes)
            size = copies.arrays.size_bytes
            if size > limit_bytes or (size > self.held_bytes and size > spare() + self.held_bytes):
                return None
            memory = self._memory_of(size)
            copies.copy(memory)
        maker = TreeMaker(lambda value: framework_tree(value, copies.tree), copies.array)

        def give_back() -> None:
            if self._keeps_memory:
                self._free = memory

        return StateCopy(
            make=lambda: (maker.tree(values), tuple(maker.opaque)),
            arrays=copies.arrays,
            give_back=give_back,
        )

    @property
    def held_bytes(self) -> int:
        """Memory reserved for the next state in bytes."""
        return self._free.nbytes if self._free is not None else 0

    def _memory_of(self, size: int) -> npt.NDArray[np.uint8]:
        memory, self._free = self._free, None
        if memory is None or memory.nbytes < size:
            memory = np.empty(size, np.uint8)
        return memory


def state_values(
    known: TrackedObjects, add: Adder, attributes: Attributes | None = None
) -> dict[str, Any]:
    """Return the state as plain dicts and lists of the tensors themselves.

        roots       of each root module its path, kind and birth, parameters and buffers by
                    name, whether it trains and which parts differ, attributes of its parts
        optimizers  of each its name and kind, options of its groups, their parameters, and the
        state of each by position schedulers, scalers   of each its name and kind, and attributes
        settings    of the framework: threads, determinism, autocast

    Args:
        known: the objects.
        add: called with every tensor among them.
        attributes: attributes of the modules, if they were read earlier.
    """
    read = attributes if attributes is not None else Attributes(known).read()
    return {
        "roots": [_root(root, read, add) for root in known.roots()],
        "optimizers": [_optimizer(label, own, add) for label, own in known.optimizers()],
        "schedulers": [_scheduler(label, own, add) for label, own in known.schedulers()],
        "scalers": [
            {"name": label, "kind": type(own).__name__, "state": own.state_dict()}
            for label, own in known.scalers()
        ],
        "settings": settings(),
    }


def _root(root: TrackedRoot, attributes: Attributes, add: Adder) -> dict[str, Any]:
    found: dict[str, dict[str, torch.Tensor]] = {"parameters": {}, "buffers": {}}
    for kind, named in (
        ("parameters", root.module.named_parameters(remove_duplicate=False)),
        ("buffers", root.module.named_buffers(remove_duplicate=False)),
    ):
        for path, tensor in named:
            if not nn.parameter.is_lazy(tensor):
                own = strip_wrappers(path)
                found[kind][own] = tensor
                add(tensor, f"{kind[:-1]}:{root.prefix}{own}")
    training, own_attributes = root.module.training, attributes.of(root.module)
    add(own_attributes, f"attribute:{root.path}")
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
        "attributes": own_attributes,
    }


def _optimizer(label: str, optimizer: Optimizer, add: Adder) -> dict[str, Any]:
    owned = [p for group in optimizer.param_groups for p in group["params"]]
    for place, parameter in enumerate(owned):
        add(parameter, f"parameter:{label}.{place}")
    groups = [{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups]
    add(groups, f"option:{label}")
    states: list[Any] = []
    for place, parameter in enumerate(owned):
        own = optimizer.state.get(parameter)
        if own:
            for key, value in own.items():
                add(value, f"optimizer_state:{label}.{place}.{key}")
            states.append([place, dict(own)])
    return {
        "name": label,
        "kind": type(optimizer).__name__,
        "sizes": [len(group["params"]) for group in optimizer.param_groups],
        "groups": groups,
        "parameters": owned,
        "states": states,
    }


def _scheduler(label: str, own: Any, add: Adder) -> dict[str, Any]:
    """Return the attributes of a scheduler that are values; component schedulers are separate."""
    kept = {key: value for key, value in vars(own).items() if _is_plain(value)}
    add(kept, f"scheduler:{label}")
    return {"name": label, "kind": type(own).__name__, "state": kept}


def _is_plain(value: Any, depth: int = 0) -> bool:
    if value is None or isinstance(value, bool | int | float | str | torch.Tensor):
        return True
    if depth > 3:
        return False
    if isinstance(value, dict):
        return all(_is_plain(k, depth + 1) and _is_plain(v, depth + 1) for k, v in value.items())
    return isinstance(value, list | tuple) and all(_is_plain(item, depth + 1) for item in value)
