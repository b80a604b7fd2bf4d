"""Optimizers: their parameters, learning rates, and gradients just before the step."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.optim import Optimizer

from mothtrap.adapters.torch.job.distributed import DistributedObserver, local_shape, own_value
from mothtrap.adapters.torch.job.naming import Root, class_name, strip_wrappers, value_kind
from mothtrap.adapters.torch.job.retained_outputs import nodes_made
from mothtrap.adapters.torch.optimization.device_numbers import add_scalar, scale_of
from mothtrap.adapters.torch.optimization.gradient_marks import (
    ClosureEvaluations,
    GradientMark,
    are_clean,
    has_changed,
    marks_of,
)
from mothtrap.adapters.torch.optimization.other_threads import OtherThreads
from mothtrap.adapters.torch.optimization.parameter_list import OptimizerParameters, parameters
from mothtrap.capture.grouper import ClosedStep
from mothtrap.capture.statistics_rows import Reducer
from mothtrap.core.records import GradientState
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics.torch.dtypes import type_name
from mothtrap.statistics.torch.plain import has_own_dispatch
from mothtrap.tracing.jobs.identity import ByIdentity
from mothtrap.tracing.steps.gradient_order import GradientOrder
from mothtrap.tracing.trainers.trainers_at_work import computes_in_closure

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

VALUES: tuple[str, ...] = ("weight", "bias")
Arithmetic = Reducer[torch.Tensor]


@dataclass(slots=True, eq=False)
class Known:
    """A live optimizer, with data from its last step.

    Attributes:
        marks: each parameter with a gradient at that step, the gradient, and its version.
        clean: a backward pass has begun with cleared gradients since then.
        backward: any backward pass has begun since then.
        births: number of modules that existed when it was created.
        held: ids of its parameters.
        order: operations on its gradients since then.
        thread: thread that steps it; 0 before its first step.
        nodes: number of graph nodes that its thread had created by then.
    """

    name: str
    births: int
    steps: int = 0
    thread: int = 0
    nodes: int = field(default_factory=nodes_made)
    clean: bool = False
    backward: bool = False
    marks: list[GradientMark] = field(default_factory=list)
    held: set[int] = field(default_factory=set)
    order: GradientOrder = field(default_factory=GradientOrder)
    parameter_list: OptimizerParameters = field(default_factory=lambda: OptimizerParameters(()))

    def forget_gradients(self) -> None:
        """Discard the gradient data of its last step."""
        self.marks, self.clean, self.backward = [], False, False
        self.order.begin()


class OptimizerObserver:
    """Tracks every optimizer created since the start, or passed by the user.

    Attributes:
        alive: returns every known optimizer that still exists, except optimizers of other threads.
        other_threads: tracks the optimizers that other threads train.
        owned: indices of roots that are known to have parameters in an optimizer.
        unapplied: latest optimizer that had never stepped when its gradients were cleared.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        recorder = job.recorder
        self._captures, self._due, self._notes = recorder.captures, recorder.due, recorder.notes
        self._define = recorder.tensors.define
        self._known: ByIdentity[Optimizer, Known] = ByIdentity()
        self.other_threads = OtherThreads(self._known, job.training_thread)
        self.alive = self.other_threads.own
        self._latest: tuple[weakref.ref[Optimizer], Known] | None = None
        self._made: dict[str, int] = {}
        self.owned: set[int] = set()
        self.unapplied: Known | None = None
        self._owned_by: ByIdentity[torch.Tensor, weakref.ref[Optimizer]] = ByIdentity()
        self._gradient_ids: ByIdentity[torch.Tensor, int] = ByIdentity()
        self._weight_ids: ByIdentity[torch.Tensor, int] = ByIdentity()
        self._kinds: ByIdentity[torch.Tensor, str] = ByIdentity()
        self._captured: set[int] = set()
        self._clipped_norm: torch.Tensor | float | None = None
        self._clip_limit = math.inf
        self._clipping: list[tuple[Known, float]] = []
        self._closure = ClosureEvaluations()
        self.distributed = DistributedObserver(job, self)

    # Known optimizers

    def add(self, optimizer: Optimizer) -> Known:
        """Register an optimizer under its class name, numbered from the second on."""
        latest = self._latest
        if latest is not None and latest[0]() is optimizer:
            return latest[1]
        known = self._known.get(optimizer)
        if known is not None:
            # The record keeps the parameters alive.
            self._latest = weakref.ref(optimizer, self._forget_latest), known
            return known
        label = type(optimizer).__name__
        number = self._made[label] = self._made.get(label, -1) + 1
        known = Known(f"{label}#{number}" if number else label, self._job.book.births)
        self._known[optimizer] = known
        self.refresh(optimizer)
        return known

    def _forget_latest(self, _: object) -> None:
        self._latest = None

    def steps_of(self, optimizer: Optimizer) -> int:
        """Return the number of steps that an optimizer has made."""
        known = self._known.get(optimizer)
        return known.steps if known is not None else 0

    def refresh(self, optimizer: Optimizer) -> None:
        """Register parameters that were added to an optimizer."""
        own = weakref.ref(optimizer)
        for parameter in parameters(optimizer):
            self._owned_by[parameter] = own
        if getattr(optimizer, "names_parameters", False):
            for name, parameter in _given_names(optimizer):
                self._job.book.parameters[parameter] = name, name.rpartition("/")[0]
        known = self._known.get(optimizer)
        if known is not None:
            known.held = {id(p) for p in parameters(optimizer)}

    def held(self) -> Iterator[torch.Tensor]:
        """Return the distinct parameters of all live optimizers."""
        seen: set[int] = set()
        for _, optimizer in self.alive():
            for parameter in parameters(optimizer):
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield parameter

    def owner(self, parameter: torch.Tensor) -> Optimizer | None:
        """Return the live optimizer that holds a parameter."""
        reference = self._owned_by.get(parameter)
        if reference is None:
            return None
        latest = reference()
        if latest is not None and self._holds(latest, parameter):
            return latest
        for _, optimizer in self.alive():  # the latest optimizer with it was deleted
            if self._holds(optimizer, parameter):
                self._owned_by[parameter] = weakref.ref(optimizer)
                return optimizer
        return None

    def _holds(self, optimizer: Optimizer, parameter: torch.Tensor) -> bool:
        known = self.add(optimizer)
        size = sum(len(group["params"]) for group in optimizer.param_groups)
        if len(known.held) != size:
            known.held = {id(p) for p in parameters(optimizer)}
        return id(parameter) in known.held

    def owns_root(self, root: Root) -> bool:
        """Return whether a live optimizer holds a parameter of a root (cached once true)."""
        if root.index in self.owned:
            return True
        module = root.module()
        if module is None:
            return False
        if any(self.owner(p) is not None for p in module.parameters()):
            self.owned.add(root.index)
            return True
        return False

    # Before the step

    def before_step(
        self, known: Known, optimizer: Optimizer, reducer: Arithmetic | None = None
    ) -> None:
        """Read the gradients about to be applied, and the weights they change.

        Args:
            known: record of the optimizer.
            optimizer: the optimizer.
            reducer: reduces both; by default the framework's module.
        """
        parameter_list = self._parameter_list(known, optimizer)
        if self._captured:  # by an earlier optimizer, or by the same one in a closure
            parameter_list = OptimizerParameters(
                [p for p in parameter_list.parameters if id(p) not in self._captured]
            )
        self._captured.update(map(id, parameter_list.parameters))
        due = self._due.kinds[Mode.TRAIN]
        if "gradient" in due and not self.other_threads.shared:
            self._read_gradients(parameter_list, getattr(optimizer, "grad_scale", None), reducer)
        for kind in VALUES:
            if kind in due:
                self._captures.reduce(kind, *self._values(parameter_list, kind), reducer=reducer)

    def _read_gradients(
        self,
        parameter_list: OptimizerParameters,
        scale: torch.Tensor | None,
        reducer: Arithmetic | None,
    ) -> None:
        known = parameter_list.gradient_ids
        ids: list[int] = []
        gradients: list[torch.Tensor] = []
        for place, owner in parameter_list.readable:
            gradient = owner.grad
            if gradient is not None:
                tensor_id = known[place]
                if tensor_id is None:
                    tensor_id = known[place] = self._gradient_id(owner)
                ids.append(tensor_id)
                gradients.append(gradient)
        if scale is None:
            self._captures.reduce("gradient", ids, gradients, reducer=reducer)
            return
        # a fused optimizer unscales gradients itself, so they are copied one at a time
        factor = 1.0 / float(scale)
        for tensor_id, gradient in zip(ids, gradients, strict=True):
            self._captures.reduce("gradient", [tensor_id], [gradient.detach() * factor])

    def _values(
        self, parameter_list: OptimizerParameters, kind: str
    ) -> tuple[list[int], list[torch.Tensor]]:
        found = parameter_list.values.get(kind)
        if found is None:
            own = [p for _, p in parameter_list.readable if self._own_kind(p) == kind]
            found = parameter_list.values[kind] = [self.parameter_id(p) for p in own], own
        return found

    def _parameter_list(self, known: Known, optimizer: Optimizer) -> OptimizerParameters:
        if not known.parameter_list.is_of(optimizer):
            known.parameter_list = OptimizerParameters(list(parameters(optimizer)))
            self._report_unread(known.parameter_list)
        return known.parameter_list

    def _report_unread(self, parameter_list: OptimizerParameters) -> None:
        for parameter in parameter_list.parameters:
            if has_own_dispatch(parameter):
                self._notes.blind(
                    self._job.grouper.step,
                    f"values and gradients of parameters of type {type(parameter).__name__}",
                    "reading them would call the type's own __torch_dispatch__",
                )

    def rates(self, known: Known, optimizer: Optimizer, *, late: bool = False) -> None:
        """Record the learning rate of the step; `late`: it is known only after the step."""
        if getattr(optimizer, "rate_comes_late", False) is not late:
            return
        self.distributed.stepping(optimizer)
        rates = []
        for group in optimizer.param_groups:
            if "lr" in group:
                rates.append(float(group["lr"]))
        if rates:
            self._notes.scalar("lr", known.name, max(rates))

    def clips(self) -> None:
        """Check, before clipping, whether any gradient is still to be applied."""
        self._clipping.clear()
        for known, optimizer in self.other_threads.unshared():
            self._clipping.append((known, self._state(known, parameters(optimizer))))

    def clipped(self, norm: Any, limit: Any = math.inf) -> None:
        """Record the norm before clipping, as returned by `clip_grad_norm_`, and the limit."""
        self._clip_limit = limit
        self._clipped_norm = own_value(norm) if isinstance(norm, torch.Tensor) else norm
        clipping, self._clipping = self._clipping, []
        if isinstance(limit, float) and math.isinf(limit):  # only the norm was requested
            return
        fresh = [known for known, state in clipping if state == GradientState.FRESH]
        for known in fresh:
            known.order.clipped = True
        if fresh or not self._job.grouper.between_steps:
            return
        for known, _ in clipping:
            if any(has_changed(mark) for mark in known.marks):
                known.order.clipped_late(self._job.grouper.step)

    # After the step

    def after_step(
        self, known: Known, optimizer: Optimizer, closure: bool, in_backward: bool
    ) -> None:
        """Determine whether the gradients were new, and record them."""
        if self.other_threads.shared:
            known.steps += 1
            return
        if getattr(optimizer, "rate_comes_late", False):
            self.rates(known, optimizer, late=True)
        own = known.parameter_list  # as in `before_step`
        state = GradientState.FRESH
        if not (closure or in_backward):
            state = self._state(known, own.parameters)
        stale = known.steps > 0 and known.backward and not known.clean and not in_backward
        nodes, known.nodes = known.nodes, nodes_made()
        if not in_backward:
            count = self._closure.left(optimizer) if closure else int(stale)
            if state != GradientState.ABSENT or nodes != known.nodes:  # else: to plot a schedule
                numbers = {"gradient_state": state, "stale_gradient": float(count)}
                self._notes.numbers(known.name, numbers)
            known.marks = marks_of(own.parameters)
            own.stepped(optimizer)
        known.steps += 1
        for observation in known.order.stepped(
            self._job.grouper.step,
            known.name,
            absent=state == GradientState.ABSENT,
            clean=known.clean and not closure,
        ):
            self._notes.observe(observation)
        known.clean = known.backward = False

    def clears(self, owner: Optimizer | torch.nn.Module) -> None:
        """Handle `zero_grad` of an optimizer or module before it runs."""
        own: set[int] = set()
        for known, optimizer in list(self.other_threads.unshared()):
            if not known.order.made:
                continue
            if isinstance(owner, torch.nn.Module):
                own = own or {id(p) for p in owner.parameters()}
            if not own & known.held and optimizer is not owner:
                continue
            if self._state(known, parameters(optimizer)) == GradientState.FRESH:
                known.order.clears()
                self.unapplied = self.unapplied if known.steps else known

    def backward_began(self, reached: torch.Tensor | None = None, line: str = "") -> None:
        """Check, before a backward pass, whether gradients are clean.

        Args:
            reached: a parameter to whose gradient the backward pass has already added.
            line: call site of the backward pass.
        """
        for known, _ in self.other_threads.unshared():
            known.order.backward_begins(line)
            if known.steps and not known.clean:
                known.backward = True
                known.clean = are_clean(known.marks, reached)

    def closure_entered(self, optimizer: Optimizer) -> None:
        """Handle the start of a step with a closure."""
        self._closure.entered(optimizer, self.add(optimizer).marks)

    def closure_backward_began(self) -> None:
        """Check, before a closure's backward pass, whether gradients are clean."""
        self._closure.backward_began()

    def closure_backward_ended(self) -> None:
        """Record the gradients after a closure's backward pass."""
        if not self.other_threads.shared:
            self._closure.backward_ended()

    def passed_unobserved(self, optimizer: Optimizer, steps: int) -> None:
        """Handle `steps` unobserved steps of an optimizer."""
        known = self.add(optimizer)
        known.steps += steps
        known.forget_gradients()
        known.marks = [] if self.other_threads.shared else marks_of(parameters(optimizer))

    def scaled_by(self, scaler: Any) -> None:
        """Record the factor of a gradient scaler."""
        add_scalar(self._job.recorder, "loss_scale", "", scale_of(scaler))

    def new_step(self, _: ClosedStep | None = None) -> None:
        """Discard the captures of the step that closed."""
        if self._clipped_norm is not None:
            add_scalar(self._job.recorder, "gradient_norm", "", self._clipped_norm)
            limit, self._clipped_norm = float(self._clip_limit), None
            if math.isfinite(limit):  # infinite: only the norm was requested
                self._notes.scalar("clip_limit", "", limit)
        self._captured.clear()

    def _state(self, known: Known, own: Iterable[torch.Tensor]) -> float:
        marked = set()
        for parameter, reference, version in known.marks:
            gradient = parameter.grad
            if gradient is not None:
                if reference() is not gradient or gradient._version != version:
                    return GradientState.FRESH
                marked.add(id(parameter))
        for parameter in own:
            if parameter.grad is not None and id(parameter) not in marked:
                return GradientState.FRESH
        return GradientState.UNCHANGED if marked else GradientState.ABSENT

    # Names

    def name_of(self, parameter: torch.Tensor) -> tuple[str, str]:
        """Return a parameter's qualified name and module path; a bare tensor uses its optimizer.

        Uses the name that was passed to the optimizer, otherwise its position.
        """
        named = self._job.book.parameter_name(parameter)
        if named is not None:
            return named
        optimizer = self.owner(parameter)
        if optimizer is None:
            return "parameter", ""
        for name, one in _given_names(optimizer):
            if one is parameter:
                return name, name.rpartition(".")[0]
        place = next(i for i, p in enumerate(parameters(optimizer)) if p is parameter)
        return f"{self.add(optimizer).name}.parameters[{place}]", ""

    def named(self, optimizer: Optimizer) -> list[tuple[str, torch.Tensor]]:
        """Return the parameters of an optimizer by qualified name."""
        parameter_list = self._parameter_list(self.add(optimizer), optimizer)
        if parameter_list.names is not None:
            return parameter_list.names
        named = [(self.name_of(p)[0], p) for p in parameter_list.parameters]
        if all(self._job.book.parameter_name(p) is not None for p in parameter_list.parameters):
            parameter_list.names = named  # any other name is preliminary until its model is called
        return named

    def parameter_id(self, parameter: torch.Tensor) -> int:
        """Return the id of a parameter's values, as a weight or a bias."""
        return self._tensor_id(parameter, self._own_kind(parameter), self._weight_ids)

    def _gradient_id(self, parameter: torch.Tensor) -> int:
        return self._tensor_id(parameter, "gradient", self._gradient_ids)

    def _own_kind(self, parameter: torch.Tensor) -> str:
        own = self._kinds.get(parameter)
        if own is None:
            own = self._kinds[parameter] = value_kind(self.name_of(parameter)[0])
        return own

    def _tensor_id(
        self,
        parameter: torch.Tensor,
        kind: str,
        ids: ByIdentity[torch.Tensor, int],
    ) -> int:
        tensor_id = ids.get(parameter)
        if tensor_id is None:
            tensor_id = ids[parameter] = self._define(self.describe(parameter, kind))
        return tensor_id

    def describe(self, parameter: torch.Tensor, kind: str) -> TensorInfo:
        """Return the description of a tensor of `kind` with a parameter's shape."""
        name, path = self.name_of(parameter)
        book = self._job.book
        module = book.module_called(path) if path else None
        shape, whole = local_shape(parameter), tuple(parameter.shape)
        return TensorInfo(
            kind=kind,
            name=strip_wrappers(name),
            module=path,
            module_type=class_name(module) if module is not None else "",
            shape=shape,
            dtype=type_name(parameter.dtype),
            location=book.location(module) if module is not None else None,
            scope=self.distributed.scope(parameter),
            global_shape=whole if whole != shape else (),
            held_before=self.distributed.is_held_before(parameter),
        )


def has_closure(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether `step` was called with a closure that may compute gradients.

    Args:
        args: arguments, beginning with the optimizer.
        kwargs: keyword arguments of the call.
    """
    passed = callable(args[1] if len(args) > 1 else kwargs.get("closure"))
    return passed and computes_in_closure()


def applies_nothing(optimizer: Optimizer) -> bool:
    """Return whether a gradient scaler has made a fused optimizer skip the update."""
    found = getattr(optimizer, "found_inf", None)
    return isinstance(found, torch.Tensor) and bool(found.any())


def _given_names(optimizer: Optimizer) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield parameters with the names that the optimizer was created with."""
    for group in optimizer.param_groups:
        yield from zip(group.get("param_names", ()), group["params"], strict=False)
