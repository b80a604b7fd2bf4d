"""Watches a whole process: every model and optimizer of an unchanged script.

Hooks and replacements are process-wide, so only `mothtrap run` installs them. A
replaced function takes its own frame out of the traceback of what passes through it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer, lr_scheduler
from torch.optim import optimizer as optim_optimizer
from torch.utils.data import dataloader

from mothtrap.adapters.torch.hooks.handle import TorchHandle
from mothtrap.adapters.torch.hooks.tracer import Tracer
from mothtrap.adapters.torch.job.uncompiled import breaks_graphs, frame_uncompiled, uncompiled
from mothtrap.adapters.torch.losses import loss_calls
from mothtrap.adapters.torch.optimization.optimizers import has_closure
from mothtrap.tracing.unseen import unseen

Function = Callable[..., Any]
is_compiling = torch.compiler.is_compiling
"""Asked first by every replacement: where Dynamo follows a call, only the original is left."""

SCHEDULERS = (
    lr_scheduler.LRScheduler,
    *(lr_scheduler.ReduceLROnPlateau, lr_scheduler.SequentialLR, lr_scheduler.ChainedScheduler),
)
"""The base of all schedulers, and those that do not call its constructor."""


class ProcessHooks(TorchHandle):
    """Installs the hooks of a process; `detach` takes them all out again."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__(tracer)
        tracer.sampling.allowed = True
        self._undo = ExitStack()
        try:
            self._hook_modules()
            self._hook_optimizers()
            self._hook_backward()
            self._hook_scaler()
            self._hook_clipping()
            self._hook_loaders()
            self._hook_losses()
            make = self.tracer.forwards.compilations.observed
            self._replace(torch, "compile", lambda original: make(original, drop_own_frame))
            self._undo.callback(self.tracer.forwards.compilations.detach)
        except BaseException:
            self._undo.close()  # all or nothing
            raise

    def detach(self) -> None:
        """Close the last step, remove every hook, restore everything replaced."""
        self.tracer.ended()
        self._undo.close()

    def _replace(self, owner: Any, name: str, make: Callable[[Function], Function]) -> None:
        original = getattr(owner, name)
        replacement = frame_uncompiled(unseen(make(original)))
        setattr(owner, name, functools.wraps(original)(replacement))
        self._undo.callback(setattr, owner, name, original)

    def _hook_modules(self) -> None:
        """Stand around `Module._call_impl` (private; a test pins it), and in no hook.

        With a global hook PyTorch takes another way through a call, which shows in every
        traceback, is slower, and warns under `torch.compile`. Dynamo steps over a
        `_call_impl` that it finds in place when it is loaded.
        """
        entered, left = self.tracer.forwards.entered, self.tracer.forwards.left
        fast_path = self.tracer.forwards.fast_path()
        sampling = self.tracer.sampling

        def observe(original: Function) -> Function:
            def call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
                if is_compiling():
                    return original(self, *args, **kwargs)
                told, output = False, None
                try:
                    if sampling.on and (id(self) != sampling.root or sampling.goes_on(self)):
                        output = original(self, *args, **kwargs)
                    elif fast_path is not None and fast_path.passes(self):
                        output = fast_path(original, self, *args, **kwargs)
                    else:
                        told = entered(self, args, kwargs)
                        output = original(self, *args, **kwargs)
                except BaseException as err:
                    drop_own_frame(err)
                    raise
                finally:
                    if told:
                        left(self, output)
                return output

            return call

        self._replace(nn.Module, "_call_impl", observe)
        contain, built = self.tracer.contain, self.tracer.book.built

        def construct(original: Function) -> Function:
            def init(self: nn.Module, *args: Any, **kwargs: Any) -> None:
                if is_compiling():
                    original(self, *args, **kwargs)
                    return
                contain(built, self)
                try:
                    original(self, *args, **kwargs)
                except BaseException as err:
                    drop_own_frame(err)
                    raise

            return init

        self._replace(nn.Module, "__init__", construct)

        def ask(original: Function) -> Function:
            def state_dict(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
                if is_compiling():
                    return original(self, *args, **kwargs)
                try:
                    state = original(self, *args, **kwargs)
                except BaseException as err:
                    drop_own_frame(err)
                    raise
                if not args and "destination" not in kwargs:  # a part is asked with these
                    state_asked(self)
                return state

            return state_dict

        state_asked = self.tracer.state_asked
        self._replace(nn.Module, "state_dict", ask)

    def _hook_optimizers(self) -> None:
        tracer, sampling = self.tracer, self.tracer.sampling
        if tracer.guard.acts:
            self._undo.callback(tracer.guarded.detach)
            self._replace(Optimizer, "_patch_step_function", self._guard_steps)

        @breaks_graphs
        def before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            if is_compiling():
                return
            closure = has_closure(args, kwargs)
            if not (sampling.on and sampling.begins_to_step(optimizer, closure)):
                tracer.step_began(optimizer, closure)

        @breaks_graphs
        def after(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            if is_compiling() or (sampling.in_step and sampling.has_stepped()):
                return
            tracer.step_ended(optimizer, has_closure(args, kwargs))

        tracer.forwards.compilations.step_hooks = before, after

        for handle in (
            optim_optimizer.register_optimizer_step_pre_hook(before),
            optim_optimizer.register_optimizer_step_post_hook(after),
        ):
            self._undo.callback(handle.remove)
        self._replace(Optimizer, "__init__", _followed_by(tracer.optimizer_constructed))
        for scheduler in SCHEDULERS:
            self._replace(scheduler, "__init__", _followed_by(tracer.scheduler_made))
        self._replace(Optimizer, "add_param_group", _followed_by(tracer.parameters_added))
        for owner in (Optimizer, nn.Module):
            self._replace(owner, "zero_grad", self._see_clearing)

    def _see_clearing(self, original: Function) -> Function:
        tracer, sampling = self.tracer, self.tracer.sampling

        def zero_grad(self: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or sampling.on:
                return original(self, *args, **kwargs)
            tracer.contain(tracer.contain_part, "gradients", tracer.optimizers.clears, self)
            try:
                result = original(self, *args, **kwargs)
            except BaseException as err:
                drop_own_frame(err)
                raise
            if isinstance(self, Optimizer):
                tracer.gradients_zeroed(self)
            return result

        return zero_grad

    def _guard_steps(self, original: Function) -> Function:
        """Stand around the step of a class when its first optimizer is made (private; tested)."""
        tracer = self.tracer

        def patch(optimizer: Optimizer) -> None:
            original(optimizer)
            tracer.contain(tracer.guarded.guard_class, type(optimizer))

        return patch

    def _hook_backward(self) -> None:
        tracer, sampling = self.tracer, self.tracer.sampling
        observe_all = tracer.forwards.observe_all  # a backward may run modules again

        def backward(original: Function) -> Function:
            def backward(*args: Any, **kwargs: Any) -> Any:
                if is_compiling():
                    return original(*args, **kwargs)
                tensors = args[0] if args else kwargs.get("tensors")
                watched = not (sampling.on and sampling.backward_goes_on(tensors))
                if watched:
                    observe_all()
                    tracer.backward_began(tensors)
                try:
                    return original(*args, **kwargs)
                except BaseException as err:
                    drop_own_frame(err)
                    raise
                finally:
                    if watched:
                        tracer.backward_ended()

            return backward

        def grad(original: Function) -> Function:
            def grad(*args: Any, **kwargs: Any) -> Any:
                if is_compiling() or sampling.on:
                    return original(*args, **kwargs)
                observe_all()
                tracer.gradient_taken(args[0] if args else kwargs.get("outputs"))
                try:
                    return original(*args, **kwargs)
                except BaseException as err:
                    drop_own_frame(err)
                    raise

            return grad

        self._replace(torch.autograd, "backward", backward)
        self._replace(torch.autograd, "grad", grad)

    def _hook_scaler(self) -> None:
        tracer = self.tracer

        def scale(original: Function) -> Function:
            def scale(self: Any, outputs: Any) -> Any:
                if is_compiling():
                    return original(self, outputs)
                try:
                    result = original(self, outputs)
                except BaseException as err:
                    drop_own_frame(err)
                    raise
                tracer.contain(tracer.losses.scaled, self, outputs, result)
                return result

            return scale

        def step(original: Function) -> Function:
            def step(self: Any, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
                if is_compiling():
                    return original(self, optimizer, *args, **kwargs)
                before = tracer.optimizers.steps_of(optimizer)
                try:
                    result = original(self, optimizer, *args, **kwargs)
                except BaseException as err:
                    drop_own_frame(err)
                    raise
                if self.is_enabled():
                    skipped = tracer.optimizers.steps_of(optimizer) == before
                    tracer.scaler_stepped(self, optimizer, skipped)
                return result

            return step

        self._replace(torch.amp.GradScaler, "__init__", _followed_by(tracer.scaler_made))
        self._replace(torch.amp.GradScaler, "scale", scale)
        self._replace(torch.amp.GradScaler, "step", step)

    def _hook_clipping(self) -> None:
        tracer, sampling = self.tracer, self.tracer.sampling

        def clip(original: Function) -> Function:
            def clip_grad_norm_(*args: Any, **kwargs: Any) -> Any:
                if is_compiling() or sampling.on:
                    return original(*args, **kwargs)
                tracer.contain(tracer.contain_part, "gradients", tracer.optimizers.clips)
                try:
                    norm = original(*args, **kwargs)
                except BaseException as err:
                    drop_own_frame(err)
                    raise
                limit = args[1] if len(args) > 1 else kwargs.get("max_norm", math.inf)
                tracer.contain(tracer.optimizers.clipped, norm, limit)
                return norm

            return clip_grad_norm_

        self._replace(torch.nn.utils, "clip_grad_norm_", clip)
        self._replace(torch.nn.utils.clip_grad, "clip_grad_norm_", clip)

    def _hook_losses(self) -> None:
        tell, sampling = self.tracer.forwards.loss_called, self.tracer.sampling
        for name in loss_calls.FUNCTIONS:
            self._replace(
                torch.nn.functional,
                name,
                lambda original: loss_calls.observed(original, tell, drop_own_frame, sampling),
            )

    def _hook_loaders(self) -> None:
        """Stand around the iteration of loaders (in part private; a test pins it)."""
        contain, loaders = self.tracer.contain, self.tracer.forwards.inputs.loaders
        part, recording = self.tracer.contain_part, self.tracer.forwards.recording
        sampling = self.tracer.sampling

        def begin(original: Function) -> Function:
            def iterate(self: Any) -> Any:
                contain(part, "loaders", loaders.pass_begins, self)
                try:
                    iterator = original(self)
                except BaseException as err:
                    drop_own_frame(err)
                    raise
                contain(part, "loaders", loaders.pass_began, self, iterator)
                contain(part, "snapshots", recording.pass_began, self, iterator)
                return iterator

            return iterate

        def draw(original: Function) -> Function:
            def _next_index(self: Any) -> Any:
                try:
                    indices = original(self)
                except BaseException as err:
                    drop_own_frame(err)
                    raise
                contain(part, "loaders", loaders.drawn, self, indices)
                return indices

            return _next_index

        def load(original: Function) -> Function:
            def advance(self: Any) -> Any:
                try:
                    batch = original(self)
                except BaseException as err:
                    drop_own_frame(err)
                    if isinstance(err, StopIteration):
                        contain(part, "loaders", loaders.ended, self)
                        contain(part, "snapshots", recording.pass_ended, self)
                    raise
                if sampling.on:
                    contain(part, "loaders", loaders.passed, self)
                    return batch
                contain(part, "loaders", loaders.loaded, self, batch)
                contain(part, "snapshots", recording.batch_handed, self, batch)
                return batch

            return advance

        self._replace(dataloader.DataLoader, "__iter__", begin)
        self._replace(dataloader._BaseDataLoaderIter, "_next_index", draw)
        self._replace(dataloader._BaseDataLoaderIter, "__next__", load)


def _followed_by(tell: Callable[[Any], None]) -> Callable[[Function], Function]:
    """Make a method tell its object when it is done."""

    def make(original: Function) -> Function:
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return original(self, *args, **kwargs)
            try:
                result = original(self, *args, **kwargs)
            except BaseException as err:
                drop_own_frame(err)
                raise
            tell(self)
            return result

        return method

    return make


@uncompiled
def drop_own_frame(err: BaseException) -> None:
    """Take the wrapper's entry out of a traceback; a bare `raise` does not add it again."""
    if err.__traceback__ is not None and err.__traceback__.tb_next is not None:
        err.__traceback__ = err.__traceback__.tb_next
