"""Names of modules and parameters in the framework's terms, and where they were constructed."""

from __future__ import annotations

import inspect
import weakref
from collections import deque
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from mothtrap.core.tensors import Role
from mothtrap.tracing.jobs.identity import ByIdentity
from mothtrap.tracing.source import frames

LATEST_BIRTHS = 32
"""Number of latest constructed modules whose lines are kept."""
RECTIFIERS = ("ReLU", "ReLU6")
"""Modules whose units can die: output and gradient are zero for half of all inputs."""
SATURATING = ("Sigmoid", "Tanh", "Hardsigmoid", "Hardtanh", "Softsign")
WRAPPERS = ("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")


def role(module_type: str) -> Role:
    """Return the role of a module type for rules."""
    if module_type in RECTIFIERS:
        return "rectifier"
    return "saturating" if module_type in SATURATING else ""


def is_loss(module: nn.Module) -> bool:
    """Return whether a module computes a loss, judged by its class."""
    return isinstance(module, nn.modules.loss._Loss) or type(module).__name__.endswith("Loss")


def value_kind(name: str) -> Literal["weight", "bias"]:
    """Return the kind of a parameter, judged by its qualified name."""
    last = name.replace("/", ".").rpartition(".")[2]
    return "bias" if last.startswith("bias") else "weight"


def strip_wrappers(name: str) -> str:
    """Remove prefixes added by wrappers: `_orig_mod.`, DDP's `module.` at the start."""
    parts = name.split(".")
    while parts and parts[0] in WRAPPERS:
        parts = parts[1:]
    return ".".join(p for p in parts if p not in WRAPPERS[1:])


def wrapped(module: nn.Module) -> nn.Module | None:
    """Return the module inside a wrapper; None if the module is no wrapper."""
    parts = module._modules
    if WRAPPERS[0] in parts and isinstance(module, DistributedDataParallel | DataParallel):
        return parts[WRAPPERS[0]]
    for name in WRAPPERS[1:]:
        if name in parts:
            return parts[name]
    return None


def unwrapped(module: nn.Module) -> nn.Module:
    """Return the module inside all wrappers, or the module itself."""
    while (inner := wrapped(module)) is not None:  # not by truth value: users define `__len__`
        module = inner
    return module


def has_stand_ins(module: nn.Module) -> bool:
    """Return whether other tensors replace a module's parameters.

    This is the case in `functional_call`.
    """
    return any(_stands_in(parameter) for parameter in module.parameters())


def _stands_in(parameter: torch.Tensor) -> bool:
    return not isinstance(parameter, nn.Parameter)


def class_name(module: nn.Module) -> str:
    """Return the name of a module's class, without wrappers or PyTorch's subclasses.

    `fully_shard` gives a module a new class that derives from a mixin and, third in the method
    resolution order, from the original class (2.13; a test verifies this).
    """
    module = unwrapped(module)
    if isinstance(module, torch.jit.ScriptModule):
        return str(module.original_name)
    cls = type(module)
    if cls.__module__.startswith("torch.distributed.fsdp") and cls.__name__.startswith("FSDP"):
        return cls.__mro__[2].__name__
    return cls.__name__


def unseen_inside(module: nn.Module) -> str | None:
    """Return why calls of a module's children cannot be observed.

    None if they can.
    """
    by = "torch.jit" if isinstance(module, torch.jit.ScriptModule) else ""
    if (
        type(module).__name__ == "OptimizedModule"
        or getattr(module, "_compiled_call_impl", None) is not None
    ):
        by = "torch.compile"
    if by:
        return f"compiled by {by}: only its inputs, outputs, parameters and gradients are visible"
    if isinstance(module, DataParallel) and len(module.device_ids) > 1:
        return (
            f"DataParallel runs copies of it on {len(module.device_ids)} devices, each in its own "
            "thread: only its inputs, outputs, parameters and gradients are visible"
        )
    return None


@dataclass(slots=True)
class Root:
    """A module that user code calls: the root of a tree of names.

    `shells` are the module and its later wrappers, outermost last. `is_called` is False if its
    calls run inside a compiled function.
    """

    shells: list[weakref.ref[nn.Module]]
    label: str
    prefix: str = ""
    index: int = 0
    is_called: bool = True

    @property
    def path(self) -> str:
        """Return the text that replaces the module's own path."""
        return self.prefix.rstrip(".") or self.label

    def module(self) -> nn.Module | None:
        """Return the module with its wrappers; None if it no longer exists."""
        for shell in reversed(self.shells):
            module = shell()
            if module is not None:
                return module
        return None


@dataclass(frozen=True, slots=True)
class Birth:
    """Construction of a module: location, and number in the process."""

    location: str | None
    number: int


