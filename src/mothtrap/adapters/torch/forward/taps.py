"""Outputs of modules inside compiled code, passed out by an operator in its graph.

The tracer of `torch.compile` follows a module hook that exists before the first call. During
compilation, the hook adds one operator to the graph, which is opaque to the compiler. So there is
no graph break, and no second graph for steps in which nothing is captured. The operator changes a
tensor, so it is not removed as dead code. The tensor's value identifies the module, so modules of
one class share a graph, as they do without the operator.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any, Final

import torch
from torch import nn

from mothtrap.adapters.torch.job.module_hook import ModuleHook
from mothtrap.adapters.torch.job.naming import wrapped
from mothtrap.adapters.torch.job.uncompiled import uncompiled

TOKEN: Final = "_mothtrap_token"
"""Attribute of a tapped module: its number, as a tensor of shape (1,), int64, on the host."""

Tell = Callable[[nn.Module, torch.Tensor], None]


@uncompiled
class Tap:
    """A module, and the receivers of its outputs."""

    def __init__(self, module: nn.Module, report: Tell) -> None:
        self._module, self._report = weakref.ref(module), report
        self.number = next(_numbers)
        self._handle = module.register_forward_hook(_hook())
        setattr(module, TOKEN, torch.tensor([self.number]))

    def pass_on(self, output: torch.Tensor) -> None:
        """Pass on a tensor returned by the module, without its graph."""
        module = self._module()
        if module is not None:
            self._report(module, output)

    def remove(self) -> None:
        """Remove the hook; graphs that were created with it no longer report outputs."""
        self._handle.remove()
        module = self._module()
        if module is not None:
            delattr(module, TOKEN)


_numbers: Final = itertools.count()
_open: Final[MutableMapping[int, Tap]] = weakref.WeakValueDictionary()
"""Taps by number. The graphs of a process outlive the job that inserted a tap."""


def tap(modules: Iterable[nn.Module], report: Tell) -> list[Tap]:
    """Add a tap to each module that has none; call this before the modules are compiled.

    Returns:
        The taps, which are active as long as they are kept.
    """
    taps = [Tap(m, report) for m in modules if TOKEN not in vars(m) and wrapped(m) is None]
    _open.update((each.number, each) for each in taps)
    return taps


def is_tapped(module: nn.Module) -> bool:
    """Return whether a submodule has a tap."""
    return any(TOKEN in vars(part) for part in module.modules())


@functools.cache
def _hook() -> ModuleHook:
    """Hook of all modules; it defines the operator once in a process."""

    @uncompiled
    def pass_by(output: torch.Tensor, token: torch.Tensor) -> None:
        found = _open.get(int(token))
        if found is not None:
            found.pass_on(output)

    operator: Any = torch.library.custom_op("mothtrap::pass_by", pass_by, mutates_args={"token"})
    operator.register_fake(lambda *_: None)
    is_compiling = torch.compiler.is_compiling
    is_exporting = getattr(torch.compiler, "is_exporting", lambda: False)  # requires torch 2.7

    def hook(module: nn.Module, _: Any, output: Any) -> None:
        if is_compiling() and not is_exporting() and isinstance(output, torch.Tensor):
            operator(output.detach(), getattr(module, TOKEN))

    return ModuleHook(hook)
