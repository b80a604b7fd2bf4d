"""Tracer of a PyTorch job: receives the events of hooks, and passes them to observers."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

import torch
from torch.optim import Optimizer

from mothtrap.adapters.torch.comparing_runs.seeding import RandomStart
from mothtrap.adapters.torch.forward.forwards import ForwardObserver
from mothtrap.adapters.torch.guard.guard import Guard
from mothtrap.adapters.torch.guard.guarded_steps import GuardedSteps
from mothtrap.adapters.torch.hooks.ending import Ending
from mothtrap.adapters.torch.hooks.loss_observers import add_loss_observers
from mothtrap.adapters.torch.hooks.onset import Onset
from mothtrap.adapters.torch.hooks.readiness import Readiness
from mothtrap.adapters.torch.hooks.reports import (
    PARTS_OF_ONE_THREAD,
    REPORTS_OF_ONE_THREAD,
    SHARED,
)
from mothtrap.adapters.torch.job.devices import use_devices
from mothtrap.adapters.torch.job.distributed import in_group
from mothtrap.adapters.torch.job.memory import MemoryObserver
from mothtrap.adapters.torch.job.naming import NameBook
from mothtrap.adapters.torch.job.observers import BackwardRoot, Observers
from mothtrap.adapters.torch.job.pace import PaceObserver
from mothtrap.adapters.torch.job.step_sampling import needs_no_step
from mothtrap.adapters.torch.layers.buffers import BufferObserver
from mothtrap.adapters.torch.layers.initial_weights import InitialWeightsObserver
from mothtrap.adapters.torch.losses.backwards import LossObserver
from mothtrap.adapters.torch.losses.target_order import TargetOrderObserver
from mothtrap.adapters.torch.optimization.aliases import AliasObserver
from mothtrap.adapters.torch.optimization.checkpoints import CheckpointObserver
from mothtrap.adapters.torch.optimization.hand_steps import HandSteps
from mothtrap.adapters.torch.optimization.inventory import FACTS, InventoryObserver
from mothtrap.adapters.torch.optimization.optimizer_facts import OptimizerFactsObserver
from mothtrap.adapters.torch.optimization.optimizers import (
    Known,
    OptimizerObserver,
    applies_nothing,
)
from mothtrap.adapters.torch.optimization.ownership import OwnershipObserver
from mothtrap.adapters.torch.optimization.rounding import RoundingObserver
from mothtrap.adapters.torch.optimization.saved_weights import SavedWeights
from mothtrap.adapters.torch.optimization.updates import UpdateObserver
from mothtrap.adapters.torch.recording.tracked_objects import TrackedObjects
from mothtrap.adapters.torch.snapshots.parts import Parts
from mothtrap.adapters.torch.snapshots.taker import TorchSnapshotTaker
from mothtrap.capture.grouper import (
    BackwardEnded,
    ClosedStep,
    Ended,
    GradientsZeroed,
    StepBegan,
    StepCancelled,
    StepEnded,
    StepSkipped,
)
from mothtrap.core.adapters import Given
from mothtrap.core.facts.modules import (
    HalfPrecision,
    UnreachedModule,
)
from mothtrap.core.facts.optimizers import (
    IdleOptimizer,
    OptimizerFacts,
    RoundedUpdates,
    UnownedParameter,
)
from mothtrap.statistics.torch.reducers import DigestingReducer
from mothtrap.tracing.jobs.adapter_job import AdapterJob

BY_HAND = "by hand"
"""Name of the optimizer if there is none, and `step_given` is called."""


class Tracer(Parts):
    """Receives events from hooks, passes them to the grouper, and closes steps.

    Hooks call the methods of the section "Events", and the first attributes; errors in them never
    reach the training.

    Attributes:
        backward_began: called with the roots at the start of `backward`.
        backward_ended: called when it has returned or raised an exception.
        step_began: called with an optimizer at the start of its `step`, and whether it has a
            closure, by a hook that `step` itself calls.
        step_ended: the same, when `step` has returned.
        gradients_zeroed: called with an optimizer, or a module, before `zero_grad`.
    """

    guard: Guard
    hand_steps: HandSteps
    snapshots: TorchSnapshotTaker

    def __init__(self, job: AdapterJob, book: NameBook | None = None) -> None:
        super().__init__(job, book)
        self.optimizers = OptimizerObserver(self)
        self.known = TrackedObjects(self.book, self.optimizers)
        self.hand_steps = HandSteps(self, self.optimizers, self._began_by_hand, self._ended_by_hand)
        self.forwards = ForwardObserver(self, self.optimizers)
        self.recording = self.forwards.recording
        self.digests = self.forwards.inputs.digests
        self.digests.every_tensor = self.config.digests or self.config.capture == "everything"
        self.recorder.depths.all_full = self.digests.every_tensor
        self.losses = LossObserver(self, self.forwards)
        self._target_order = TargetOrderObserver(self, self.forwards.inputs.loaders)
        self.saved_weights = SavedWeights(self, self.optimizers, self.forwards.evaluated_losses)
        self.checkpoints = CheckpointObserver(self, self.optimizers)
        self._initial_weights = InitialWeightsObserver(self, self.optimizers)
        self._facts = OptimizerFactsObserver(self, self.optimizers)
        self._pace, self.observers = PaceObserver(self), Observers(self)
        self._observe()
        self.snapshots = TorchSnapshotTaker(self)
        self._onset = Onset(self, self.forwards, self.losses, self._target_order)
        self._ending = Ending(self, self.forwards, self.snapshots)
        self.guard = Guard(self)
        self.guarded = GuardedSteps(self, self.guard)
        self._ready, self.random_start = Readiness(), RandomStart()
        self.contain_part("ledger", self.random_start.read)
        self._backward_depth = self._backwards = self._process = 0
        self._serve()
        thread = self.training_thread
        thread.moved, thread.left_out = self._thread_moved, self._left_out
        thread.activity = lambda: (self.grouper.step, self._backwards, self.forwards.roots_called)
        self.optimizers.other_threads.share = self._parameters_shared
        contained = self.contained
        self.backward_began = contained(self._backward_began)
        self.backward_ended = contained(self._backward_ended)
        self.step_began = contained(self._step_began)
        self.step_ended = contained(self._step_ended)
        self.gradients_zeroed = contained(self._gradients_zeroed)

    def _serve(self) -> None:
        """Define which services receive which events, in this order."""
        serve, recording, snapshots = self.observers.serve, self.recording, self.snapshots
        serve("step_begins", "gradients", self.optimizers.rates)
        serve("step_begins", "snapshots", recording.stepping)
        serve("gradients_final", "gradients", self._read_gradients)
        serve("gradients_final", "snapshots", snapshots.joined)
        serve("gradients_final", "guard", self.guard.step_begins)
        serve("gradients_final", "snapshots", snapshots.fulfil)
        serve("gradients_final", "initial weights", self._initial_weights.step_began, light=False)
        serve("step_ends", "snapshots", recording.applied)
        serve("step_ends", "snapshots", snapshots.applied)
        serve("step_ends", "gradients", self.optimizers.after_step)
        if self.guard.acts:
            serve("step_ends", "guard", self.guarded.step_ended)
        serve("closing", "evaluations", self.forwards.evaluations.uses.close)
        serve("closing", "snapshots", functools.partial(recording.close, self.losses.values))
        serve("closing", "snapshots", snapshots.truth.close)
        serve("closing", "losses", self.losses.close)
        serve("closing", "modes", self.forwards.modes.close)
        serve("closing", "gradients", self.optimizers.new_step)
        serve("closing", "samples", self.forwards.inputs.loaders.provenance.close)
        serve("closing", "guard", self.guard.close)
        serve("closing", "modes", self.forwards.bootstraps.close, light=False)

    def _observe(self) -> None:
        """Build the observers that are needed, in the order in which they receive events."""
        add, forwards, optimizers = self.observers.add, self.forwards, self.optimizers
        add("loss graph", lambda: self.losses)
        add("memory", lambda: MemoryObserver(self), each_step=True)
        of_losses = forwards, self._target_order, self.losses.sampled
        add_loss_observers(self, self.observers, *of_losses)
        add("updates", lambda: UpdateObserver(self, optimizers))
        add("buffers", lambda: BufferObserver(self))
        add("optimizer facts", lambda: self._facts, OptimizerFacts)
        add("rounding", lambda: RoundingObserver(self, optimizers), RoundedUpdates)
        add("reach of gradients", lambda: forwards.reach, UnreachedModule, IdleOptimizer)
        add("half precision", lambda: forwards.narrow, HalfPrecision)
        add(
            "wiring",
            lambda: OwnershipObserver(self, optimizers, forwards.calls.order),
            UnownedParameter,
        )
        add("inventory", lambda: InventoryObserver(self, optimizers), *FACTS)
        add("wiring", lambda: AliasObserver(self, optimizers), *AliasObserver.FACTS)
        add("activations", lambda: forwards.calls.activity)
        if forwards.narrow not in self.observers.members:
            forwards.narrow.looks = False

    # Events

    def optimizer_constructed(self, optimizer: Optimizer) -> None:
        """Handle the construction of an optimizer by the running code."""
        self.training_thread.begins()
        self.contain(self.contain_part, "optimizer facts", self._facts.constructed, optimizer)
        self.optimizer_made(optimizer)
        if getattr(optimizer, "averages_losses", False):
            self.losses.averaging.add(self.optimizers.add(optimizer).name)

    def optimizer_made(self, optimizer: Optimizer) -> None:
        """Handle a new optimizer."""
        self.contain(self.optimizers.add, optimizer)
        self.contain(self.contain_part, "checkpoints", self.saved_weights.made, optimizer)

    def scheduler_made(self, scheduler: Any) -> None:
        """Handle a new learning rate scheduler."""
        self.contain(self.contain_part, "snapshots", self.known.scheduler_made, scheduler)
        self.contain(self.contain_part, "schedules", self._ending.schedules.made, scheduler)

    def scaler_made(self, scaler: Any) -> None:
        """Handle a new gradient scaler."""
        self.contain(self.contain_part, "snapshots", self.known.scaler_made, scaler)

    def parameters_added(self, optimizer: Optimizer) -> None:
        """Handle a parameter group added to an optimizer."""
        self.contain(self.optimizers.refresh, optimizer)

    def gradient_taken(self, outputs: Any) -> None:
        """Handle a call to `torch.autograd.grad`."""
        if not self._backward_depth:
            self.contain(self.losses.gradient_taken, outputs)

    def step_cancelled(self, optimizer: Optimizer) -> None:
        """Handle an `optimizer.step` that was interrupted or undone."""
        self.contain(lambda: self.feed(StepCancelled(self.optimizers.add(optimizer).name)))
        self.contain(self.contain_part, "snapshots", self.recording.applied)

    def state_asked(self, module: torch.nn.Module) -> None:
        """Handle a call to `module.state_dict` in user code."""
        self.contain(self.contain_part, "checkpoints", self.saved_weights.state_asked, module)

    def weights_written(self, value: Any, target: Any) -> None:
        """Handle a written file that may contain the weights of a model."""
        saved = "checkpoints", self.checkpoints.saved, value, target
        if not self.training_thread.is_elsewhere():
            self.contain(self.contain_part, *saved)
        elif self.job.live and not self.training_thread.is_left_out():  # it only writes data
            self.contain_part(*saved)

    def scaler_stepped(self, scaler: Any, optimizer: Optimizer, skipped: bool) -> None:
        """Handle a gradient scaler's step or skipped step."""
        self.contain(self._scaler_stepped, scaler, optimizer, skipped)

    def step_given(self, given: Given) -> None:
        """Attach the user's values to the latest optimizer step, or create a step."""
        loss = None if self.sampling.passes_by else given.loss
        self.contain(self._step_given, loss, given)

    def ended(self) -> None:
        """Handle the end of all events."""
        self.training_thread.end()
        self.contain(self.sampling.resume)
        self.contain(self.contain_part, "evaluations", self.forwards.evaluations.ended)
        self.contain(self.contain_part, "data", self.forwards.inputs.overlap.ended)
        self.contain(self.contain_part, "steps by hand", self.hand_steps.settle)
        self.contain(lambda: self.feed(Ended()))
        self.contain(self.training_thread.report)
        self.contain(self._ending.report)
        if self._process == os.getpid():
            self._ending.report_unstepped(self._backwards, self.optimizers.unapplied)
        self.job.live = False

    # Threads

    def _thread_moved(self) -> None:
        """Observe the calling thread from now on, instead of another one."""
        self._backward_depth = 0
        self.contain(self.sampling.resume)
        self.contain(self.optimizers.other_threads.moved)
        self.contain(self.forwards.thread_moved)

    def _left_out(self, *trained: Any) -> None:
        self.contain_part("other threads", self.optimizers.other_threads.left_out, *trained)

    def _parameters_shared(self) -> None:
        self.observers.drop(PARTS_OF_ONE_THREAD)
        if not self.guard.acts and not self.guard.bounds_norms:
            self.observers.drop(frozenset({"guard"}))
        self.forwards.reach.looks = self.forwards.narrow.looks = False
        self.job.cannot(SHARED, REPORTS_OF_ONE_THREAD)
        self.training_thread.unsaid.append(("gradients and updates", SHARED))

    # Event handling

    @property
    def in_backward(self) -> bool:
        """Return whether a backward pass is running."""
        return self._backward_depth > 0 or torch._C._current_graph_task_id() >= 0

    def _gradients_zeroed(self, owner: Optimizer | torch.nn.Module) -> None:
        self.contain_part("gradients", self.optimizers.clears, owner)
        if isinstance(owner, Optimizer):
            self.grouper.feed(GradientsZeroed(self.optimizers.add(owner).name))

    def _backward_began(self, tensors: Any) -> None:
        self._backward_depth += 1
        if self._backward_depth > 1:
            return
        self._backwards += 1
        self.forwards.close_path()  # a backward may run modules again
        self.forwards.bootstraps.states.backward_began(tensors)
        if self.forwards.bootstraps.views.looks:
            self.forwards.bootstraps.views.backward_began()
        if self.recorder.depths.in_group:
            self._pace.backward_began()
        self.recording.backward_began()
        self._process = os.getpid()  # a forked child inherits the count
        evaluations, hand_steps = self.forwards.evaluations, self.hand_steps
        evaluations.uses.called = 0
        if evaluations.open is not None or evaluations.in_doubt:
            self.contain_part("evaluations", evaluations.backward_began)
        if hand_steps.glimpses or not self.light:
            self.contain_part("steps by hand", hand_steps.backward_began, tensors)
        inside_step = self.grouper.running
        event, root = self.losses.began(tensors)
        self.feed(event)
        reads, site = self.optimizers, (None, event.site)
        began = (reads.closure_backward_began,) if inside_step else (reads.backward_began, *site)
        self.contain_part("gradients", *began)
        if root is not None:
            self._loss_began(event.site, root)

    def _loss_began(self, site: str, root: torch.Tensor) -> None:
        if self.snapshots.active:
            self.contain_part("snapshots", self.snapshots.truth.loss, site, root)
        if self.forwards.inputs.loaders.made or not self.light:
            self.contain_part("data", self.forwards.inputs.loaders.trained_on)
        place, again = self.losses.places.get(site), self.forwards.recomputes
        loss = BackwardRoot(site, place, root, again)
        self.contain_parts(self.observers.told["loss_began"], loss)
        if root.is_cpu:
            if self.losses.nonfinite():
                if self.light:
                    self.contain_part("loss graph", self.losses.loss_began, loss)
                self._onset.look(site, root)
            else:
                self.forwards.retained.release()

    def _backward_ended(self) -> None:
        self._backward_depth = max(0, self._backward_depth - 1)
        if self._backward_depth:
            return
        self.grouper.feed(BackwardEnded())
        if self.guard.acts:
            self.guarded.backward_ended()
        if self.recorder.depths.in_group:
            self._pace.backward_ended()
        self.forwards.retained.used = True
        if self.grouper.running:  # a closure: its gradients will be applied
            for known, optimizer in self.optimizers.other_threads.unshared():
                if any(p.grad is not None for p in _first_parameters(optimizer)):
                    told = self.observers.told["gradients_final"]
                    self.contain_parts(told, known, optimizer)
            self.contain_part("gradients", self.optimizers.closure_backward_ended)
        elif not self.light or self.hand_steps.stand_in is not None:
            self.contain_part("steps by hand", self.hand_steps.backward_ended)

    def _step_began(self, optimizer: Optimizer, closure: bool) -> None:
        self._step_code = sys._getframe(3).f_code
        if hasattr(optimizer, "found_inf") and applies_nothing(optimizer):
            return
        known = self.optimizers.add(optimizer)
        if known.thread != self.job.thread or self.training_thread.several:
            self.optimizers.other_threads.adopt(known)
        if self.job.process.resumption is not None:
            self.contain_part("checkpoints", self.saved_weights.step_begins)
        if self.losses.candidate is not None:
            self.losses.step_begins()
        self.feed(StepBegan(known.name))
        told = self.observers.told  # after the previous step was closed
        if closure:
            self.contain_part("gradients", self.losses.closure.entered, optimizer)
            self.contain_part("gradients", self.optimizers.closure_entered, optimizer)
        self.contain_parts(told["step_begins"], known, optimizer)
        if told["stepping"]:
            self.contain_parts(told["stepping"], optimizer)
        if not closure:
            self.contain_parts(told["gradients_final"], known, optimizer)

    def _began_by_hand(self, optimizer: Optimizer) -> None:
        self.job.settings.no_guard("the script updates the weights itself")
        known = self.optimizers.add(optimizer)
        self.feed(StepBegan(known.name))
        self.contain_parts(self.observers.told["stepping"], optimizer)
        self.contain_part("gradients", self._read_gradients, known, optimizer)
        if not self.light:
            begins = self._initial_weights.step_began
            self.contain_part("initial weights", begins, known, optimizer)
        self.contain_parts(self.observers.told["stepped"], optimizer)
        after, in_backward = self.optimizers.after_step, self._backward_depth > 0
        self.contain_part("gradients", after, known, optimizer, False, in_backward)

    def _ended_by_hand(self, optimizer: Optimizer, changed: bool) -> None:
        name = self.optimizers.add(optimizer).name
        self.feed(StepEnded(name) if changed else StepCancelled(name))
        self.contain_parts(self.observers.told["applied"], optimizer)

    def _step_given(self, loss: Any, given: Given) -> None:
        if given.makes_step:  # first, because the values belong to a new step
            self.contain_part("checkpoints", self.saved_weights.step_begins)
            self.feed(StepBegan(BY_HAND, alone=True))
        for name, value in given.numbers.items():
            self.job.number(name, value)
        if loss is not None:
            self.job.try_value("losses given to step()", loss, self.losses.given)
        if given.makes_step:
            self.job.settings.no_guard("the script updates the weights itself")
            self.feed(StepEnded(BY_HAND))

    def _read_gradients(self, known: Known, optimizer: Optimizer) -> None:
        shared = self.optimizers.other_threads.shared
        digesting = None if self.light or shared else self.digests.reducer()
        self.optimizers.before_step(known, optimizer, digesting)
        if shared:
            return
        if not self.light:
            self.contain_part("digests", self._read_digests, optimizer, digesting)
        look = self.recorder.captures.gradients.take()
        if not look.is_late:
            self.recorder.depths.signal(self.grouper.step, known.name, look.norm)
        if self.guard.looked(known.name, look):
            self._onset.look()

    def _read_digests(self, optimizer: Optimizer, digesting: DigestingReducer | None) -> None:
        if self.digests.wants(optimizer):
            self.digests.stepping(optimizer, self.optimizers.named(optimizer), digesting)

    def _step_ended(self, optimizer: Optimizer, closure: bool) -> None:
        if hasattr(optimizer, "found_inf") and applies_nothing(optimizer):
            return
        known, told = self.optimizers.add(optimizer), self.observers.told
        if known.name not in self.grouper.running:
            return  # its beginning was not observed, because another thread was observed then
        if closure:  # otherwise read at the end of its first backward pass
            self.contain_part("gradients", self._read_gradients, known, optimizer)
        self.grouper.feed(StepEnded(known.name))
        if told["applied"]:
            self.contain_parts(told["applied"], optimizer)
        if told["stepped"]:
            self.contain_parts(told["stepped"], optimizer)
        self.contain_parts(told["step_ends"], known, optimizer, closure, self._backward_depth > 0)
        self.sampling.stepped(optimizer, plainly=not (closure or self._backward_depth))

    def _scaler_stepped(self, scaler: Any, optimizer: Optimizer, skipped: bool) -> None:
        if skipped:
            self.feed(StepSkipped(self.optimizers.add(optimizer).name))
            self.contain_part("guard", self.guard.scaler_skipped, optimizer)
            self.contain_part("snapshots", self.recording.applied)
        self.forwards.narrow.scales = True
        self.optimizers.scaled_by(scaler)

    def closing(self, closed: ClosedStep) -> None:
        """Let every observer add its data to a finished step."""
        if self.training_thread.several:
            self.training_thread.report()
        self.contain_parts(self.observers.told["closing"], closed)
        self.contain_parts(self.observers.told["closed"], closed.step)
        if not self.light or self.recorder.depths.in_group:
            self.contain_part("pace", self._pace.close, closed.step)
            replicas = self.optimizers.distributed
            self.contain_part("replicas", replicas.close, closed.step, not closed.skipped)
            self.recorder.depths.in_group = in_group()
        looks, ready = self.recorder.looks, self._ready
        if ready.waits:
            ready.saw(
                forwards=self.forwards.roots_called > 0,
                backwards=self._backwards > 0 or self.losses.graph_given,
                optimizers=any(name != BY_HAND for name in closed.optimizers),
            )
        looks.stood_ready(ready.in_each_step, closed.step, "torch")
        if not self.light:
            looks.stood_ready(ready.in_full_steps, closed.step, "torch")

    def closed(self, closed: ClosedStep) -> None:
        """Begin the next step."""
        self.light = self.recorder.plan.is_light
        observers = self.observers
        observers.told = observers.light if self.light else observers.full
        if not self.light:
            use_devices(self.job)
        self.sampling.closed(closed)
        self.forwards.new_step()

    def may_sample(self) -> bool:
        """Return whether no request needs each step."""
        busy = self.forwards.narrow.scales or self.snapshots.awaited
        return not busy and needs_no_step(self.config)

    def passed_unobserved(self, optimizer: Optimizer, steps: int, whole: bool) -> None:
        """Handle unobserved steps of an optimizer; `whole`: the next step is observed."""
        self.light = self.recorder.plan.is_light
        observers = self.observers
        observers.told = observers.light if self.light else observers.full
        self.optimizers.passed_unobserved(optimizer, steps)
        self.forwards.inputs.loaders.passed_unobserved()
        self.recording.passed_unobserved(whole)
        self.forwards.passed_unobserved()


def _first_parameters(optimizer: Optimizer) -> list[torch.Tensor]:
    return optimizer.param_groups[0]["params"][:4] if optimizer.param_groups else []
