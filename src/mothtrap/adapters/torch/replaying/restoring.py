"""Restore a recorded state in the objects of a process that runs the script again.

Objects are found by name and kind. A module that user code has not called yet is found by its order
of construction, or through its optimizer. Values that are already bit-identical are not written.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from mothtrap.adapters.torch.comparing_runs.settings import take_over
from mothtrap.adapters.torch.job.naming import strip_wrappers
from mothtrap.adapters.torch.recording.tracked_objects import TrackedObjects, TrackedRoot
from mothtrap.adapters.torch.recording.values import framework_value
from mothtrap.core.errors import StateMismatchError
from mothtrap.core.snapshots import Array, Tree
from mothtrap.snapshot.tree import Opaque, value_of
from mothtrap.statistics.torch.plain import local
from mothtrap.statistics.torch.raw import bytes_of


class Restoring:
    """Restores a recorded state in a process; `apply` may be called repeatedly.

    Args:
        tree: tree of the state.
        arrays: arrays that it refers to.
        known: the objects of this process.
        device: device of the values; None = as recorded, or the CPU.

    Attributes:
        notes: differences from the run that could not be corrected, in words.
    """

    def __init__(
        self,
        tree: Tree,
        arrays: Mapping[str, Array],
        known: TrackedObjects,
        device: str | None = None,
    ) -> None:
        self._values: dict[str, Any] = value_of(tree, arrays, framework_value(arrays, device))
        self._known = known
        self._modules: dict[int, int] = {}
        self._optimizers: set[str] = set()
        self._plain: set[str] = set()
        self._written: set[int] = set()
        self.notes: list[str] = take_over(self._values["settings"])

    def apply(self) -> None:
        """Restore objects that exist now and were not restored before.

        Raises:
            StateMismatchError: an object exists, but has different parameters.
        """
        with torch.no_grad():
            for number, recorded in enumerate(self._values["roots"]):
                if number not in self._modules:
                    found = self._root(recorded)
                    if found is not None:
                        self._modules[number] = id(found)
                        self._restore_module(recorded, found)
            for label, optimizer in self._known.optimizers():
                recorded = _called(self._values["optimizers"], label)
                if recorded is not None and label not in self._optimizers:
                    self._optimizers.add(label)
                    self._restore_optimizer(recorded, optimizer)
            self._restore_plain("schedulers", self._known.schedulers())
            self._restore_plain("scalers", self._known.scalers())

    def again(self) -> None:
        """Let the next `apply` restore everything again."""
        self._modules.clear()
        self._optimizers.clear()
        self._plain.clear()
        self._written.clear()

    @property
    def missing(self) -> list[str]:
        """Names of recorded objects that do not exist yet."""
        return [
            *(r["path"] for n, r in enumerate(self._values["roots"]) if n not in self._modules),
            *(o["name"] for o in self._values["optimizers"] if o["name"] not in self._optimizers),
            *(
                own["name"]
                for kind in ("schedulers", "scalers")
                for own in self._values[kind]
                if own["name"] not in self._plain
            ),
        ]

    # Matching

    def _root(self, recorded: Mapping[str, Any]) -> nn.Module | None:
        """Return the module for a recorded module: by name, else by order, else the only one."""
        taken = set(self._modules.values())
        called = [r for r in self._known.roots() if id(r.module) not in taken]
        for root in called:
            if root.path == recorded["path"] and root.kind == recorded["kind"]:
                return root.module
        if recorded["birth"] is None:
            return None
        uncalled = [root for root in self._known.uncalled() if id(root.module) not in taken]
        same = [root for root in uncalled if _looks_like(root, recorded)]
        for root in same:
            if root.birth == recorded["birth"]:
                return root.module
        return same[0].module if len(same) == 1 else None

    # Writing

    def _restore_module(self, recorded: Mapping[str, Any], module: nn.Module) -> None:
        where = recorded["path"]
        own = {strip_wrappers(n): p for n, p in module.named_parameters(remove_duplicate=False)}
        _check_names(where, recorded["parameters"], own)
        for name, value in recorded["parameters"].items():
            if not nn.parameter.is_lazy(own[name]):
                self._write(f"{where}.{name}", own[name], value)
        parts = {strip_wrappers(path): part for path, part in module.named_modules()}
        for name, value in recorded["buffers"].items():
            path, _, last = name.rpartition(".")
            if path in parts:
                self._restore_buffer(parts[path], last, value)
        differs = set(recorded["differs"])
        for path, part in parts.items():
            part.training = recorded["training"] != (path in differs)
        for path, values in recorded["attributes"].items():
            for name, value in values.items() if path in parts else ():
                _set_attribute(parts[path], name, value)

    def _restore_buffer(self, part: nn.Module, name: str, value: torch.Tensor) -> None:
        held = part._buffers  # not a dictionary in a scripted module
        found = held[name] if name in held else None  # noqa: SIM401
        if found is not None and found.shape == value.shape and found.dtype == value.dtype:
            self._write(name, found, value)
        else:
            part._buffers[name] = value.clone()

    def _restore_optimizer(self, recorded: Mapping[str, Any], optimizer: Optimizer) -> None:
        name, sizes = recorded["name"], [len(g["params"]) for g in optimizer.param_groups]
        if sizes != recorded["sizes"]:
            raise StateMismatchError(
                f"the optimizer {name} has groups of {sizes} parameters here, but "
                f"{recorded['sizes']} in the run; the script now creates a different optimizer"
            )
        owned = [p for group in optimizer.param_groups for p in group["params"]]
        for place, (parameter, value) in enumerate(zip(owned, recorded["parameters"], strict=True)):
            self._write(f"{name}.parameters[{place}]", parameter, value)
        for group, options in zip(optimizer.param_groups, recorded["groups"], strict=True):
            for key, value in options.items():
                _set_option(group, key, value)
        optimizer.state.clear()
        for place, state in recorded["states"]:
            optimizer.state[owned[place]] = {
                key: copy.deepcopy(value)
                for key, value in state.items()
                if not isinstance(value, Opaque)
            }

    def _restore_plain(self, kind: str, present: Iterable[tuple[str, Any]]) -> None:
        for label, own in present:
            recorded = _called(self._values[kind], label)
            if recorded is None or label in self._plain:
                continue
            self._plain.add(label)
            if kind == "scalers":
                if recorded["state"]:
                    own.load_state_dict(recorded["state"])
            else:
                vars(own).update(recorded["state"])

    def _write(self, name: str, into: torch.Tensor, value: torch.Tensor) -> None:
        """Copy values that differ, without a new version, because no graph has used them yet."""
        if id(into) in self._written:
            return
        self._written.add(id(into))
        target = local(into)
        if target.shape != value.shape:
            raise StateMismatchError(
                f"{name} has shape {tuple(target.shape)} here, but {tuple(value.shape)} in the "
                "run; the script now creates a different model: use the same arguments and the "
                "same code as the run"
            )
        if target.dtype != value.dtype or (bytes_of(target) != bytes_of(value)).any():
            target.data.copy_(value)


def _looks_like(root: TrackedRoot, recorded: Mapping[str, Any]) -> bool:
    shapes = {strip_wrappers(n): p.shape for n, p in root.module.named_parameters()}
    own = {name: value.shape for name, value in recorded["parameters"].items() if name in shapes}
    return root.kind == recorded["kind"] and shapes == own


def _check_names(where: str, recorded: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    absent = [name for name in recorded if name not in own]
    if absent:
        raise StateMismatchError(
            f"{where} has no parameter {absent[0]!r} here, but had it in the run"
            + (f", nor {len(absent) - 1} others" if len(absent) > 1 else "")
            + (
                "; the script now creates a different model: use the same arguments and the same "
                "code as the run"
            )
        )


def _called(recorded: Sequence[Mapping[str, Any]], label: str) -> Mapping[str, Any] | None:
    return next((own for own in recorded if own["name"] == label), None)


def _set_option(group: dict[str, Any], key: str, value: Any) -> None:
    found = group.get(key)
    if isinstance(value, Opaque):
        return
    if isinstance(found, torch.Tensor) and isinstance(value, torch.Tensor):
        found.copy_(value)
    else:
        group[key] = value


def _set_attribute(part: nn.Module, name: str, value: Any) -> None:
    if not isinstance(value, Opaque) and not _same(vars(part).get(name), value):
        vars(part)[name] = copy.deepcopy(value)


def _same(found: Any, value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        if not isinstance(found, torch.Tensor):
            return False
        same = found.dtype == value.dtype and found.shape == value.shape
        return same and not (bytes_of(found) != bytes_of(value)).any()
    if isinstance(value, list | dict | tuple):
        return False  # it may contain tensors
    return type(found) is type(value) and bool(found == value)
