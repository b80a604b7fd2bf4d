"""Wrap the functions that a script calls in a replay, outside of all other hooks.

The replacements belong to a process that exists only for the replay. Unlike the hooks of a
training run, they change arguments and end the process.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any, Protocol

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim import optimizer as optim_optimizer
from torch.utils.data import DataLoader

from mothtrap.adapters.torch.losses import loss_calls
from mothtrap.adapters.torch.optimization.optimizers import has_closure
from mothtrap.adapters.torch.replaying.handing import (
    Handed,
    HandingIterator,
    LoaderNumbers,
)
from mothtrap.tracing.replacements import drop_own_frame
from mothtrap.tracing.steps import read_ahead

Function = Callable[..., Any]


class Player(Protocol):
    """Interface of a replay to intercepted calls."""

    def ask_loader(self, number: int, site: str, own: Callable[[], Any], /) -> Handed | None:
        """Handle a request for a batch; return the batch, or None for the loader's `own`."""

    def forward_called(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Handle a module call; return its arguments."""

    def loss_called(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Handle a loss call; return its arguments."""

    def step_begins(self, optimizer: Optimizer, closure: bool, /) -> None:
        """Handle the start of `optimizer.step`, with the gradients about to be applied."""

    def step_ended(self, optimizer: Optimizer) -> None:
        """Handle the return of `optimizer.step`."""

    def backward_begins(self, tensors: Any, /) -> None:
        """Handle the start of an outermost `backward`."""

    def backward_ended(self) -> None:
        """Handle the return of an outermost `backward`."""

    def scaler_stepped(self, optimizer: Optimizer, *, skipped: bool) -> None:
        """Handle a gradient scaler's step or skipped step."""

    def raised(self, error: BaseException) -> None:
        """Handle an exception that leaves the script."""


class Interception:
    """Redirects the calls of a script to a player, until the process ends.

    Args:
        player: receives the calls.
        follows: the first thread that steps an optimizer counts as the script; otherwise this
            thread.
    """

    def __init__(self, player: Player, *, follows: bool = False) -> None:
        self._player = player
        self._depth = self._backward_depth = 0
        self._losses: list[str] = []
        self._thread = None if follows else threading.get_ident()
        self._loaders = LoaderNumbers()
        self._hook_loaders()
        self._hook_modules()
        self._hook_losses()
        self._hook_backward()
        self._hook_steps()
        self._hook_exceptions()

    def _hook_loaders(self) -> None:
        begin, numbers, ask = DataLoader.__iter__, self._loaders, self._player.ask_loader

        @functools.wraps(begin)
        def iterate(loader: DataLoader[Any]) -> Any:
            if self._is_foreign() or read_ahead.is_running():
                return begin(loader)
            return HandingIterator(loader, begin, numbers.of(loader), ask)

        def iterate_ahead(loader: Any, own: Callable[[Any], Any]) -> Any:
            return HandingIterator(loader, own, numbers.of(loader), ask)

        read_ahead.intercepts.append(iterate_ahead)
        setattr(DataLoader, "__iter__", iterate)  # noqa: B010  # for the type checker

    def _hook_modules(self) -> None:
        original: Function = nn.Module._call_impl
        is_compiling = torch.compiler.is_compiling

        @functools.wraps(original)
        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or self._is_inside():
                return original(module, *args, **kwargs)
            args, kwargs = self._player.forward_called(module, args, kwargs)
            self._depth += 1
            try:
                return original(module, *args, **kwargs)
            except BaseException as err:
                drop_own_frame(err)
                raise
            finally:
                self._depth -= 1

        setattr(nn.Module, "_call_impl", call)  # noqa: B010

    def _is_inside(self) -> bool:
        return (
            self._depth > 0
            or self._backward_depth > 0
            or self._is_foreign()
            or torch._C._get_tracing_state() is not None
        )

    def _is_foreign(self) -> bool:
        """Return whether this thread is known not to be the training thread."""
        return self._thread not in (None, threading.get_ident())

    def _hook_losses(self) -> None:
        for name in loss_calls.FUNCTIONS:
            original = getattr(torch.nn.functional, name)
            setattr(torch.nn.functional, name, self._answered(original, name))

    def _answered(self, original: Function, name: str) -> Function:
        is_compiling, answer = torch.compiler.is_compiling, self._player.loss_called
        # in the closure, because the function runs with other globals than this module
        drop, inside = drop_own_frame, self._losses

        def call(*args: Any, **kwargs: Any) -> Any:
            # A function mode calls the replacement again inside the original.
            if is_compiling() or inside:
                return original(*args, **kwargs)
            args, kwargs = answer(name, args, kwargs)
            inside.append(name)
            try:
                return original(*args, **kwargs)
            except BaseException as err:
                drop(err)
                raise
            finally:
                inside.pop()

        # With the globals of the module, it remains a function that can be scripted.
        scope = torch.nn.functional.__dict__
        answered = FunctionType(call.__code__, scope, name, None, call.__closure__)
        return functools.wraps(original)(answered)

    def _hook_backward(self) -> None:
        original = torch.autograd.backward

        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            if not self._backward_depth:
                self._player.backward_begins(args[0] if args else kwargs.get("tensors"))
            self._backward_depth += 1
            try:
                result = original(*args, **kwargs)
            except BaseException as err:
                drop_own_frame(err)
                raise
            finally:
                self._backward_depth -= 1
            if not self._backward_depth:
                self._player.backward_ended()
            return result

        setattr(torch.autograd, "backward", backward)  # noqa: B010

    def _hook_steps(self) -> None:
        player, scaler_step = self._player, torch.amp.GradScaler.step
        counts: dict[int, int] = {}

        def before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            counts[id(optimizer)] = counts.get(id(optimizer), 0) + 1
            player.step_begins(optimizer, has_closure(args, kwargs))

        def after(optimizer: Optimizer, *_: Any) -> None:
            self._thread = self._thread or threading.get_ident()
            player.step_ended(optimizer)

        optim_optimizer.register_optimizer_step_pre_hook(before)
        optim_optimizer.register_optimizer_step_post_hook(after)

        @functools.wraps(scaler_step)
        def step(scaler: Any, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
            steps = counts.get(id(optimizer), 0)
            result = scaler_step(scaler, optimizer, *args, **kwargs)
            if scaler.is_enabled():
                skipped = counts.get(id(optimizer), 0) == steps
                player.scaler_stepped(optimizer, skipped=skipped)
            return result

        setattr(torch.amp.GradScaler, "step", step)  # noqa: B010

    def _hook_exceptions(self) -> None:
        shown = sys.excepthook

        def hook(kind: Any, error: BaseException, trace: Any) -> None:
            shown(kind, error, trace)
            self._player.raised(error)

        sys.excepthook = hook
