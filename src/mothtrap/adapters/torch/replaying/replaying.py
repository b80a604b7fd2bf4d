"""Replay a recorded step in a process that runs the script again.

The script runs up to its first step. There its loaders return the recorded batches, its models get
the recorded state just before they are called, its calls get the recorded arguments, and its random
generators get their states. The script's own code runs the step. Just before its optimizer applies
the step, losses and gradients are compared with the losses and gradients of the run, and the
process ends. No later part of the script runs.
"""

from __future__ import annotations

import atexit
import sys
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

import torch
from torch import nn
from torch.optim import Optimizer

from mothtrap.adapters.torch.hooks.tracer import Tracer
from mothtrap.adapters.torch.job import randomness
from mothtrap.adapters.torch.losses.backwards import scalar_root
from mothtrap.adapters.torch.origin.localization import FaultLocalization
from mothtrap.adapters.torch.origin.trials import Trials
from mothtrap.adapters.torch.replaying import fitting
from mothtrap.adapters.torch.replaying.comparing import Comparison
from mothtrap.adapters.torch.replaying.conversion import Conversion
from mothtrap.adapters.torch.replaying.handing import Handed, completed
from mothtrap.adapters.torch.replaying.interception import Interception
from mothtrap.adapters.torch.replaying.own_values import OwnValues
from mothtrap.adapters.torch.replaying.played import PlayedStep
from mothtrap.adapters.torch.replaying.restoring import Restoring
from mothtrap.adapters.torch.snapshots.reference_digests import StepDigests
from mothtrap.core.error_texts import in_one_line
from mothtrap.core.replays import ReplayPlan, ReplayResult
from mothtrap.core.snapshots import BatchHanded, ForwardCalled, LossCalled, Tree
from mothtrap.snapshot.code_locations import CodeLocations
from mothtrap.snapshot.cues import Cues
from mothtrap.snapshot.format import Loaded
from mothtrap.snapshot.microbatches import MicroBatches
from mothtrap.tracing.snapshots import debugging
from mothtrap.tracing.snapshots.anticipation import Anticipation
from mothtrap.tracing.snapshots.outcome import Outcome
from mothtrap.tracing.source import frames
from mothtrap.tracing.trainers import trainers_at_work

