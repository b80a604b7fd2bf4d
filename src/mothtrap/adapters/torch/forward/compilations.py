"""What was compiled, by `torch.compile` or `torch.jit`, and what of it cannot be seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer

from mothtrap.adapters.torch.naming import Root, unseen_inside, wrapped

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job import Job

Function = Callable[..., Any]
MAX_NAMED = 4
"""Compiled parts, or functions, that are named; chosen by hand."""


class CompilationWatch:
    """Is told what is compiled, and says what is hidden in it where that matters.

    Attributes:
        step_hooks: those of optimizers; they end a graph where Dynamo follows a call to them.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._functions: dict[str, None] = {}
        self._modules_changed = False
        self._roots_called = 0
        self.step_hooks: tuple[Any, ...] = ()

    def observed(self, original: Function, drop_own_frame: Function) -> Function:
        """Make the replacement of `torch.compile`; `Module.compile` comes there too.

        Args:
            original: the function.
            drop_own_frame: takes the replacement out of the traceback of what it raises.
        """

        def compile_(model: Any = None, **options: Any) -> Any:
            if torch.compiler.is_compiling():
                return original(model, **options)
            if model is not None and not options.get("disable"):  # None: a decorator, which comes
                self._job.contain(self._compiled, model, options)  # again with its function
            try:
                return original(model, **options)
            except BaseException as err:
                drop_own_frame(err)
                raise

        return compile_

    def _compiled(self, target: Any, options: Mapping[str, Any]) -> None:
        owner = getattr(target, "__self__", target)
        if isinstance(owner, nn.Module):
            self._modules_changed = True
            return
        if options.get("fullgraph"):
            for hook in self.step_hooks:  # there the end of a graph would be an error
                hook._torchdynamo_disable = False
        if not isinstance(owner, Optimizer):
            self._job.book.names_uncalled = True
            self._functions[getattr(target, "__qualname__", type(target).__qualname__)] = None

    def root_called(self) -> None:
        """A forward begins; parts may have been compiled since the one before."""
        if self._modules_changed:
            self._modules_changed = False
            self._job.book.refresh()
            for root in self._job.book.roots:
                self.tell_hidden(root)

    def tell_hidden(self, root: Root) -> None:
        """Say which parts of a model hide what runs inside them."""
        module = root.module()
        parts: dict[str, list[str]] = {}
        for part, reason in unseen_parts(module) if module is not None else ():
            parts.setdefault(reason, []).append(self._job.book.module_name(part))
        for reason, names in parts.items():
            self._tell(f"activations inside {_listed(names)}", reason)

    def step_closed(self, roots_called: int) -> None:
        """A step is over; where no forward was seen in it, compiled functions hide it."""
        before, self._roots_called = self._roots_called, roots_called
        if self._functions and roots_called == before:
            self._tell(
                f"forwards inside {_listed([*self._functions])}",
                "compiled by torch.compile as a function: modules, losses and labels in it are"
                " not seen; parameters, gradients and steps are",
            )

    def _tell(self, what: str, reason: str) -> None:
        self._job.recorder.blind(self._job.grouper.step, what, reason)


def unseen_parts(module: nn.Module) -> list[tuple[nn.Module, str]]:
    """The outermost parts of a module that hide parts of their own, each with the reason."""
    reason = unseen_inside(module)
    if reason is None:
        return [found for child in module.children() for found in unseen_parts(child)]
    inner = module
    while (within := wrapped(inner)) is not None:
        inner = within
    return [(module, reason)] if next(inner.children(), None) is not None else []


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
