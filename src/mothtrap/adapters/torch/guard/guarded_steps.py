"""Wraps `optimizer.step` under a policy that cancels unsound steps.

No hook of PyTorch can cancel a step. The last hook that runs before it raises an exception, and
the wrapper of the step catches it: neither the step nor the hooks after it run. A step with a
closure is cancelled by the closure, and changes by the optimizer are undone.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from threading import get_ident
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

import torch
from torch.optim import Optimizer

from mothtrap.adapters.torch.guard.guard import Guard
from mothtrap.adapters.torch.guard.undoing import Kept, evaluates_once
from mothtrap.adapters.torch.optimization.optimizers import applies_nothing, has_closure
from mothtrap.core.runs import STOPPED
from mothtrap.tracing.guard import Fault

if TYPE_CHECKING:
    from mothtrap.adapters.torch.optimization.optimizers import Known
    from mothtrap.adapters.torch.snapshots.parts import Parts

Function = Callable[..., Any]
PART = "guard"
OTHER_THREADS = (
    "whether steps in other threads are bad",
    "the guard covers only the observed thread; steps of other threads are always applied",
)


class StepCancelled(BaseException):
    """Ends a step; user code that catches `Exception` does not see it."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.reason)
        self.fault = fault


class _Running(threading.local):
    """A step in progress on a thread; on several devices, a backward pass has several threads."""

    def __init__(self) -> None:
        self.optimizers: list[Optimizer] = []
        self.value: Any = None
        self.outcome: Any = None


