"""Replaced functions of JAX, and the handle that restores them."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

import jax
import numpy as np

from mothtrap.adapters.jax import internals
from mothtrap.adapters.jax.accumulation import added
from mothtrap.adapters.jax.by_hand import StepsByHand
from mothtrap.adapters.jax.differentiating import describe, telling
from mothtrap.adapters.jax.donations import Again, Donations, copied, donates
from mothtrap.adapters.jax.faults import Faults
from mothtrap.adapters.jax.functions import (
    Book,
    Differentiated,
    Function,
    Layout,
    Traced,
    layout_of,
    name_of,
)
from mothtrap.adapters.jax.guard import BY_SCRIPT, EAGER, Guard, without_the_step
from mothtrap.adapters.jax.jitted import Jitted
from mothtrap.adapters.jax.layers import LayerFacts
from mothtrap.adapters.jax.logs import TracedLogs
from mothtrap.adapters.jax.losses import LossFacts
from mothtrap.adapters.jax.pattern_facts import PatternFacts
from mothtrap.adapters.jax.read_once import reading
from mothtrap.adapters.jax.restarts import Restarts
from mothtrap.adapters.jax.same_rows import SameRows, readable
from mothtrap.adapters.jax.searching import all_here, is_given_away, search
from mothtrap.adapters.jax.shadow import Looks, Shadow
from mothtrap.adapters.jax.snapshots import JaxSnapshotTaker
from mothtrap.adapters.jax.step_sampling import LookBudget, Pace
from mothtrap.adapters.jax.steps import Call, Steps, leaves_at
from mothtrap.adapters.jax.target_networks import TargetNetworks
from mothtrap.adapters.jax.tensors import Tensors
from mothtrap.adapters.jax.weights import Symmetry, report_direction
from mothtrap.core.adapters import Given, Job, SnapshotTaker
from mothtrap.core.facts.trainers import SummedGradients
from mothtrap.core.options import Option
from mothtrap.tracing.describe import directions
from mothtrap.tracing.describe.repeated_arguments import RepeatedArguments
from mothtrap.tracing.guard import Fault
from mothtrap.tracing.handle import BaseHandle
from mothtrap.tracing.replacements import Replacements
from mothtrap.tracing.source.frames import user_frame

READ_ONCE: Final = "values read once"
"""Name of this part, which may fail alone."""


class JaxHandle(BaseHandle):
    """Handle for JAX.

    Args:
        job: receives the observations.
    """

    honors: frozenset[Option] = frozenset({"on_nonfinite", "max_gradient_norm", "snapshots"})

    def __init__(self, job: Job) -> None:
        self._book = Book()
        self._tensors, self._by_hand = Tensors(job), StepsByHand(job)
        self._taker = JaxSnapshotTaker(job)
        self._budget = LookBudget(job.config.overhead)
        self._steps = Steps(job, self._tensors, self._taker, self._budget)
        self._faults = Faults(job)
        self._layers = LayerFacts(job)
        self._losses = LossFacts(job, self._layers)
        self._patterns, self._rows = PatternFacts(job, self._layers), SameRows(job)
        self._given, self._networks = RepeatedArguments(job, readable), TargetNetworks(job)
        self._steps.broken = functools.partial(search, job)
        self._donations = Donations(job.config.ring_mb * 2**20)
        self._guard, self._gradients, self._directed = Guard(job), dict[str, Any](), 0
        self._tried, self._restarts = WeakSet[Traced](), Restarts(job)
        self._counted: WeakSet[Traced] = WeakSet()
        self._unseen: dict[str, str] = {}  # why gradients of functions are unknown
        self._symmetry = Symmetry(job)
        self._logged = TracedLogs(job, self._book)
        self._traced: WeakKeyDictionary[Any, Traced] = WeakKeyDictionary()
        self._shadows: WeakKeyDictionary[Traced, Pace] = WeakKeyDictionary()
        self._loss: Any = None  # of the next step, if a shadow has it
        super().__init__(job)

    def install(self, replacements: Replacements) -> None:
        """Replace functions of the module `jax`."""
        self._tells_nothing_to_train = True
        internals.hide(__file__.rpartition("/")[0])
        replacements.replace(jax, "jit", functools.partial(self._jit, is_mapped=False))
        replacements.replace(jax, "pmap", functools.partial(self._jit, is_mapped=True))
        told = functools.partial(telling, jax.value_and_grad, self._book, self._notified)
        replacements.replace(jax, "value_and_grad", lambda _: told(returns_value=True))
        replacements.replace(jax, "grad", lambda _: told(returns_value=False))
        replacements.on_undo(self._logged.close)
        if not internals.is_tried():
            self.job.blind("gradients and activations", f"jax {jax.__version__} was not tested")

    @property
    def snapshots(self) -> SnapshotTaker | None:
        """Snapshot taker for compiled functions that run training steps."""
        return self._taker

    def step(self, given: Given) -> None:
        """Add the user's values to the step in progress, or create a step; never raises."""
        makes_step = given.makes_step and not self._steps.has_made_any
        self.job.contain(self._by_hand.take, given, makes_step)

    def end(self) -> None:
        """Close the last step."""
        self._steps.finish()

    def _jit(self, make: Function, *, is_mapped: bool) -> Function:
        def jit(*args: Any, **options: Any) -> Any:
            if not args:  # `jax.jit(static_argnames=...)`, to be called with the function
                return lambda fun: jit(fun, **options)
            fun = args[0]
            if not callable(fun) or len(args) > 1 or not self.job.live:
                return make(*args, **options)
            traced = self.job.contain(self._stand_in, fun)
            if traced is None:
                return make(*args, **options)
            return Jitted(fun, traced, make, options, self, is_mapped=is_mapped)

        return jit

    def _stand_in(self, fun: Function) -> Traced | None:
        """Return the replacement of a function; each call returns the same one.

        JAX caches by identity.
        """
        try:
            known = self._traced.get(fun)
            if known is None:
                known = self._traced[fun] = Traced(fun, self._book, self._was_traced, self._traces)
        except TypeError:  # no weak reference, or no hash
            return None
        return known

    def _traces(self, traced: Traced, fun: Function, args: Any) -> None:
        if self._book.collector is None:
            self.job.contain(self.job.contain_part, READ_ONCE, self._read_before, traced, fun, args)

    def _was_traced(self, traced: Traced, seen: Any) -> None:
        self.job.contain(self._note_layout, traced, *seen)

    def _note_layout(
        self, traced: Traced, fun: Function, page: Any, arguments: Any, out: Any
    ) -> None:
        traced.layout = layout_of(fun, page, arguments, out)
        if not self._book.pages and self._book.collector is None:
            self.job.contain_part(READ_ONCE, self._note_reading, traced)
            self._faults.traced(traced, traced.layout)
            if traced.layout.repeats:
                self._has_loop(traced.layout, jax.tree_util.tree_leaves(out))

    def _read_before(self, traced: Traced, fun: Function, args: Any) -> None:
        traced.reading = reading(self.job, fun, args)

    def _note_reading(self, traced: Traced) -> None:
        reading, traced.reading = traced.reading, None  # forgotten if it fails
        if reading is not None and reading.traced():
            traced.reading = reading

    def _has_loop(self, layout: Layout, results: Sequence[Any]) -> None:
        """Report data that are not recorded if a function computes gradients in a loop."""
        what = f"{layout.function} computes gradients in a loop"
        self.job.blind("gradients and activations after the first iteration", what)
        if layout.loss is None or not results[layout.loss].ndim:
            why = f"{what}, and each call counts as one step; return the loss of each step"
            self.job.blind(f"the steps inside {layout.function}", why)

    def _notified(self, *call: Any) -> None:
        self.job.contain(self._differentiated, *call)

    def _differentiated(
        self, fun: Function, argnums: Any, has_aux: bool, values: Sequence[Any], result: Any
    ) -> None:
        call = describe(fun, argnums, has_aux, values, result)
        if not call.gradients:
            self._nothing_to_train(call)
        elif self._book.pages:
            self._book.pages[-1].add(call)
        elif internals.is_top_level():
            self._eager(call)

    def _nothing_to_train(self, call: Differentiated) -> None:
        """Report once why the job makes no steps: a gradient was computed without parameters."""
        if not self._tells_nothing_to_train:
            return
        self._tells_nothing_to_train = False
        place = f" at {call.location}" if call.location else ""
        self.job.never_stepped(
            f"the gradient of {call.function}{place} is computed with respect to no parameter: "
            "the tree has no array; check how the parameters are selected (`wrt`, a partition)"
        )

    def _eager(self, call: Differentiated) -> None:
        """Record gradients that were computed outside of any compiled function."""
        weights = dict.fromkeys(call.names, 0)
        layout = Layout(function=call.function, location=call.location, size=0, weights=weights)
        for option in sorted(self.honors):
            self.job.settings.no_effect(option, EAGER)
        full = self._steps.is_full()
        if full:
            self._steps.settle(all_of_them=True)
        found = Call(jitted=None, layout=layout, inputs=None, loss=call.value)
        gradients = call.gradients if full else None
        self._steps.add_gradients(found, call.arguments, gradients)

    def is_seen(self) -> bool:
        """Return whether the current call comes from the script, and not from another call."""
        return self.job.live and self._book.collector is None and internals.is_top_level()

    def before(self, jitted: Jitted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Noted:
        """Copy donated arguments, and run the shadow if the step is observed in full."""
        noted = _Noted(inputs=(args, kwargs))
        self.job.contain(self._look_before, jitted, args, kwargs, noted)
        return noted

    def _look_before(self, jitted: Jitted, args: Any, kwargs: Any, noted: _Noted) -> None:
        layout = jitted.traced.layout
        if layout is None:
            noted.again = self._donations.before(jitted, args, kwargs)
            noted.began_s = time.process_time()
        elif layout.makes_steps:
            if self._steps.broken is not None and not self._steps.is_broken(jitted):
                noted.again = self._donations.before(jitted, args, kwargs)
            noted.full = self._look(jitted, layout, args, kwargs)
        elif self._steps.begins(layout, (args, kwargs)):
            noted.full = self._look(jitted, layout, args, kwargs)
        if donates(jitted, args) and self._skips and self.job.config.guard_copies:
            noted.inputs = jax.tree.map(copied, noted.inputs)

    def _look(self, jitted: Jitted, layout: Layout, args: Any, kwargs: Any) -> bool:
        self._steps.settle()
        full = self._steps.is_full()
        if not full and not self._guard.bounds:
            return False
        self._steps.settle(all_of_them=True)
        if jitted.traced not in self._counted:
            self._counted.add(jitted.traced)
            about = jitted, layout, args, kwargs
            self.job.contain_part("micro-batches", self._count_gradients, *about)
        weights = leaves_at((args, kwargs), tuple(layout.weights.values()))
        pace = self._shadows.setdefault(jitted.traced, Pace())
        with self._budget.look(counts=full and pace.shadow is not None):
            if full:
                self._tensors.take("weight", tuple(layout.weights), weights)
            if self._can_shadow(jitted, layout, pace, (args, kwargs)):
                self.job.contain_part(
                    f"gradients of {layout.function}", self._run, jitted, pace, args, kwargs, full
                )
        return full

    def _count_gradients(self, jitted: Jitted, layout: Layout, args: Any, kwargs: Any) -> None:
        """Report gradients that a step adds without averaging them."""
        may_add = layout.accumulates and not jitted.is_mapped
        count = added(jitted, self._book, args, kwargs) if may_add else 0
        if count:
            paths = jax.tree_util.tree_flatten_with_path((args, kwargs))[0]
            adaptive = any("nu" in name_of(path).split(".") for path, _ in paths)
            self.job.fact(
                SummedGradients(
                    step=self.job.now.step,
                    micro_batches=count,
                    adaptive=adaptive,
                    location=layout.location,
                )
            )

    def _can_shadow(self, jitted: Jitted, layout: Layout, pace: Pace, inputs: Any) -> bool:
        if jitted.is_mapped:
            self._no_shadow(jitted, "the step is mapped over devices by pmap")
            return False
        if self._faults.is_unsettled(jitted.traced):
            self._unseen[layout.function] = "many of its calls trace it again"
            return False
        if layout.repeats:
            self._unseen[layout.function] = "a call runs several steps in a loop"
            if self._guard.bounds and not self._steps.is_full():
                return False
        if not all_here(inputs):  # processes would have to run it at the same steps
            self._no_shadow(jitted, "arrays are sharded across processes")
            return False
        return (pace.is_due() or self._guard.bounds) and not pace.is_off and internals.is_tried()

    def _no_shadow(self, jitted: Jitted, why: str) -> None:
        layout = jitted.traced.layout
        if layout is not None:
            self._unseen[layout.function] = why
        logs = " and what it logs" if jitted.traced.logs else ""
        self.job.blind(f"gradients and activations{logs}", why)

    def _run(self, jitted: Jitted, pace: Pace, args: Any, kwargs: Any, full: bool) -> None:
        layout = jitted.traced.layout
        assert layout is not None
        if pace.shadow is None:
            pace.shadow = Shadow(
                jitted, self._book, loops=layout.repeats and not jitted.traced.logs
            )
            program = pace.shadow.program(*args, **kwargs)
            self._faults.learned(jitted.traced, layout, program)
            self._steps.evaluations.draws(jitted, (args, kwargs))
            if program.callbacks:
                why = f"{layout.function} calls back into Python, which must not happen twice"
                self._no_shadow(jitted, why)
                pace.is_off = True
                return
        looks: Looks = pace.shadow(*args, **kwargs)
        if jitted.traced.logs:
            jax.effects_barrier()
            self._logged.hand_on()
        if not looks.gradients:
            pace.is_off = not jitted.traced.logs
            return
        self._loss = looks.losses[0]
        self._gradients = dict(zip(pace.shadow.names, looks.gradients, strict=True))
        if not full:
            return
        with np.errstate(all="ignore"):  # non-finite numbers are inspected, too
            self._tensors.take("gradient", pace.shadow.names, looks.gradients)
            self._tensors.take_activations(pace.shadow.activations, looks.activations)
            self._layers.describe(pace.shadow, looks, layout)
            self._losses.describe(pace.shadow, looks, args, kwargs, layout)
            self._patterns.describe(pace.shadow, looks, layout.location)
            if not layout.repeats:
                self._rows.describe(pace.shadow, looks, (args, kwargs), layout)
            self._networks.describe(pace.shadow, (args, kwargs), layout)
            if pace.shadow.names == tuple(layout.weights):
                weights = leaves_at((args, kwargs), tuple(layout.weights.values()))
                self._symmetry.look(pace.shadow.names, weights, looks.gradients)

    def after(self, jitted: Jitted, noted: _Noted, out: Any) -> Any:
        """Process the result of a call; return the result for the script.

        Raises:
            SystemExit: the guard stops the training.
            NonFiniteStepError: the guard raises.
        """
        layout, inputs = jitted.traced.layout, noted.inputs
        if layout is None:
            return out
        if noted.began_s is not None:  # its first call: it was compiled in it
            pace = self._shadows.setdefault(jitted.traced, Pace())
            pace.compile_s = time.process_time() - noted.began_s
            makes_step = layout.makes_steps or self._steps.begins(layout, inputs)
            if makes_step and not is_given_away(inputs):
                noted.full = bool(self.job.contain(self._look, jitted, layout, *inputs))
        judged = self.job.contain(self._returned, jitted, layout, noted, out)
        if judged is None:
            return out
        fault, step, kept = judged
        if kept is not None:
            return kept
        ending = self._guard.policy.ending(fault, step)
        if ending is not None:
            raise ending
        return out

    def _returned(
        self, jitted: Jitted, layout: Layout, noted: _Noted, out: Any
    ) -> tuple[Fault, int, Any] | None:
        leaves, inputs = jax.tree_util.tree_leaves(out), noted.inputs
        if jitted.traced.reading is not None:
            self.job.contain_part(READ_ONCE, jitted.traced.reading.called)
        if len(leaves) != layout.size:
            return None
        if layout.makes_steps:
            self._donations.after(jitted, out)
            self._faults.called(jitted.traced, layout, inputs)
            call = Call(jitted=jitted, layout=layout, inputs=inputs, again=noted.again)
            call.shown = leaves[layout.loss] if layout.loss is not None else None
            call.loss = call.shown if call.shown is not None else self._loss
            self._loss = None
            if layout.totals is not None:  # they are donated to the next call
                call.loss, call.count = (leaves[index].copy() for index in layout.totals)
            call.rate = leaves[layout.rate] if layout.rate is not None else None
            gradients, self._gradients = self._gradients, {}
            gradients = {} if layout.repeats else gradients  # of its first iteration
            if not gradients and not (noted.began_s is not None and is_given_away(inputs)):
                why = self._unseen.get(layout.function, "no gradients were found in the step")
                self.job.settings.no_effect("max_gradient_norm", f"{why} ({layout.function})")
            judged = self._judge(call, inputs, out, gradients) if self._guard.judges else None
            full = noted.full or judged is not None
            if gradients and self._directed < directions.STEPS:
                self._directed += 1
                self._direction(layout, gradients, inputs, leaves)
            updated = [leaves[index] for index in layout.updated]
            self._steps.add(call, updated, full=full)
            if full:
                about = jitted.traced, layout, inputs, out
                self.job.contain_part("optimizer state", self._restarts.look, *about)
            self._trained(layout, inputs, updated)
            return judged
        if layout.gradients and layout.weights:
            self._faults.gradients_called(jitted.traced, layout, inputs)
            call = Call(jitted=jitted, layout=layout, inputs=inputs)
            call.shown = leaves[layout.loss] if layout.loss is not None else None
            call.loss = call.shown if call.shown is not None else self._loss
            self._loss, self._gradients = None, {}
            full = noted.full or self._steps.is_full()
            if full:
                self._steps.settle(all_of_them=True)
            found = [leaves[index] for index in layout.gradients]
            named = dict(zip(layout.weights, found, strict=False))
            judged = self._judge(call, inputs, None, named) if self._guard.judges else None
            weights = leaves_at(inputs, tuple(layout.weights.values()))
            self._steps.add_gradients(call, weights, found if full else None)
            self._trained(layout, inputs, weights)
            if judged is not None:
                self._steps.settle(all_of_them=True)
            return judged
        self._steps.evaluations.called(jitted, layout, inputs, leaves)
        return None

    def _trained(self, layout: Layout, inputs: Any, weights: Sequence[Any]) -> None:
        """Record the batch of a step."""
        self._steps.evaluations.trained(inputs, weights, layout)
        if not (layout.repeats or layout.runs_on or self._given.is_done(layout.function)):
            batch = leaves_at(inputs, layout.data)
            self._given.add(layout.function, batch, user_frame)

    def _direction(
        self, layout: Layout, gradients: dict[str, Any], inputs: Any, leaves: Sequence[Any]
    ) -> None:
        if list(gradients) == list(layout.weights) and layout.updated:
            before = leaves_at(inputs, tuple(layout.weights.values()))
            after = [leaves[index] for index in layout.updated]
            report_direction(self.job, layout, list(gradients.values()), before, after)

    @property
    def _skips(self) -> bool:
        return self._guard.policy.name == "skip"

    def _judge(
        self, call: Call, inputs: Any, out: Any, gradients: Mapping[str, Any]
    ) -> tuple[Fault, int, Any] | None:
        """Return the fault of a step that must not be applied, and results to use instead."""
        guard, layout = self._guard, call.layout
        self._steps.settle(all_of_them=True)
        if not call.is_ready():
            self._steps.wait_for(call.loss)
        step = self.job.now.step
        fault, kept = guard.judge(layout, call.loss, gradients), None
        traced = call.jitted.traced if call.jitted is not None else None
        if self._skips and (fault is not None or traced not in self._tried):
            if traced is not None:
                self._tried.add(traced)  # obstacles are reported at the first step
            kept = self._without(call, inputs, out)
        if fault is None:
            return None
        applied = not guard.policy.acts or (self._skips and kept is None)
        call.skipped = kept is not None
        guard.report(fault, layout, step, applied=applied)
        return None if applied else (fault, step, kept)

    def _without(self, call: Call, inputs: Any, out: Any) -> Any | None:
        """Return the results of a call without its step, or None with the reason."""
        kept = None
        if out is None:
            why = BY_SCRIPT
        elif is_given_away(inputs):
            why = "the step donates its old weights; set guard_copies = true"
        else:
            kept = without_the_step(call.layout, inputs, out)
            why = "no argument of the step matches the new weights that it returns"
        if kept is None:
            self.job.settings.no_effect("on_nonfinite", f"{why} ({call.layout.function})")
        return kept


@dataclass(slots=True)
class _Noted:
    """Facts about a call before it is made.

    Attributes:
        inputs: arguments, by position and by name.
        full: it is inspected in full.
        began_s: processor time at the beginning of a function's first call.
        again: recipe to recreate the inputs.
    """

    inputs: Any
    full: bool = False
    began_s: float | None = None
    again: Again | None = None
