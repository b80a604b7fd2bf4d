"""Names of modules and parameters as the framework has them, and where they were built."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import nn

from mothtrap.adapters.torch import frames
from mothtrap.core.tensors import Role

RECTIFIERS = ("ReLU", "ReLU6")
"""Modules whose units can die: zero output and zero gradient over half of the axis."""
SATURATING = ("Sigmoid", "Tanh", "Hardsigmoid", "Hardtanh", "Softsign")
WRAPPERS = ("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")


def role(module_type: str) -> Role:
    """What a module does to its input, where rules care."""
    if module_type in RECTIFIERS:
        return "rectifier"
    return "saturating" if module_type in SATURATING else ""


def strip_wrappers(name: str) -> str:
    """Drop the prefixes that wrappers put in: `_orig_mod.`, DDP's `module.` at the start."""
    parts = name.split(".")
    while parts and parts[0] in WRAPPERS:
        parts = parts[1:]
    return ".".join(p for p in parts if p not in WRAPPERS[1:])


@dataclass(slots=True)
class Root:
    """A module that user code calls: top of a tree of names."""

    module: weakref.ref[nn.Module]
    label: str
    prefix: str = ""
    index: int = 0


@dataclass(slots=True)
class NameBook:
    """Knows every root seen so far; the first one needs no prefix.

    Modules are known by `id`; an entry is good while its weak reference lives.
    """

    roots: list[Root] = field(default_factory=list)
    _by_module: dict[int, tuple[weakref.ref[nn.Module], str, Root]] = field(default_factory=dict)
    _by_parameter: dict[int, tuple[weakref.ref[torch.Tensor], str, str]] = field(
        default_factory=dict
    )
    _built_at: dict[int, tuple[weakref.ref[nn.Module], str | None, int]] = field(
        default_factory=dict
    )
    _born: int = 0

    def add_root(self, module: nn.Module) -> Root | None:
        """Name a tree of modules; None when it has no parameters or is known already."""
        if next(module.parameters(), None) is None:
            return None
        known = self._by_module.get(id(module))
        if known is not None and known[0]() is module:
            return known[2]
        label = type(module).__name__
        same = sum(1 for root in self.roots if root.label == label)
        root = Root(weakref.ref(module), label, index=len(self.roots))
        if self.roots:
            root.prefix = f"{label}{f'#{same}' if same else ''}."
        self.roots.append(root)
        for path, child in module.named_modules():
            name = root.prefix + strip_wrappers(path)
            self._by_module.setdefault(
                id(child), (weakref.ref(child), name.rstrip(".") or label, root)
            )
            for own, parameter in child.named_parameters(recurse=False):
                full = f"{name}.{own}" if name and not name.endswith(".") else name + own
                entry = self._by_parameter.get(id(parameter))
                if entry is None or entry[0]() is not parameter:
                    self._by_parameter[id(parameter)] = (
                        weakref.ref(parameter),
                        full,
                        name.rstrip(".") or label,
                    )
        return root

    def top(self, module: nn.Module) -> nn.Module:
        """The outermost module under construction so far that holds a module.

        User code may call a part of a model first (`model.encode(x)`): names are those of
        the whole.
        """
        living = [m for m in (entry[0]() for entry in self._built_at.values()) if m is not None]
        parents = {id(child): m for m in living for child in m._modules.values() if child}
        seen = {id(module)}
        while id(module) in parents and id(parents[id(module)]) not in seen:
            module = parents[id(module)]
            seen.add(id(module))
        return module

    def root_of(self, module: nn.Module) -> Root | None:
        """The root whose tree holds a module."""
        entry = self._by_module.get(id(module))
        return entry[2] if entry is not None and entry[0]() is module else None

    def module_name(self, module: nn.Module) -> str:
        """Path of a module in its root; a root's own path is its class name."""
        entry = self._by_module.get(id(module))
        if entry is not None and entry[0]() is module:
            return entry[1]
        return type(module).__name__

    def parameter_name(self, parameter: torch.Tensor) -> tuple[str, str] | None:
        """Qualified name of a parameter and the path of its module, or None."""
        entry = self._by_parameter.get(id(parameter))
        return (entry[1], entry[2]) if entry is not None and entry[0]() is parameter else None

    def module_called(self, path: str) -> nn.Module | None:
        """The module that bears a path."""
        for reference, name, _ in self._by_module.values():
            if name == path:
                return reference()
        return None

    def modules(self) -> Iterator[tuple[str, nn.Module]]:
        """Every known module that lives, with its path."""
        for reference, name, _ in list(self._by_module.values()):
            module = reference()
            if module is not None:
                yield name, module

    def built(self, module: nn.Module) -> None:
        """Note where a module is being constructed; called from its `__init__`."""
        place = frames.location(frames.user_frame(skip_init_of=module))
        self._born += 1
        self._built_at[id(module)] = (weakref.ref(module), place, self._born)

    @property
    def births(self) -> int:
        """How many modules have been constructed so far."""
        return self._born

    def birth(self, module: nn.Module) -> int | None:
        """The place of a module in the order of construction."""
        entry = self._built_at.get(id(module))
        return entry[2] if entry is not None and entry[0]() is module else None

    def location(self, module: nn.Module) -> str | None:
        """`file:line` of a module's construction, else of its class when that is the user's."""
        entry = self._built_at.get(id(module))
        if entry is not None and entry[0]() is module and entry[1] is not None:
            return entry[1]
        return class_location(type(module))


def class_location(cls: type) -> str | None:
    """`file:line` of a class that is not PyTorch's, or None."""
    if cls.__module__.split(".")[0] == "torch":
        return None
    try:
        filename = inspect.getsourcefile(cls) or ""
        line = inspect.getsourcelines(cls)[1]
    except (OSError, TypeError):
        return None
    return frames._place(filename, line)