class NameBook:
    """Names of all root modules so far; the first root needs no prefix.

    Attributes:
        names_uncalled: models whose calls are not visible also get names.
        roots_seen: number of roots so far.
        latest_births: locations and classes of the modules that were constructed last.
        parameters: name of each parameter and path of its module; another library may provide them
            first.
    """

    def __init__(self) -> None:
        self._roots: list[Root] = []
        self._labels: dict[str, int] = {}
        self._modules: ByIdentity[nn.Module, tuple[str, Root]] = ByIdentity()
        self.parameters: ByIdentity[torch.Tensor, tuple[str, str]] = ByIdentity()
        self._incomplete: dict[int, Root] = {}
        self._births: ByIdentity[nn.Module, Birth] = ByIdentity()
        self._born = 0
        self.latest_births: deque[tuple[str | None, str]] = deque(maxlen=LATEST_BIRTHS)
        self.roots_seen = 0
        self.names_uncalled = False

    @property
    def roots(self) -> list[Root]:
        """Roots that still exist."""
        self._roots = [root for root in self._roots if root.module() is not None]
        return self._roots

    def add_root(self, module: nn.Module) -> Root | None:
        """Name a tree of modules; None if it has no parameters."""
        if next(module.parameters(), None) is None:
            return None
        known = self.root_of(module) or self._root_inside(module)
        if known is not None:
            return known
        label = class_name(module)
        same = self._labels[label] = self._labels.get(label, -1) + 1
        root = Root([weakref.ref(module)], label, index=self.roots_seen)
        if self.roots_seen:
            root.prefix = f"{label}{f'#{same}' if same else ''}."
        self.roots_seen += 1
        self._roots.append(root)
        self._enter(root, module)
        return root

    def _root_inside(self, module: nn.Module) -> Root | None:
        """Return the root that a wrapper now wraps; the root includes the wrapper from now on."""
        inner = wrapped(module)
        while inner is not None and not self.is_whole(inner):
            inner = wrapped(inner)
        root = self.root_of(inner) if inner is not None else None
        if root is not None:
            root.shells.append(weakref.ref(module))
            self.roots_seen += 1
            self._enter(root, module)
        return root

    def refresh(self) -> None:
        """Name modules that were added to the trees since their names were collected."""
        for root in self.roots:
            module = root.module()
            if module is not None:
                self._enter(root, module)

    def _enter(self, root: Root, module: nn.Module) -> None:
        self._incomplete.pop(root.index, None)
        for path, child in module.named_modules():
            name = root.prefix + strip_wrappers(path)
            own_path = name.rstrip(".") or root.label
            if child not in self._modules:
                self._modules[child] = (own_path, root)
            for own, parameter in child.named_parameters(recurse=False):
                if _stands_in(parameter):
                    self._incomplete[root.index] = root
                if parameter not in self.parameters:
                    full = f"{name}.{own}" if name and not name.endswith(".") else name + own
                    self.parameters[parameter] = (full, own_path)

    def top(self, module: nn.Module) -> nn.Module:
        """Return the outermost module under construction that contains a module.

        User code may call a part of a model first (`model.encode(x)`); names are relative to the
        whole model.
        """
        parents = {
            id(child): parent
            for parent, _ in self._births.items()
            for child in parent._modules.values()
            if child is not None
        }
        seen = {id(module)}
        while id(module) in parents and id(parents[id(module)]) not in seen:
            module = parents[id(module)]
            seen.add(id(module))
        return module

    def tops(self) -> list[tuple[nn.Module, int]]:
        """Return every constructed module that is part of no other, with its construction."""
        made = list(self._births.items())
        parts = {id(child) for module, _ in made for child in module._modules.values()}
        return [(module, birth.number) for module, birth in made if id(module) not in parts]

    def root_of(self, module: nn.Module) -> Root | None:
        """Return the root whose tree contains a module."""
        entry = self._modules.get(module)
        return entry[1] if entry is not None else None

    def module_name(self, module: nn.Module) -> str:
        """Return the path of a module in its root; a root's own path is its class name."""
        entry = self._modules.get(module)
        return entry[0] if entry is not None else class_name(module)

    def is_whole(self, module: nn.Module) -> bool:
        """Return whether a module is a root, or wraps or is wrapped in one.

        It has the root's path.
        """
        entry = self._modules.get(module)
        return entry is not None and entry[0] == entry[1].path

    def parameter_name(self, parameter: torch.Tensor) -> tuple[str, str] | None:
        """Return a parameter's qualified name and the path of its module, or None."""
        if parameter not in self.parameters:
            self._complete()
            if self.names_uncalled:
                self._name_uncalled(parameter)
        return self.parameters.get(parameter)

    def _complete(self) -> None:
        """Name the parameters of models that had stand-ins when they were named."""
        for root in list(self._incomplete.values()):
            module = root.module()
            if module is not None:
                self._enter(root, module)

    def _name_uncalled(self, parameter: torch.Tensor) -> None:
        for module, _ in self.tops():
            if self.root_of(module) is None and any(p is parameter for p in module.parameters()):
                root = self.add_root(module)
                if root is not None:
                    root.is_called = False

    def module_called(self, path: str) -> nn.Module | None:
        """Return the module with a path."""
        return next((m for m, (name, _) in self._modules.items() if name == path), None)

    def built(self, module: nn.Module) -> None:
        """Record where a module is constructed; called from its `__init__`."""
        self._born += 1
        place = frames.location(frames.user_frame(skip_init_of=module))
        self._births[module] = Birth(place, self._born)
        self.latest_births.append((place, type(module).__name__))

    @property
    def births(self) -> int:
        """Return the number of modules constructed so far."""
        return self._born

    def birth(self, module: nn.Module) -> int | None:
        """Return the position of a module in the order of construction."""
        entry = self._births.get(module)
        return entry.number if entry is not None else None

    def location(self, module: nn.Module) -> str | None:
        """Return `file:line` of a module's construction, or else of its user-defined class."""
        entry = self._births.get(module)
        if entry is not None and entry.location is not None:
            return entry.location
        return class_location(type(module))


_class_lines: weakref.WeakKeyDictionary[type, tuple[str, int] | None] = weakref.WeakKeyDictionary()
"""File and line of classes, cached because Python parses the whole file to find a class."""


def class_location(cls: type) -> str | None:
    """Return `file:line` of a class that is not PyTorch's, or None."""
    if cls.__module__.split(".")[0] == "torch":
        return None
    if cls not in _class_lines:
        _class_lines[cls] = _line_of(cls)
    found = _class_lines[cls]
    return None if found is None else frames._place(*found)


def _line_of(cls: type) -> tuple[str, int] | None:
    try:
        return inspect.getsourcefile(cls) or "", inspect.getsourcelines(cls)[1]
    except (OSError, TypeError):
        return None