class GuardedSteps:
    """All guarded steps of a job, including nested ones.

    Only steps of the observed thread and of its backward passes are guarded.
    """

    def __init__(self, tracer: Parts, guard: Guard) -> None:
        self._tracer, self._guard = tracer, guard
        self._undo = ExitStack()
        self._wrapped: set[type] = set()
        self._running = _Running()
        self._kept: list[tuple[Optimizer, Kept]] = []
        self._told_of_threads = False
        self._reached: WeakSet[Optimizer] = WeakSet()

    def detach(self) -> None:
        """Restore all classes and objects."""
        self._undo.close()
        with suppress(RuntimeError, ValueError):  # the job has ended
            self._guard.close_agreement()

    def guard_class(self, kind: type[Optimizer]) -> None:
        """Wrap the `step` of a class of optimizers."""
        owner = next(base for base in kind.__mro__ if "step" in vars(base))
        step = vars(owner)["step"]
        if owner in self._wrapped or not isinstance(step, FunctionType):
            return
        self._wrapped.add(owner)
        run, is_compiling = self._run, torch.compiler.is_compiling

        @functools.wraps(step)
        def guarded(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return step(self, *args, **kwargs)
            try:
                return run(self, functools.partial(step, self, *args, **kwargs))
            except BaseException as err:
                _drop_own_frames(err)
                raise

        cast(Any, owner).step = guarded
        self._undo.callback(setattr, owner, "step", step)

    def guard_object(self, optimizer: Optimizer) -> None:
        """Wrap the `step` of one optimizer."""
        step, own = optimizer.step, vars(optimizer).get("step")
        run = self._run

        @functools.wraps(step)
        def guarded(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
            try:
                return run(self, functools.partial(step, *args, **kwargs))
            except BaseException as err:
                _drop_own_frames(err)
                raise

        method = optimizer.step = MethodType(guarded, optimizer)  # type: ignore[method-assign]

        def restore() -> None:
            if vars(optimizer).get("step") is method:
                del vars(optimizer)["step"]
                if own is not None:
                    optimizer.step = own  # type: ignore[method-assign]

        self._undo.callback(restore)

    def step_ended(self, known: Known, optimizer: Optimizer, *_: object) -> None:
        """Report that an optimizer's steps are not guarded if it stepped unobserved."""
        if optimizer not in self._reached:
            why = f"the step of {known.name} is compiled, or captured in a CUDA graph"
            self._tracer.job.settings.no_effect("on_nonfinite", why)

    def backward_ended(self) -> None:
        """Handle the end of the outermost backward pass: updates inside it are kept."""
        self._guard.backward_ended()
        if not self._running.optimizers:
            self._kept.clear()

    # A single step

    def _run(self, optimizer: Optimizer, step: Function) -> Any:
        tracer, guard = self._tracer, self._guard
        if not tracer.job.live or tracer.recorder.containment.is_off(PART):
            return step()
        if guard.stopped is not None:  # the first exception was caught, or in another thread
            raise SystemExit(STOPPED)
        self._reached.add(optimizer)
        thread = tracer.training_thread
        if get_ident() != tracer.job.thread and not thread.joins(optimizer):
            if not self._told_of_threads:
                self._told_of_threads = True
                thread.unsaid.append(OTHER_THREADS)
            thread.refuse(optimizer)
            try:
                return step()
            finally:
                thread.refuse(None)
        running = self._running
        outermost = not running.optimizers
        running.optimizers.append(optimizer)
        handle = optimizer.register_step_pre_hook(self._last_hook(lambda: handle.remove()))
        try:
            return step()
        except StepCancelled as cancelled:
            fault = cancelled.fault
            self._contained(self._cancelled, optimizer, fault)
            if not outermost:
                raise
        finally:
            handle.remove()
            running.optimizers.pop()
            if outermost and not tracer.in_backward:
                self._kept.clear()
        value, running.value = running.value, None
        return self._end(fault, value)

    def _last_hook(self, remove: Function) -> Function:
        """Run after all other hooks of the step."""

        def last(optimizer: Optimizer, args: Any, kwargs: Any) -> Any:
            remove()  # an override that calls its parent's `step` is counted once
            self._running.outcome = None
            self._contained(self._before, optimizer, args, kwargs)
            outcome, self._running.outcome = self._running.outcome, None
            if isinstance(outcome, Fault):
                raise StepCancelled(outcome)
            return outcome

        return last

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if applies_nothing(optimizer):
            return
        in_backward = self._tracer.in_backward
        if has_closure(args, kwargs):
            if not evaluates_once(optimizer) or len(self._running.optimizers) > 1:
                self._kept.append((optimizer, Kept(optimizer)))
            self._running.outcome = self._with_closure(optimizer, args, kwargs)
            return
        self._running.outcome = self._guard.decide(optimizer, in_backward)
        if self._running.outcome is None and (in_backward or self._kept):
            self._kept.append((optimizer, Kept(optimizer)))

    def _with_closure(self, optimizer: Optimizer, args: Any, kwargs: Any) -> Any:
        closure = args[1] if len(args) > 1 else kwargs["closure"]

        @functools.wraps(closure)
        def judged(*given: Any, **named: Any) -> Any:
            loss = closure(*given, **named)
            running = self._running
            running.outcome = None
            self._contained(self._evaluated, optimizer, loss)
            outcome, running.outcome = running.outcome, None
            if isinstance(outcome, Fault):
                running.value = loss
                raise StepCancelled(outcome)
            return loss

        if len(args) > 1:
            return (args[0], judged, *args[2:]), kwargs
        return args, {**kwargs, "closure": judged}

    def _evaluated(self, optimizer: Optimizer, loss: Any) -> None:
        self._running.outcome = self._guard.decide_evaluation(optimizer, loss)

    def _cancelled(self, optimizer: Optimizer, fault: Fault) -> None:
        if len(self._running.optimizers) == 1:
            while self._kept:
                changed, before = self._kept.pop()
                before.restore()
                self._tracer.step_cancelled(changed)
                self._guard.cancelled(changed, fault)
        self._tracer.step_cancelled(optimizer)
        self._guard.cancelled(optimizer, fault)

    def _end(self, fault: Fault, value: Any) -> Any:
        self._contained(self._guard.ends, fault)
        ending = self._guard.policy.ending(fault, self._tracer.grouper.step)
        if ending is not None:
            raise ending
        return value

    def _contained(self, act: Function, *args: Any) -> None:
        self._tracer.contain(self._tracer.contain_part, PART, act, *args)


def _drop_own_frames(err: BaseException) -> None:
    """Remove the frames of the wrapper from a traceback; a bare `raise` does not add them."""
    trace = err.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    err.__traceback__ = trace