T = TypeVar("T")
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class Replaying:
    """Handles the calls of the script; created once per process.

    Args:
        plan: settings of the replay.
        loaded: the snapshot.
        tracer: gives models, parameters, optimizers and losses the same names as in the run.
        truth: provides the results of the step in progress.
        outcome: receives the result.
    """

    def __init__(
        self,
        plan: ReplayPlan,
        loaded: Loaded,
        tracer: Tracer,
        truth: StepDigests,
        outcome: Outcome,
    ) -> None:
        self.plan, self.loaded, self.tracer, self.outcome = plan, loaded, tracer, outcome
        self._places = CodeLocations(plan.moved)
        self.cues = Cues(loaded.snapshot.steps, self._places)
        self.values = Conversion(loaded.steps, plan)
        self.comparison = Comparison(truth, tracer.optimizers, loaded.snapshot.truth, self._places)
        self._truth = truth
        self.localization = FaultLocalization(
            plan,
            tracer.book,
            outcome,
            Trials(outcome),
            MicroBatches(loaded.snapshot.steps[-1], loaded.snapshot.truth),
        )
        self._state: Restoring | None = None
        self._played = PlayedStep()
        self._stops = False
        self._own = OwnValues()
        self._anticipation = Anticipation(self._expected_place, self._statement_begins)

    def install(self) -> None:
        """Start wrapping the calls of the script."""
        self.values.install()
        Interception(self)
        atexit.register(self._script_ended)
        if self.cues.expected() is not None:
            self._anticipation.start()

    # Calls of the script

    def ask_loader(self, number: int, site: str, own: Callable[[], Any]) -> Handed | None:
        """Handle a request for a batch; `own` returns one of the loader's own batches."""
        return self._safely(self._batch, number, site, own)

    def _expected_place(self) -> str | None:
        event = self.cues.expected()
        return self._places.now(event.site) if event is not None else None

    def _statement_begins(self, frame: FrameType) -> None:
        event = self.cues.expected()
        if event is not None and torch.is_grad_enabled() == event.trains:
            self._safely(self._set_early, event, frame)

    def _set_early(self, event: ForwardCalled, frame: FrameType) -> None:
        self._came_on(event)
        [variables] = self.localization.picked(event, self.values.made_together(event.variables))
        if isinstance(variables, dict):
            fitting.set_variables(frame, self._own.without(variables, frame), own=True)

    def _batch(self, number: int, site: str, own: Callable[[], Any]) -> Handed | None:
        event = self.cues.batch(number, site)
        if event is None:
            return None
        made, lacking = completed(self.values.made(event.value), own)
        if lacking:
            self.outcome.note(f"for the batch at {site}, the loader returned its own {lacking}")
        self._came_on(event)
        [batch] = self.localization.picked(event, [made])
        self.localization.handed(batch)
        self._restore_state()  # there may be no model whose call could be waited for
        self._restore_rng(event.rng)
        if self.plan.edited:
            self._own.begin(frames.user_frame())
        self._anticipation.start()
        return Handed(batch)

    def forward_called(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Arguments:
        """Handle a module call in the user's code."""
        return self._safely(self._forward, module, args, kwargs)

    def _forward(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Arguments:
        frame = frames.user_frame()
        site = frames.location(frame) or ""
        if next(module.parameters(), None) is None:
            return self._loss(type(module).__name__, site, args, kwargs)
        book = self.tracer.book
        root = book.root_of(module) or book.add_root(book.top(module))
        label = root.label if root is not None else type(module).__name__
        event = self.cues.forward(label, site, trains=torch.is_grad_enabled())
        if event is None:
            return args, kwargs
        self._came_on(event)
        self._restore_state()
        given = self._given(event, frame, args, kwargs)
        passed = self.cues.passed_rng()
        self._restore_rng(event.rng if event.rng is not None else passed)
        return given

    def _given(
        self,
        event: ForwardCalled,
        frame: FrameType | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Arguments:
        made = self.values.made_together(event.variables, event.args, event.kwargs)
        variables, recorded_args, recorded_kwargs = self.localization.picked(event, made)
        self.localization.variables(variables)
        if frame is not None and isinstance(variables, dict):
            fitting.set_variables(frame, self._own.without(variables, frame))
        if self._own.computes(frame):
            return args, kwargs
        return _fitted(args, recorded_args), _fitted(kwargs, recorded_kwargs)

    def loss_called(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """Handle a call to a loss in `torch.nn.functional`."""
        return self._safely(self._loss_function, name, args, kwargs)

    def _loss_function(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        return self._loss(name, frames.user_location() or "", args, kwargs)

    def _loss(
        self, name: str, site: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Arguments:
        event = self.cues.loss(name, site)
        if event is None or self._own.computes(frames.user_frame()):
            return args, kwargs
        return self._loss_given(event, args, kwargs)

    def _loss_given(
        self, event: LossCalled, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Arguments:
        made = self.values.made_together(event.args, event.kwargs)
        recorded_args, recorded_kwargs = self.localization.picked(event, made)
        return _fitted(args, recorded_args), _fitted(kwargs, recorded_kwargs)

    def step_begins(self, optimizer: Optimizer, closure: bool) -> None:
        """Handle the start of an optimizer step."""
        if not closure:
            self._safely(self._step_begins, optimizer)
        elif self.cues.begun and not self.cues.is_last:  # its gradients are computed inside
            self._safely(self._played.keep, optimizer, self.cues.step)

    def _step_begins(self, optimizer: Optimizer) -> None:
        name = self.tracer.optimizers.add(optimizer).name
        if self.cues.is_untouched and self._played.awaits(name):
            self._played.applies(optimizer, name)
        elif not self.cues.has_begun:
            self._not_there_yet(optimizer)
        elif self.cues.is_last:
            self._arrived()
        else:
            self._restore_state()
            self._played.begin(self.cues.step)
            self._played.applies(optimizer, name)

    def step_ended(self, optimizer: Optimizer) -> None:
        """Handle the end of an optimizer step."""
        if not self.cues.begun:
            self._truth.new_step()
        self._safely(self._played.ended, self.tracer.optimizers.add(optimizer).name)
        if self.cues.begun and self.cues.has_begun and not self.cues.is_last:
            self._safely(self._next_step)

    def _next_step(self) -> None:
        self.cues.stepped()
        self._truth.new_step()
        if self._state is not None and self.loaded.snapshot.state_step >= self.cues.step.step:
            self._state.again()  # the previous step only produced the inputs of this one

    def backward_begins(self, tensors: Any) -> None:
        """Handle the start of a backward pass from the loss."""
        root = scalar_root(tensors)
        if root is not None:
            site = frames.user_location() or "unknown"
            self._safely(self._truth.loss, site, root)
            self.localization.loss(root)

    def backward_ended(self) -> None:
        """Handle the end of a backward pass; inside a step, it belongs to a closure."""
        if self.tracer.grouper.inside_step and self.cues.begun and self.cues.is_last:
            self._safely(self._arrived)

    def scaler_stepped(self, optimizer: Optimizer, *, skipped: bool) -> None:
        """Handle a step with non-finite gradients that a gradient scaler skipped."""
        if skipped:
            self._safely(self._scaler_skipped, self.tracer.optimizers.add(optimizer).name)

    def _scaler_skipped(self, name: str) -> None:
        of_played = self.cues.is_untouched and self._played.awaits(name)
        self._played.ended(name)
        if self.cues.begun and self.cues.has_begun and not of_played:
            if self.cues.is_last:
                self._arrived()
            else:
                self._played.begin(self.cues.step)
                self._played.ended(name)
                self._next_step()

    def raised(self, error: BaseException) -> None:
        """Handle an exception that leaves the script."""
        if self.cues.begun:
            if self.plan.debug:
                self._anticipation.stop()
                debugging.look_at(error)
            self._safely(self._failed, error)

    # Result

    def _came_on(self, event: BatchHanded | ForwardCalled) -> None:
        """Handle a matched event."""
        trainers_at_work.restore(event.counters)
        if self.cues.is_last or self.loaded.snapshot.steps[-1].carried:
            trees = (event.value,) if isinstance(event, BatchHanded) else (event.args, event.kwargs)
            self.localization.came(event, lambda: self.values.made_together(*trees))
            if self.plan.stop_at is not None and not self._stops:
                self._stops = True
                self._anticipation.stop()
                debugging.stop_before(self.plan.stop_at)

    def _arrived(self) -> None:
        self._finish(None)

    def _failed(self, error: BaseException) -> None:
        self._finish(error)

    def _finish(self, error: BaseException | None) -> None:
        result = self.comparison.result(error=error)
        if not result.match:
            self._note_why()
        self.outcome.finish(self.localization.completed(result, self.tracer.optimizers, error))

    def _note_why(self) -> None:
        """Report possible reasons why the step differs."""
        for note in self._state.notes if self._state is not None else ():
            self.outcome.note(note)
        for missing in self._state.missing if self._state is not None else ():
            self.outcome.note(f"{missing} was missing and could not be restored")
        if not any(isinstance(event, ForwardCalled) for event in self.cues.step.events):
            self.outcome.note("no model was called in the step: variables were not recorded")
        for missing in self.cues.step.missing:
            self.outcome.note(f"not kept in the run: {missing}")

    def _not_there_yet(self, optimizer: Optimizer) -> None:
        if self.plan.through:
            return
        name = self.tracer.optimizers.add(optimizer).name
        self.outcome.finish(
            ReplayResult(
                instead=(*self.cues.reached, f"a step of {name}"),
                notes=("the script ran a step before it reached the recorded one",),
            )
        )

    def _script_ended(self) -> None:
        error = getattr(sys, "last_value", None)
        if error is not None and self.cues.begun:
            self._safely(self._failed, error)
        why = "the script ended before it reached the recorded step"
        if error is not None:
            why = f"the script failed: {in_one_line(error)}"
        elif self.cues.begun:
            why = "the script ended in the middle of the step"
        self.outcome.unreached(ReplayResult(instead=tuple(self.cues.reached), notes=(why,)))

    def _restore_state(self) -> None:
        if self._state is None:
            loaded = self.loaded
            self._state = Restoring(
                loaded.snapshot.state, loaded.state, self.tracer.known, self.plan.device
            )
            if self.outcome.pipe is not None:  # a copy of the process has only one thread
                torch.set_num_threads(1)
        self._state.apply()

    def _restore_rng(self, rng: Tree) -> None:
        if rng is not None:
            for missing in randomness.restore(self.values.made(rng)):
                self.outcome.note(missing)

    def _safely(self, act: Callable[..., T], *args: Any) -> T:
        """Run a part of the replay; a failure is reported and ends the process."""
        try:
            # Bypasses the redirection of the script's calls to another device or type.
            with self.localization.aside(), torch._C.DisableTorchFunction():
                return act(*args)
        except Exception as err:
            traceback.print_exc(file=sys.stderr)
            what = f"the replay itself failed: {in_one_line(err)}"
            self.outcome.finish(ReplayResult(notes=(what,), instead=tuple(self.cues.reached)))
            raise


def _fitted(found: Any, recorded: Any) -> Any:
    """Return the replaced arguments of a call; arguments of a different form are not changed."""
    alike = type(found) is type(recorded) and len(found) == len(recorded)
    return fitting.fitted(found, recorded) if alike else found
