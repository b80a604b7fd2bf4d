"""Hooks on a whole process: every model and optimizer of an unchanged script.

Hooks and replacements are process-wide, so only `mothtrap run` installs them. A replaced function
removes its own frame from the traceback of exceptions that pass through it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import ExitStack
from threading import get_ident
from typing import Any

import safetensors.torch
import torch
from torch import nn
from torch.optim import Optimizer, lr_scheduler
from torch.optim import optimizer as optim_optimizer
from torch.utils.data import dataloader

from mothtrap.adapters.torch.hooks.handle import TorchHandle
from mothtrap.adapters.torch.hooks.tracer import Tracer
from mothtrap.adapters.torch.job.uncompiled import breaks_graphs, frame_uncompiled
from mothtrap.adapters.torch.losses import loss_calls, margins
from mothtrap.adapters.torch.optimization.optimizers import has_closure
from mothtrap.adapters.torch.optimization.plateaus import PlateauObserver
from mothtrap.adapters.torch.optimization.restores import RestoreObserver
from mothtrap.core.phases import BACKWARD, DATA, OPTIMIZER, OTHER, SAVE
from mothtrap.tracing.replacements import drop_own_frame
from mothtrap.tracing.source.unseen import unseen
from mothtrap.tracing.steps.read_ahead import when_handed

Function = Callable[..., Any]
Wrap = Callable[[Function], Function]
is_compiling = torch.compiler.is_compiling
"""Checked first by every replacement: while Dynamo traces a call, only the original is called."""

SCHEDULERS = (
    lr_scheduler.LRScheduler,
    *(lr_scheduler.ReduceLROnPlateau, lr_scheduler.SequentialLR, lr_scheduler.ChainedScheduler),
)
"""Base class of all schedulers, and the schedulers that do not call its constructor."""


class ProcessHooks(TorchHandle):
    """Installs the hooks of a process; `detach` removes them all."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__(tracer)
        tracer.sampling.allowed = True
        self.phases = tracer.job.recorder.phases
        self.phases.is_used, self.phases.accelerator = True, _uses_accelerator
        self._undo = ExitStack()
        try:
            self._hook_modules()
            self._hook_optimizers()
            self._hook_backward()
            self._hook_scaler()
            self._hook_clipping()
            self._hook_policies()
            self._hook_loaders()
            self._hook_losses()
            self._hook_saving()
            make = self.tracer.forwards.compilations.observed
            self._replace(torch, "compile", lambda original: make(original, drop_own_frame))
            self._undo.callback(self.tracer.forwards.compilations.detach)
        except BaseException:
            self._undo.close()  # all or nothing
            raise

    def detach(self) -> None:
        """Close the last step, remove every hook, and restore everything that was replaced."""
        self.tracer.ended()
        self._undo.close()

    def _replace(self, owner: Any, name: str, make: Wrap) -> None:
        original = getattr(owner, name)
        replacement = frame_uncompiled(unseen(make(original)))
        setattr(owner, name, functools.wraps(original)(replacement))
        self._undo.callback(setattr, owner, name, original)

    def _hook_modules(self) -> None:
        """Wrap `Module._call_impl` (private; covered by a test) instead of using hooks.

        With a global hook, PyTorch takes another path through a call, which appears in every
        traceback, is slower, and warns under `torch.compile`. Dynamo skips a `_call_impl` that is
        already replaced when Dynamo is loaded.
        """
        entered, left = self.tracer.forwards.entered, self.tracer.forwards.left
        fast_path = self.tracer.forwards.fast_path()
        sampling, phases, job = self.tracer.sampling, self.phases, self.tracer.job

        def observe(original: Function) -> Function:
            def call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
                if is_compiling():
                    return original(self, *args, **kwargs)
                told, output = False, None
                is_root = not phases.in_forward and get_ident() == job.thread
                if is_root:
                    phases.forward_began(self.training or torch.is_grad_enabled())
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
                    if is_root:
                        phases.forward_ended()
                return output

            return call

        self._replace(nn.Module, "_call_impl", observe)
        contain, built = self.tracer.contain, self.tracer.book.built
        self._replace(
            nn.Module, "__init__", _around(before=lambda module, *_, **__: contain(built, module))
        )

        def state_given(state: Any, module: nn.Module, *args: Any, **kwargs: Any) -> None:
            if not args and "destination" not in kwargs:  # these arguments are passed to a part
                state_asked(module)
                contain(restores.given, state)

        def loading(
            module: nn.Module, state: Any = None, strict: bool = True, *_: Any, **kwargs: Any
        ) -> None:
            saved_weights.loads = (saved_weights.loads or 0) + 1
            given = kwargs.get("state_dict", state)
            contain(lambda: restores.loading(module, given, strict=strict))

        state_asked, restores = self.tracer.state_asked, RestoreObserver(self.tracer)
        saved_weights = self.tracer.saved_weights
        saved_weights.loads = 0
        self._replace(nn.Module, "state_dict", _around(after=state_given))
        loaded = saved_weights.state_loaded
        self._replace(
            nn.Module,
            "load_state_dict",
            _around(before=loading, after=lambda _, module, *__, **___: contain(loaded, module)),
        )

    def _hook_optimizers(self) -> None:
        tracer, sampling, phases = self.tracer, self.tracer.sampling, self.phases
        job, thread = tracer.job, tracer.training_thread
        if tracer.guard.acts:
            self._undo.callback(tracer.guarded.detach)
            self._replace(Optimizer, "_patch_step_function", self._guard_steps)

        @breaks_graphs
        def before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            if is_compiling() or (get_ident() != job.thread and not thread.joins(optimizer)):
                return
            closure = (len(args) > 1 or bool(kwargs)) and has_closure(args, kwargs)
            if not (sampling.on and sampling.begins_to_step(optimizer, closure)):
                tracer.step_began(optimizer, closure)
            phases.enter(OPTIMIZER)

        @breaks_graphs
        def after(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            if is_compiling() or (get_ident() != job.thread and thread.is_elsewhere()):
                return
            phases.enter(OTHER)
            if sampling.in_step and sampling.has_stepped():
                return
            closure = (len(args) > 1 or bool(kwargs)) and has_closure(args, kwargs)
            tracer.step_ended(optimizer, closure)

        tracer.forwards.compilations.step_hooks = before, after

        for handle in (
            optim_optimizer.register_optimizer_step_pre_hook(before),
            optim_optimizer.register_optimizer_step_post_hook(after),
        ):
            self._undo.callback(handle.remove)
        self._replace(Optimizer, "__init__", _followed_by(tracer.optimizer_constructed))
        for scheduler in SCHEDULERS:
            self._replace(scheduler, "__init__", _followed_by(tracer.scheduler_made))
        plateaus, contain = PlateauObserver(tracer), tracer.contain
        self._replace(
            lr_scheduler.ReduceLROnPlateau,
            "step",
            _around(before=lambda schedule, *_, **__: contain(plateaus.stepping, schedule)),
        )
        self._replace(Optimizer, "add_param_group", _followed_by(tracer.parameters_added))
        for owner in (Optimizer, nn.Module):
            self._replace(owner, "zero_grad", self._see_clearing)

    def _see_clearing(self, original: Function) -> Function:
        tracer, sampling = self.tracer, self.tracer.sampling

        def zero_grad(self: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or sampling.on:
                return original(self, *args, **kwargs)
            tracer.gradients_zeroed(self)
            try:
                return original(self, *args, **kwargs)
            except BaseException as err:
                drop_own_frame(err)
                raise

        return zero_grad

    def _guard_steps(self, original: Function) -> Function:
        """Wrap the step of a class when its first optimizer is created (private; tested)."""
        tracer = self.tracer

        def patch(optimizer: Optimizer) -> None:
            original(optimizer)
            tracer.contain(tracer.guarded.guard_class, type(optimizer))

        return patch

    def _hook_backward(self) -> None:
        tracer, sampling, phases = self.tracer, self.tracer.sampling, self.phases
        job, thread = tracer.job, tracer.training_thread
        observe_all = tracer.forwards.observe_all  # a backward may run modules again

        def backward(original: Function) -> Function:
            def backward(*args: Any, **kwargs: Any) -> Any:
                if is_compiling():
                    return original(*args, **kwargs)
                tensors = args[0] if args else kwargs.get("tensors")
                here = get_ident() == job.thread or thread.joins(roots=tensors)
                watched = here and not (sampling.on and sampling.backward_goes_on(tensors))
                if watched:
                    tracer.backward_began(tensors)
                if here:
                    phases.enter(BACKWARD)
                try:
                    return original(*args, **kwargs)
                except BaseException as err:
                    drop_own_frame(err)
                    raise
                finally:
                    if here:
                        phases.enter(OTHER)
                    if watched:
                        tracer.backward_ended()

            return backward

        def grad(*args: Any, **kwargs: Any) -> None:
            if not sampling.on:
                observe_all()
                tracer.gradient_taken(args[0] if args else kwargs.get("outputs"))

        self._replace(torch.autograd, "backward", backward)
        self._replace(torch.autograd, "grad", _around(before=grad))

    def _hook_scaler(self) -> None:
        tracer = self.tracer

        def scaled(result: Any, scaler: Any, outputs: Any) -> None:
            tracer.contain(tracer.losses.scaled, scaler, outputs, result)

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
        self._replace(torch.amp.GradScaler, "scale", _around(after=scaled))
        self._replace(torch.amp.GradScaler, "step", step)

    def _hook_policies(self) -> None:
        tracer = self.tracer

        def sampled(actions: Any, distribution: Any = None, *_: Any, **__: Any) -> None:
            if not (tracer.sampling.on or tracer.light):  # otherwise no loss would be inspected
                tracer.contain(tracer.losses.sampled.drawn, actions, distribution)

        self._replace(torch.distributions.Categorical, "sample", _around(after=sampled))

    def _hook_clipping(self) -> None:
        tracer, sampling = self.tracer, self.tracer.sampling

        def clips(*_: Any, **__: Any) -> None:
            if not sampling.on:
                tracer.contain(tracer.contain_part, "gradients", tracer.optimizers.clips)

        def clipped(norm: Any, *args: Any, **kwargs: Any) -> None:
            if not sampling.on:
                limit = args[1] if len(args) > 1 else kwargs.get("max_norm", math.inf)
                tracer.contain(tracer.optimizers.clipped, norm, limit)

        clip = _around(before=clips, after=clipped)
        self._replace(torch.nn.utils, "clip_grad_norm_", clip)
        self._replace(torch.nn.utils.clip_grad, "clip_grad_norm_", clip)

    def _hook_saving(self) -> None:
        told, phases, job = self.tracer.weights_written, self.phases, self.tracer.job

        def saves(*_: Any, **__: Any) -> None:
            if get_ident() == job.thread:
                phases.enter(SAVE)

        def saved(_: Any, *args: Any, **kwargs: Any) -> None:
            if get_ident() == job.thread:
                phases.enter(OTHER)
            told(*[*args, *kwargs.values()][:2])

        self._replace(torch, "save", _around(saves, saved))
        self._replace(safetensors.torch, "save_file", _around(saves, saved))

    def _hook_losses(self) -> None:
        report, sampling = self.tracer.forwards.loss_called, self.tracer.sampling
        for name in (*loss_calls.FUNCTIONS, *margins.FUNCTIONS):
            self._replace(
                torch.nn.functional,
                name,
                lambda original: loss_calls.observed(original, report, drop_own_frame, sampling),
            )

    def _hook_loaders(self) -> None:
        """Wrap the iteration of loaders (partly private; covered by a test)."""
        contain, loaders = self.tracer.contain, self.tracer.forwards.inputs.loaders
        part, recording = self.tracer.contain_part, self.tracer.forwards.recording
        sampling, phases, job = self.tracer.sampling, self.phases, self.tracer.job

        def begins(loader: Any) -> None:
            contain(part, "loaders", loaders.pass_begins, loader)

        def began(iterator: Any, loader: Any) -> None:
            contain(part, "loaders", loaders.pass_began, loader, iterator)
            contain(part, "snapshots", recording.pass_began, loader, iterator)

        def drawn(indices: Any, iterator: Any) -> None:
            contain(part, "loaders", loaders.drawn, iterator, indices)

        def load(original: Function) -> Function:
            def advance(self: Any) -> Any:
                is_here = get_ident() == job.thread
                if is_here:
                    phases.enter(DATA)
                try:
                    batch = original(self)
                except BaseException as err:
                    drop_own_frame(err)
                    if isinstance(err, StopIteration):
                        when_handed(lambda: ended(self), of_batch=False)
                    raise
                finally:
                    if is_here:
                        phases.enter(OTHER)
                when_handed(lambda: handed(self, batch), of_batch=True)
                return batch

            return advance

        def ended(iterator: Any) -> None:
            contain(part, "loaders", loaders.ended, iterator)
            contain(part, "snapshots", recording.pass_ended, iterator)

        def handed(iterator: Any, batch: Any) -> None:
            if sampling.on:
                contain(part, "loaders", loaders.passed, iterator)
                return
            contain(part, "loaders", loaders.loaded, iterator, batch)
            contain(part, "snapshots", recording.batch_handed, iterator, batch)

        self._replace(dataloader.DataLoader, "__iter__", _around(begins, began))
        self._replace(dataloader._BaseDataLoaderIter, "_next_index", _around(after=drawn))
        self._replace(dataloader._BaseDataLoaderIter, "__next__", load)


def _uses_accelerator() -> bool:
    """Return whether tensors may be on an accelerator, without initializing one."""
    return (
        torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        or torch.xpu.is_initialized()  # type: ignore[no-untyped-call]
        or torch.backends.mps.is_available()
    )


def _around(before: Function | None = None, after: Function | None = None) -> Wrap:
    """Wrap a function so that it calls `before(*args)` and `after(result, *args)`."""

    def make(original: Function) -> Function:
        def call(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return original(*args, **kwargs)
            if before is not None:
                before(*args, **kwargs)
            try:
                result = original(*args, **kwargs)
            except BaseException as err:
                drop_own_frame(err)
                raise
            if after is not None:
                after(result, *args, **kwargs)
            return result

        return call

    return make


def _followed_by(report: Callable[[Any], None]) -> Wrap:
    """Wrap a method so that it notifies its object after each call."""
    return _around(after=lambda _, owner, *__, **___: report(owner))
