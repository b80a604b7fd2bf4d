"""Replaced functions of Keras on TensorFlow, and the handle that restores them."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import keras
import tensorflow as tf

from mothtrap.adapters.keras import internals, optimizers, trainable
from mothtrap.adapters.keras.failed_fits import FailedFits
from mothtrap.adapters.keras.fits import Fit, weights_by_class
from mothtrap.adapters.keras.fitting import Fitting
from mothtrap.adapters.keras.guard import Guard
from mothtrap.adapters.keras.layers import COMPILED, LOCATIONS
from mothtrap.adapters.keras.loop_sampling import LoopRests
from mothtrap.adapters.keras.metrics import numbers_in
from mothtrap.adapters.keras.models import Models
from mothtrap.adapters.keras.read_once import parts_of
from mothtrap.adapters.keras.snapshots import KerasSnapshotTaker
from mothtrap.adapters.keras.steps import Before, Steps
from mothtrap.adapters.keras.surroundings import KerasSurroundings, open_order
from mothtrap.adapters.keras.tracing import Tracing, shapes_of_latest
from mothtrap.adapters.keras.unowned import Unowned
from mothtrap.adapters.tensorflow import internals as tensorflow_names
from mothtrap.adapters.tensorflow.broken_records import record_at_fault
from mothtrap.adapters.tensorflow.errors import explain
from mothtrap.adapters.tensorflow.hooks import LOOKS, SHARED
from mothtrap.adapters.tensorflow.probes.batches import Batches
from mothtrap.adapters.tensorflow.probes.cells import LOOKING
from mothtrap.adapters.tensorflow.probes.logged import GRAPH_LOG
from mothtrap.adapters.tensorflow.probes.probes import Look
from mothtrap.adapters.tensorflow.read_once import ProgramsRead
from mothtrap.adapters.tensorflow.retracing import Traces
from mothtrap.core.adapters import Job, SnapshotTaker, Surroundings
from mothtrap.core.options import Option
from mothtrap.core.steps import Mode
from mothtrap.tracing.describe import call_baselines
from mothtrap.tracing.replacements import Replacements, drop_own_frame
from mothtrap.tracing.source import frames
from mothtrap.tracing.steps.step_sampling import Rests

LOOKED_FOR_LEFT_OUT = 60
"""Observed step of a custom loop by which every part must have been trained."""
Function = Callable[..., Any]
FAMILY = frozenset({"keras", "tensorflow"})
LOWER_IS_BETTER = ("loss", "error", "mse", "mae", "mape", "crossentropy", "poisson", "kld", "false")
"""Name parts of metrics for which lower is better; for all others, higher is better."""


class KerasHandle(Fitting):
    """Handle for Keras.

    Args:
        job: receives the observations.
        targets: watched models and their optimizers; empty = the whole process.
    """

    honors: frozenset[Option] = frozenset({"on_nonfinite", "max_gradient_norm", "snapshots"})

    def __init__(self, job: Job, targets: Sequence[object] = ()) -> None:
        self._batches = Batches()
        self._taker = KerasSnapshotTaker(job, self._batches)
        self._guard = Guard(job, self._taker)
        self._steps = Steps(job, self._guard)
        self._models = Models(job, self._steps.models)
        self._traces = Traces(job)
        self._tracing = Tracing(job, self._steps)
        self._rests = Rests(job, FAMILY, self._may_rest)
        self._loop_rests = LoopRests(
            self._rests, self._steps, self._passing_began, self._began_late
        )
        self._steps.broke = self._models.broke
        self._here, self._failed = _Thread(), FailedFits()
        self._unowned, self._reads = Unowned(job), ProgramsRead(job)
        # Train functions refer to their models, and would keep them alive.
        self._described: weakref.WeakKeyDictionary[Any, weakref.ref[Function]]
        self._described = weakref.WeakKeyDictionary()
        self._wrapped: weakref.WeakSet[Any] = weakref.WeakSet()
        self._pipelines: dict[str, str] = {}
        self._owners: set[Any] = set()  # classes whose train step is replaced
        super().__init__(job, targets)

    @property
    def snapshots(self) -> SnapshotTaker | None:
        """Snapshot taker for steps in `fit` and `train_on_batch`."""
        return self._taker

    def surroundings(self) -> Surroundings | None:
        """Read seeds, and reasons why the order of batches is not fixed."""
        return KerasSurroundings(self._pipelines)

    def end(self) -> None:
        """Report the last evaluations."""
        self._end_refused()
        self._rests.end()
        self._report_evaluations()

    def detach(self) -> None:
        """Explain the exception that ended the script, and restore everything that was replaced."""
        self.job.contain(self.end)
        self.job.contain_part("explanation of the exception", self._explain)
        self.replacements.undo()

    def _report_evaluations(self) -> None:
        self._steps.evaluated_losses.open.report()
        self._steps.models.report()

    def _may_rest(self) -> bool:
        return not self._taker.is_awaited and not GRAPH_LOG.is_written

    def _put_back(self) -> None:
        for model in list(self._wrapped):
            if hasattr(model.train_function, "mothtrap_watched"):
                model.train_function = model.train_function.__wrapped__
        SHARED.leave(self)

    def _explain(self) -> None:
        error = self.job.ended_by
        if error is None:
            return
        scene = replace(self._failed.scene(error), find_record=record_at_fault)
        found = explain(error, self.job.now.step, shapes_of_latest(), scene)
        if found is not None:
            self.job.after_end(found)

    def install(self, replacements: Replacements) -> None:
        """Replace the functions that create layers and optimizers and run training steps."""
        super().install(replacements)
        trainer = internals.trainer_type()
        self._tracing.install(replacements)
        self._batches.install(replacements)
        SHARED.join(self, self.job.contain)
        replacements.on_undo(self._put_back)
        GRAPH_LOG.join(self.job)
        for kind in internals.optimizer_types():
            replacements.around(kind, "__init__", None, self._made)
            replacements.replace(kind, "apply", self._around_apply)
        replacements.after_new(keras.layers.Layer, self._made)
        replacements.around(internals.compiled_type(), "compile", self._compiling, None)
        make = self._making_train_function, self._made_train_function
        replacements.around(trainer, "make_train_function", *make)
        replacements.around(trainer, "evaluate", None, self._evaluated)
        for name in ("predict", "predict_on_batch"):
            replacements.replace(trainer, name, self._around_prediction)
        if not (internals.is_tried() and tensorflow_names.is_tried()):
            versions = f"Keras {keras.version()} and TensorFlow {tf.__version__}"
            self.job.blind(versions, "mothtrap was not tested with them; some data may be missing")
        for model in self.targets:
            if isinstance(model, keras.Model):
                self._made_train_function(model)  # if `fit` has already begun

    def _made(self, made: Any, *_: object) -> None:
        place = frames.location(frames.user_frame(skip_init_of=made))
        if place is not None:
            LOCATIONS[made] = place

    def _compiling(self, model: Any, *_: object) -> None:
        place = frames.user_location()
        if place is not None:
            COMPILED[model] = place

    def _fit_given(self, fit: Fit, given: Mapping[str, Any]) -> None:
        self._steps.batches.fit = fit
        data, place = given.get("x"), fit.location
        self.job.contain_part("pipeline", self._look_at_pipeline, data, place)
        self.job.contain_part("data", self._report_data, fit, given)
        self.job.contain_part("trainable weights", self._look_at_trainable, fit)

    def _look_at_trainable(self, fit: Fit) -> None:
        found = trainable.ignored(fit.model, self.job.now.step, fit.location)
        if found is not None:
            self.job.fact(found)

    def _fit_failed(self, err: BaseException, model: Any, args: Any, kwargs: Any) -> None:
        self._failed.note(err, model, args, kwargs)

    def _fit_ended(self, fit: Fit | None, before: Fit | None) -> None:
        self._steps.batches.fit = before
        if fit is not None:
            self._models.fitted(fit)

    def _look_at_pipeline(self, data: Any, location: str | None) -> None:
        found = open_order(data)
        if found:
            self._pipelines[location or "fit"] = found

    def _report_data(self, fit: Fit, given: Mapping[str, Any]) -> None:
        fit.class_weights = weights_by_class(given.get("class_weight"))
        self._steps.batches.loader = self._models.data(fit, given)
        self._steps.batches.comes_from(given.get("x"))

    def _making_train_function(self, model: Any, *_: object) -> None:
        owner = internals.step_owner(model)
        if owner not in self._owners and self.watches(model):
            self._owners.add(owner)
            self.replacements.around(owner, "train_step", self._tracing.step_began, None)

    def _made_train_function(self, model: Any, *_: object) -> None:
        original = getattr(model, "train_function", None)
        if original is None or hasattr(original, "mothtrap_watched") or not self.watches(model):
            return
        handle = self

        def train_function(iterator: Any) -> Any:
            contain, unwatched = handle.job.contain, False
            if handle._rests.on:
                unwatched = bool(contain(handle._rests.passes, original))
            before = None
            if not unwatched:
                before = contain(handle._call_began, model_of(), original, iterator)
                if not isinstance(iterator, internals.iterators()):
                    iterator = handle._batches.passing(iterator)
            SHARED.passing = unwatched
            try:
                found = original(iterator)
            except BaseException as err:
                handle._here.depth = 0
                handle._batches.end()
                drop_own_frame(err)
                raise
            finally:
                SHARED.passing = False
            if unwatched:
                before = contain(handle._passed, model_of(), found)
            if before is not None:
                contain(handle._call_ended, before, found)
                contain(handle._rest, original)
            ending, handle._guard.ending = handle._guard.ending, None
            if isinstance(ending, SystemExit):
                handle.job.ends_here()
            if ending is not None:
                raise ending
            return found

        model_of = weakref.ref(model)
        train_function.__wrapped__ = original  # type: ignore[attr-defined]
        train_function.mothtrap_watched = True  # type: ignore[attr-defined]
        model.train_function = train_function
        self._wrapped.add(model)

    def _call_began(self, model: Any, original: Function, iterator: Any) -> Before | None:  # noqa: ARG002
        if model is None:
            return None
        self._here.depth += 1
        if not model.run_eagerly:
            self._reads.began(original, lambda: parts_of(model))
        self._batches.begin(wanted=internals.hides_steps(model))
        fit = self._running.fit
        place = fit.location if fit is not None else frames.user_location()
        return self._begin_step(model, place)

    def _call_ended(self, before: Before, found: Any) -> None:
        before.take_logs(found)
        self._here.depth = max(0, self._here.depth - 1)
        self._batches.end()
        looks = LOOKS.take()
        described, function = self._described.get(before.model), before.model.train_function
        if described is None or described() is not function:
            self._described[before.model] = weakref.ref(function)
            self.job.contain_part("model", self._describe, before, looks)
        self._look_for_left_out(looks)
        self._steps.end(before, looks, LOOKS.hidden())

    def _describe(self, before: Before, looks: list[Look]) -> None:
        scaled = self._tracing.is_scaled(before.model, looks)
        self._models.describe(before.model, scaled=scaled, location=before.location)

    def _rest(self, function: Function) -> None:
        """Skip the next steps if observing each of them takes too long."""
        self._reads.ended(function)
        self._rests.watched(function, plain=self._steps.was_plain)
        if self._rests.on:
            self._steps.rest()

    def _passed(self, model: Any, found: Any) -> Before | None:
        """Count a skipped step; inspect it after all if its loss is not finite."""
        loss = found.get("loss") if isinstance(found, dict) else None
        if loss is None or internals.is_finite_here(loss):
            self._rests.passed()
            return None
        self._rests.end()
        fit = self._running.fit
        self._here.depth += 1
        return self._steps.begin_late(model, fit.location if fit is not None else None)

    def _begin_step(self, model: Any = None, location: str | None = None) -> Before:
        """Read the state before a call, excluding steps that were skipped earlier."""
        if self._rests.made:
            self._rests.made = 0
            LOOKS.take(programs_only=True)
        return self._steps.begin(model, location)

    def _evaluated(self, model: Any, _: Any, args: Any, kwargs: dict[str, Any], __: object) -> None:
        fit = self._running.fit or self._fits.get(model)
        if fit is None or not self.watches(model):
            return
        inside = self._running.fit is not None
        location = frames.user_location()
        place = os.path.basename(location or "")
        name = f"validation {place}" if inside else f"evaluate {place}"
        given = dict(zip(("x", "y"), args, strict=False)) | kwargs
        values = numbers_in(model.get_metrics_result())
        rows, labels = self._models.evaluated(fit, model, given, name)
        baseline = call_baselines.baseline_of(labels) if labels else None
        rising = {m for m in values if not any(part in m for part in LOWER_IS_BETTER)}
        self.job.evaluation(
            self._steps.numbered(name, model),
            values,
            loss="loss" if "loss" in values else None,
            higher_is_better=frozenset(rising),
            rows=rows,
            guess=baseline.loss() if baseline else None,
            label_counts=baseline.label_counts() if baseline else None,
            moments=baseline.moments() if baseline else (None, None),
            location=location,
        )

    def _around_prediction(self, original: Function) -> Function:
        here = self._steps.evaluated.here

        def predict(*args: Any, **kwargs: Any) -> Any:
            before, here.mode = here.mode, Mode.PREDICT
            self.job.contain(self._steps.networks.called, args[0])
            try:
                return original(*args, **kwargs)
            except BaseException as err:
                drop_own_frame(err)
                raise
            finally:
                here.mode = before

        return predict

    def _pass_ended(self) -> None:
        self._steps.batches.pass_ended()

    def _around_apply(self, original: Function) -> Function:
        handle, here = self, self._here

        def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
            outermost = here.applying == 0
            if trainable_variables is not None:
                trainable_variables = list(trainable_variables)
            before = None
            if outermost:
                variables = trainable_variables
                before = handle.job.contain(handle._applying, self, grads, variables)
            here.applying += 1
            try:
                result = original(self, grads, trainable_variables)
            except BaseException as err:
                drop_own_frame(err)
                raise
            finally:
                here.applying -= 1
            if before is not None:
                handle.job.contain(handle._own_step, before)
                ending = handle.take_ending()
                if ending is not None:
                    raise ending
            return result

        return apply

    def _applying(self, optimizer: Any, gradients: Any, variables: Any) -> Before | None:
        """Record the arguments of an optimizer; return the state if this call is a step."""
        self._steps.updates = True
        own = getattr(optimizers.innermost(optimizer), "_trainable_variables", ())
        LOOKS.optimized.update(map(id, variables or own))
        self._tracing.applied(optimizer, list(gradients), variables)
        if self._here.depth or not tf.executing_eagerly():
            return None
        before = self._begin_step(location=frames.user_location())
        self._steps.loops.applying(optimizer, variables or ())
        return self._with_state(before)

    def _with_state(self, before: Before) -> Before:
        """Add the stored state of a custom loop."""
        if self._guard.needs_state:
            before.held, before.why_no_state = self._steps.loops.held, self._steps.loops.why
        return before

    def _own_step(self, before: Before) -> None:
        looks = [*self._steps.computed, *LOOKS.take()]
        self._look_for_left_out(looks)
        self._rests.end()
        self._steps.end(before, looks, [])
        for each in (each for look in looks for each in look.applied):
            self._steps.loops.stepped(each.optimizer, each.variables)

    def take_ending(self) -> BaseException | None:
        """Return the exception that ends the job after a step of a custom loop, or None."""
        if self._here.depth:
            return None
        ending, self._guard.ending = self._guard.ending, None
        if isinstance(ending, SystemExit):
            self.job.ends_here()
        return ending

    def _look_for_left_out(self, looks: list[Look]) -> None:
        self.job.contain_part("unowned", self._unowned.step, looks, self._steps.given)
        if self.job.now.step == LOOKED_FOR_LEFT_OUT:
            given = self._steps.given()
            self.job.contain_part("model", self._models.tell_left_out, looks, given)

    def busy(self) -> bool:
        """Return whether a train function is running, which ends the step itself."""
        return self._here.depth > 0

    def began(self) -> None:
        """Read the state before a function that may run a step."""
        if not self._here.depth:
            before, self._here.given = self._begin_step(), LOOKS.given
            self._steps.loops.call_began(LOOKS.owner)
            self._here.function = self._with_state(before)
            if self._steps.evaluated.began():
                LOOKING.set(True)

    def _passing_began(self) -> None:
        """Keep the state before a call that is skipped."""
        self._report_evaluations()
        self._steps.loops.call_began(LOOKS.owner)

    def _began_late(self) -> None:
        self._here.function = self._with_state(self._steps.begin_late(None, None))

    def ended(self, function: Any, traces: int, looks: list[Look]) -> bool:
        """Record a step for a function in which an optimizer was applied."""
        self._traces.called(function, traces)
        before, self._here.function = self._here.function, None
        given, self._here.given = self._here.given, None
        if before is None or self._here.depth:
            return False
        if any(look.targets for look in looks):
            loops = self._steps.loops
            self.job.contain_part("state", loops.call_ended, function, looks, traces)
        hidden = LOOKS.hidden()
        seen = any(look.applied for look in (*looks, *hidden))
        before.in_branch = not seen and self._steps.steps_in_branches
        if before.in_branch:
            before.location = frames.user_location()
            if self._steps.end(before, looks, hidden):
                return True
        if not seen:
            self._steps.tell_by_hand(looks)
            self.job.contain_part("tensors of evaluations", self._steps.evaluated.ran, looks)
            self._steps.unapplied.ran(function, looks)
            self._steps.computed = [look for look in looks if look.targets]
            if self._steps.has_optimizers:
                self._steps.evaluated_losses.ran(looks)
                self._steps.models.ran(looks, self._steps.given, given)
            return False
        before.location = frames.user_location()
        self._look_for_left_out(looks)
        self._rests.end()
        has_stepped = self._steps.end(before, looks, hidden)
        if has_stepped:
            self.job.contain(self._loop_rests.stepped, function, looks)
            self.job.contain_part("rows", self._steps.models.stepped, given)
        return has_stepped

    def tape_began(self) -> None:
        """Report a hand-written or unapplied step, and store data for the next one."""
        self._steps.tell_by_hand([LOOKS.eager])
        self._end_refused()
        if not self._here.depth:
            self.job.contain_part("state", self._steps.loops.tape_began)

    def _end_refused(self) -> None:
        """Close a non-finite eager step that the script did not apply."""
        look = LOOKS.eager
        if self._here.depth or look.applied or look.by_hand or not self._steps.has_optimizers:
            return
        if not (look.targets or look.scalars):
            return
        if self._steps.end_refused(look, lambda: self._with_state(self._begin_step())):
            LOOKS.eager = Look()


class _Thread(threading.local):
    """State of a thread: `depth` counts running train functions."""

    depth = 0
    applying = 0
    function: Before | None = None
    given: Any = None
