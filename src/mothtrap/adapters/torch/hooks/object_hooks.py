"""Hooks on the objects passed to `mothtrap.watch`, and on nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from threading import get_ident
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from mothtrap.adapters.torch.hooks.handle import TorchHandle
from mothtrap.adapters.torch.hooks.tracer import Tracer
from mothtrap.adapters.torch.job import checkpointing
from mothtrap.adapters.torch.job.module_hook import ModuleHook, inside_fast_path
from mothtrap.adapters.torch.job.naming import class_name
from mothtrap.adapters.torch.job.uncompiled import breaks_graphs, uncompiled
from mothtrap.adapters.torch.optimization.optimizers import has_closure
from mothtrap.capture.grouper import BackwardBegan, BackwardEnded
from mothtrap.tracing.jobs.identity import ByIdentity


@uncompiled
class ObjectHooks(TorchHandle):
    """Hooks on models and their optimizers; `detach` removes them all."""

    def __init__(
        self, tracer: Tracer, models: Sequence[nn.Module], given: Sequence[object]
    ) -> None:
        optimizers = []
        for optimizer in given:
            if not isinstance(optimizer, Optimizer):
                raise TypeError(
                    f"cannot watch a {type(optimizer).__qualname__} as an optimizer: watch(model, "
                    "optimizer) takes one or more torch.optim.Optimizer"
                )
            optimizers.append(optimizer)
        super().__init__(tracer)
        self._models = tuple(models)
        self._undo = ExitStack()
        self._task = self._followed = -1
        self._hooked: ByIdentity[torch.Tensor, bool] = ByIdentity()
        self._waits: list[Any] = []
        for model in self._models:
            tracer.forwards.add_root(model)
        if tracer.recorder.due.is_due("label"):
            tracer.recorder.notes.blind(
                0,
                "labels",
                "mothtrap.watch does not see how a loss is computed; use mothtrap run, or record "
                "them with dbg.log_tensor",
            )
        tracer.forwards.recording.blind[
            "batches of loaders and arguments of losses, which mothtrap.watch does not see"
        ] = None
        for optimizer in optimizers:
            self._hook_optimizer(optimizer)
        seen: set[nn.Module] = set()  # one model may be part of another
        for model in self._models:
            self._hook_modules(model, seen)
        self._hook_parameters()

    def detach(self) -> None:
        """Close the last step and remove every hook."""
        self.tracer.ended()
        if self.tracer.losses.knows_none:
            self.tracer.recorder.notes.blind(
                self.tracer.recorder.steps,
                "the loss",
                "only the model and the optimizer are watched; pass it with dbg.step(loss=loss) "
                "after each optimizer step",
            )
        self._undo.close()
        self.tracer.guarded.detach()

    def _hook_modules(self, model: nn.Module, seen: set[nn.Module]) -> None:
        before, after = (ModuleHook(hook) for hook in self.tracer.forwards.hooks())
        hidden = inside_fast_path(model)
        self.tracer.forwards.reach.hide(hidden)
        if hidden:
            self.tracer.recorder.notes.blind(
                0,
                f"modules inside {', '.join(sorted({type(m).__name__ for m in hidden}))}",
                "hooks would disable PyTorch's fast path and change evaluation results",
            )
        modules = [module for module in model.modules() if module not in seen]
        seen.update(modules)
        for module in modules:
            if module not in hidden and not _takes_no_hooks(module):
                self._keep(module.register_forward_pre_hook(before, with_kwargs=True))
                self._keep(module.register_forward_hook(after, always_call=True))
        if _takes_no_hooks(model):
            self.tracer.recorder.notes.blind(
                0,
                f"calls of {class_name(model)}",
                "a scripted model cannot have hooks; use mothtrap run, which sees its calls",
            )

        saved = ModuleHook(lambda module, *_: self.tracer.state_asked(module))
        inner = getattr(model, "module", None)
        for owner in (model, inner):
            if isinstance(owner, nn.Module) and not _takes_no_hooks(owner):
                register: Any = owner.register_state_dict_post_hook
                self._keep(register(saved))

    def _hook_optimizer(self, optimizer: Optimizer) -> None:
        tracer = self.tracer
        tracer.optimizer_made(optimizer)
        if tracer.guard.acts:
            tracer.guard.own_hooks = 1  # for the hook before the step, see below
            tracer.guarded.guard_object(optimizer)
        job, thread = tracer.job, tracer.training_thread

        @breaks_graphs
        def before(own: Optimizer, args: Any, kwargs: Any) -> None:
            if get_ident() == job.thread or thread.joins(own):
                tracer.step_began(own, has_closure(args, kwargs))

        self._keep(optimizer.register_step_pre_hook(before))
        self._keep(
            optimizer.register_step_post_hook(
                breaks_graphs(
                    lambda own, args, kwargs: tracer.step_ended(own, has_closure(args, kwargs))
                )
            )
        )

    def _hook_parameters(self) -> None:
        """Hook parameters that have no hook yet, such as those that lazy modules have created."""
        parameters = [parameter for model in self._models for parameter in model.parameters()]
        made = [parameter for parameter in parameters if not is_lazy(parameter)]
        for parameter in made:
            if parameter.requires_grad and parameter not in self._hooked:
                self._hooked[parameter] = True
                register: Any = parameter.register_post_accumulate_grad_hook
                self._keep(register(self._reached))
        while self._waits:
            self._waits.pop().remove()
        if len(made) < len(parameters):
            again = ModuleHook(lambda *_: self.tracer.contain(self._hook_parameters))
            for model in self._models:
                self._waits.append(model.register_forward_hook(again))
                self._keep(self._waits[-1])

    def _reached(self, parameter: torch.Tensor) -> None:
        """Detect a backward pass by the first parameter that it reaches."""
        job, thread = self.tracer.job, self.tracer.training_thread
        task = torch._C._current_graph_task_id()
        # A smaller number belongs to a backward pass that the backward of a segment interrupted.
        if task > self._task and (get_ident() == job.thread or thread.joins()):
            self._task = task
            self.tracer.contain(self._backward_seen, parameter)

    def _backward_seen(self, reached: torch.Tensor) -> None:
        tracer, forward = self.tracer, self.tracer.forwards.roots_called
        if checkpointing.in_backward_of_segment() and forward == self._followed:
            return  # part of the backward that was already reported
        self._followed = forward
        if not tracer.grouper.inside_step:
            tracer.contain_part("gradients", tracer.optimizers.backward_began, reached)
        tracer.feed(BackwardBegan("backward"))
        tracer.feed(BackwardEnded())
        tracer.forwards.retained.used = True

    def _keep(self, handle: Any) -> None:
        self._undo.callback(handle.remove)


def _takes_no_hooks(module: nn.Module) -> bool:
    return isinstance(module, torch.jit.ScriptModule)
