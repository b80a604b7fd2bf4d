"""Models compiled by `torch.compile` or `torch.jit`, and the parts that are hidden inside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer

from mothtrap.adapters.torch.forward.taps import Tap, Tell, is_tapped, tap
from mothtrap.adapters.torch.job.module_hook import inside_fast_path
from mothtrap.adapters.torch.job.naming import Root, unseen_inside, unwrapped
from mothtrap.core import collections
from mothtrap.core.config import Config
from mothtrap.statistics import torch as arithmetic

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

COMPARED_ELEMENTS = 1024
"""Number of first elements by which a tensor is recognized; chosen by hand."""
Function = Callable[..., Any]
MAX_NAMED = 4
"""Maximum number of compiled parts, or functions, that are named; chosen by hand."""


SEEN_THROUGH_TAPS = (
    "compiled by torch.compile: for the modules in it, only outputs that are a single tensor are "
    "captured, without their gradients"
)


class CompilationObserver:
    """Tracks compiled code, and reports hidden parts if that matters.

    Args:
        job: the job.
        report: function that receives a module inside compiled code and its output.

    Attributes:
        step_hooks: hooks of optimizers; they cause a graph break if Dynamo follows a call to them.
    """

    def __init__(self, job: Job, report: Tell) -> None:
        self._job, self._report_output = job, report
        self._taps: list[Tap] = []
        self._last: tuple[int, torch.Size, int] | None = None
        self._taps_asked = job.config.inside_compiled and _asks_for_activations(job.config)
        self.functions: dict[str, None] = {}
        self.modules_changed = False
        self._roots_called = 0
        self.step_hooks: tuple[Any, ...] = ()

    def observed(self, original: Function, drop_own_frame: Function) -> Function:
        """Create the replacement of `torch.compile`, which `Module.compile` also uses.

        Args:
            original: the function.
            drop_own_frame: removes the replacement from the traceback of its exceptions.
        """

        def compile_(model: Any = None, **options: Any) -> Any:
            if torch.compiler.is_compiling():
                return original(model, **options)
            if model is not None and not options.get("disable"):  # None: a decorator,
                self._job.contain(self._compiled, model, options)  # which is called again
            try:
                return original(model, **options)
            except BaseException as err:
                drop_own_frame(err)
                raise

        return compile_

    def _compiled(self, target: Any, options: Mapping[str, Any]) -> None:
        owner = getattr(target, "__self__", target)
        if isinstance(owner, nn.Module):
            self.modules_changed = True
            if self._taps_asked and not _uses_graphs_of_the_device(options):
                self._job.contain_part("activations in compiled code", self._tap, owner, target)
            return
        if options.get("fullgraph"):
            for hook in self.step_hooks:  # with it, a graph break is an error
                hook._torchdynamo_disable = False
        if not isinstance(owner, Optimizer):
            self._job.book.names_uncalled = True
            self.functions[getattr(target, "__qualname__", type(target).__qualname__)] = None

    def _tap(self, owner: nn.Module, target: Any) -> None:
        """Observe the calls inside a module; its own output is observed from outside."""
        if target is not owner and type(owner).__module__.startswith("torch.nn."):
            return  # PyTorch does not compile these, but would if their parts had hooks
        owner = unwrapped(owner)
        hidden = inside_fast_path(owner)
        parts = (part for part in owner.modules() if part is not owner and part not in hidden)
        self._taps += tap(parts, self._passed)

    def _passed(self, module: nn.Module, output: torch.Tensor) -> None:
        self._job.contain(self._report_output, module, output)

    def is_handed_on(self, module: nn.Module, output: torch.Tensor) -> bool:
        """Return whether a container only returns the output of its last, compiled child.

        Compilers reuse the memory of tensors, so an address alone proves nothing.
        """
        part = output.detach().reshape(-1)[:COMPARED_ELEMENTS]
        now = output.data_ptr(), output.shape, arithmetic.digest(part)
        before, self._last = self._last, now
        return bool(module._modules) and now == before

    def made(self, module: nn.Module) -> bool:
        """Return whether a module is a graph created by a compiler, rather than part of a model."""
        is_graph = isinstance(module, torch.fx.GraphModule)
        return is_graph and self._job.book.root_of(module) is None

    def detach(self) -> None:
        """Remove everything that was added to modules."""
        while self._taps:
            self._taps.pop().remove()

    def root_called(self) -> None:
        """Handle the start of a forward pass; parts may have been compiled since the last one."""
        if self.modules_changed:
            self.modules_changed = False
            self._job.book.refresh()
            for root in self._job.book.roots:
                self.tell_hidden(root)

    def tell_hidden(self, root: Root) -> None:
        """Report the parts of a model whose content is hidden, for instance by compilation."""
        module = root.module()
        parts: dict[str, list[str]] = {}
        for part, reason in unseen_parts(module) if module is not None else ():
            if is_tapped(part):
                reason = SEEN_THROUGH_TAPS
            parts.setdefault(reason, []).append(self._job.book.module_name(part))
        for reason, names in parts.items():
            self._report(f"activations inside {_listed(names)}", reason)

    def step_closed(self, roots_called: int) -> None:
        """Handle the end of a step; if no forward pass was observed, compiled functions hide it."""
        before, self._roots_called = self._roots_called, roots_called
        if self.functions and roots_called == before:
            self._report(
                f"forward passes inside {_listed([*self.functions])}",
                "compiled by torch.compile as a function: its modules, losses, and labels are "
                "not observed; parameters, gradients, and steps are",
            )

    def _report(self, what: str, reason: str) -> None:
        self._job.recorder.notes.blind(self._job.grouper.step, what, reason)


def unseen_parts(module: nn.Module) -> list[tuple[nn.Module, str]]:
    """Return the outermost modules that hide their parts, each with the reason."""
    reason = unseen_inside(module)
    if reason is None:
        return [found for child in module.children() for found in unseen_parts(child)]
    parts = unwrapped(module).children()
    return [(module, reason)] if next(parts, None) is not None else []


def _asks_for_activations(config: Config) -> bool:
    return config.capture == "everything" or any(
        "activation" in collections.kinds(name, collection)
        for name, collection in config.collections.items()
    )


def _uses_graphs_of_the_device(options: Mapping[str, Any]) -> bool:
    """Return whether kernels are recorded as a CUDA graph and replayed, without calling hooks."""
    asked = options.get("options") or {}
    return options.get("mode") in ("reduce-overhead", "max-autotune") or any(
        "cudagraph" in str(key) for key in asked
    )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
