"""Steps of Keras: pass observations of programs and eager steps to the job."""

from __future__ import annotations

import os
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import keras

from mothtrap.adapters.keras import internals, layers, optimizers
from mothtrap.adapters.keras.elsewhere import Elsewhere
from mothtrap.adapters.keras.evaluated_tensors import EvaluatedTensors
from mothtrap.adapters.keras.gradients import Gradients
from mothtrap.adapters.keras.guard import Guard, nonfinite_gradients
from mothtrap.adapters.keras.kept_steps import ASKED, LARGE, LARGE_BYTES
from mothtrap.adapters.keras.layer_facts import Forwards
from mothtrap.adapters.keras.loop_state import HeldLoop
from mothtrap.adapters.keras.loss_calls import LossCalls
from mothtrap.adapters.keras.loss_evaluations import LossEvaluations
from mothtrap.adapters.keras.metrics import numbers_in
from mothtrap.adapters.keras.model_calls import ModelCalls
from mothtrap.adapters.keras.opponents import Opponents
from mothtrap.adapters.keras.own_loops import OwnLoops
from mothtrap.adapters.keras.refused import gradients_of, is_bad, losses_without_gradient
from mothtrap.adapters.keras.repeated_batches import RepeatedBatches
from mothtrap.adapters.keras.reports import EVERY_STEP, SAMPLED_STEPS
from mothtrap.adapters.keras.snapshots import Made
from mothtrap.adapters.keras.state import Held, hold, read, size_of, variables_of
from mothtrap.adapters.keras.target_networks import TargetNetworks
from mothtrap.adapters.keras.tensors import AskedTensors
from mothtrap.adapters.keras.unapplied import Unapplied
from mothtrap.adapters.keras.weights import Weights
from mothtrap.adapters.tensorflow.hooks import LOOKS
from mothtrap.adapters.tensorflow.probes.cells import LOOKING
from mothtrap.adapters.tensorflow.probes.probes import Applied, Look
from mothtrap.core.adapters import Job, Losses
from mothtrap.core.measured import logged_name
from mothtrap.core.reports import Reports
from mothtrap.tracing.jobs.identity import ByIdentity

UNSEEN: Final = Reports(
    kinds=frozenset({"gradient", "activation", "input", "output", "label"}),
    facts=frozenset(SAMPLED_STEPS),
    scalars=frozenset({"gradient_norm", "clip_limit"}),
)
"""Reports that are unavailable if a program is hidden from mothtrap."""

NO_KEEPER: Final = "the program of this step was traced before mothtrap observed it"


NO_GRADIENTS: Final = "no gradients that an optimizer applies were observed"


@dataclass(slots=True)
class Before:
    """State before a call that may run training steps; `totals` as in `names.loss_totals`.

    `returned`: the loss that a train step returned; `metrics`: everything else. `held`: the
    variables; None if they are not kept, for the reason `why_no_state`, or if the program keeps
    them (see `keeping`). `late`: the call was already made, and its program was not observed.
    `in_branch`: the optimizer is called in a branch, which a script may skip.
    """

    model: Any = None
    returned: Any = None
    metrics: dict[str, Any] = field(default_factory=dict)
    held: Held | HeldLoop | None = None
    why_no_state: str = "the loop is custom, and it is unknown what its steps change"
    totals: tuple[float, float] | None = None
    location: str | None = None
    made: dict[int, int] = field(default_factory=dict)
    late: bool = False
    in_branch: bool = False

    def take_logs(self, logs: Any) -> None:
        """Process the return value of a train step."""
        self.metrics = dict(logs) if isinstance(logs, dict) else {}
        self.returned = self.metrics.pop("loss", None)

    def chosen(self) -> dict[str, str]:
        """Return the line that compiled the model, given the line that called `fit`."""
        compiled = layers.COMPILED.get(self.model) if self.model is not None else None
        return {self.location: compiled} if self.location and compiled else {}


class Steps:
    """Records steps and their observations.

    Args:
        job: receives the values.
        guard: evaluates the steps.

    Attributes:
        broke: called with a step whose loss or gradient is not finite, its batch if known, and the
            line that called `fit`.
        was_plain: the latest call ran one step, and its program was observed.
        unapplied: counts gradients that change no weight.
        steps_in_branches: an optimizer is called in a branch or loop of a program, so only its
            number of updates shows whether a call was a step.
        asked: receives tensors of steps that collections request.
        networks: reports the models from which targets are computed.
        evaluated: receives tensors of evaluations.
        updates: whether an optimizer received gradients, in any branch of a program.
        loops: stores the state before the steps of custom loops.
        computed: programs that computed gradients which no optimizer has received yet.
    """

    def __init__(self, job: Job, guard: Guard) -> None:
        self._job, self._guard = job, guard
        self._weights, self.unapplied = Weights(job), Unapplied(job, self.given)
        self._gradients, self._opponents = Gradients(job, self._weights), Opponents(job)
        self.asked, self.loops = AskedTensors(job), OwnLoops(job, guard)
        self.evaluated = EvaluatedTensors(job, self._weights, self.asked)
        self.forwards, self.models = Forwards(job), ModelCalls(job)
        self.batches, self.evaluated_losses = RepeatedBatches(job), LossEvaluations(job)
        self._elsewhere, self.networks = Elsewhere(job), TargetNetworks(job)
        self.calls = LossCalls(job, self.batches)
        self._optimizers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._sees_losses: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
        self._facts = optimizers.OptimizerLedger(job)
        self._trained: dict[str, ByIdentity[Any, int]] = {}
        self._looked_into = self.was_plain = self.updates = False
        self.steps_in_branches = False
        self._dropped = 0
        self._counts: Counter[str] = Counter()
        self.computed: Sequence[Look] = ()
        self.broke: Callable[[int, Any, str | None], None] = lambda *_: None

    @property
    def has_optimizers(self) -> bool:
        """Return whether a Keras optimizer makes the updates of this training run."""
        return bool(self._optimizers)

    def applied(self, optimizer: Any, variables: Sequence[Any]) -> None:
        """Record an optimizer's arguments before its first update."""
        if optimizer not in self._optimizers:
            self._optimizers[optimizer] = 0 if not optimizer.built else iterations(optimizer)
        self._weights.first(optimizer, variables)

    def given(self) -> frozenset[int]:
        """Return the identities of the optimizers' variables."""
        inner = [optimizers.innermost(one) for one in self._optimizers]
        return frozenset(id(v) for one in inner for v in getattr(one, "_trainable_variables", ()))

    def begin(self, model: Any = None, location: str | None = None) -> Before:
        """Read the state before a call."""
        LOOKING.set(self._job.is_full())
        totals = self._totals(model)
        own = getattr(model, "optimizer", None)
        if own is not None and own.built and own not in self._optimizers:
            self._optimizers[own] = iterations(own)
            self._weights.first(own, model.trainable_variables)
        self._weights.before()
        made = {id(one): iterations(one) for one in self._optimizers if one.built}
        before = Before(model=model, totals=totals, location=location, made=made)
        if model is not None and self._guard.needs_state:
            ASKED.set(self._guard.asks)
            before.why_no_state = _obstacle(model)
            if not before.why_no_state and internals.hides_steps(model):
                before.held = hold(model)
        return before

    def begin_late(self, model: Any, location: str | None) -> Before:
        """Return the known state before a call that was to be skipped."""
        made = {id(one): iterations(one) - 1 for one in self._optimizers if one.built}
        return Before(model=model, location=location, made=made, late=True, why_no_state="")

    def rest(self) -> None:
        """Let programs skip observation from the next step on."""
        LOOKING.set(False)
        ASKED.set(False)

    def _totals(self, model: Any) -> tuple[float, float] | None:
        """Return sum and weight of the losses, if the program itself shows no loss."""
        if model is None or self._sees_losses.get(model):
            return None
        return internals.loss_totals(model)

    def end(self, before: Before, looks: Sequence[Look], hidden: Sequence[Look]) -> bool:
        """Close the steps of a call; return whether there were any."""
        stepped = {one: self._delta(one, before) for one in self._optimizers if one.built}
        count = max(stepped.values(), default=0)
        applied = gradients_of(looks, next(iter(self._optimizers), None))
        is_refused = not count and _may_refuse(before, looks) and is_bad(looks)
        skipped = False
        if is_refused and before.model is None:
            skipped, count = True, 1
        elif not count:
            if before.model is None:
                return False
            if self._accumulates(before.model):
                self._judge_part(before, looks, hidden)
                return False
            skipped = is_refused or any(
                isinstance(a.optimizer, keras.optimizers.LossScaleOptimizer) for a in applied
            )
            count = 1
            self._report_dropped(before, looks)
        acting = next((one for one, made in stepped.items() if made), None)
        acting = acting or getattr(before.model, "optimizer", None)
        name = getattr(acting, "name", "") or "keras"
        if before.model is not None and looks:
            self._sees_losses[before.model] = any(look.targets for look in looks)
        self.evaluated_losses.open.report()
        self.models.report()
        made = self._made(before, looks, hidden, name, applied=applied, count=count)
        made = replace(made, refused=is_refused)
        losses = made.losses
        if count > 1:
            self._count(made)
        self._report(before, looks, hidden, made)
        skipped = self._guard.judge(made) or skipped
        if self._guard.is_unsound(self._job.now.step):
            place = self._job.now.step if made.step is None else made.step
            self.broke(place, made.batch, before.location)
        self.was_plain = count == 1 and len(looks) == 1 and bool(applied) and not skipped
        self._job.step(losses, skipped=skipped, optimizer=name)
        self.loops.release()
        self.computed = ()
        return True

    def _made(
        self,
        before: Before,
        looks: Sequence[Look],
        hidden: Sequence[Look],
        name: str,
        *,
        applied: Sequence[Applied],
        count: int = 1,
    ) -> Made:
        """Return the steps of a call: `count` steps of the optimizer `name`."""
        made = Made(
            site=before.location,
            optimizer=name,
            applied=applied,
            losses=self.losses(before, looks),
            held=before.held,
            why_no_state=before.why_no_state,
            graph=next(iter(LOOKS.graphs_of(looks)), None) if before.model is None else None,
            count=count,
            why_no_gradients="" if applied else hidden[-1].why if hidden else NO_GRADIENTS,
        )
        return self._kept(made, looks, count) if not before.why_no_state else made

    def _judge_part(self, before: Before, looks: Sequence[Look], hidden: Sequence[Look]) -> None:
        """Evaluate a batch whose gradients are only added to the next update.

        If the batch is undone, it is left out of the sum, and the next batch takes its place.
        """
        optimizer = before.model.optimizer
        applied = gradients_of(looks, optimizer)
        if not (is_bad(looks) or nonfinite_gradients(applied)[0]):
            return
        made = self._made(before, looks, hidden, optimizer.name or "keras", applied=applied)
        if not self._guard.judge(made):
            for each in applied:
                self._gradients.take(each)
        self.broke(self._job.now.step, made.batch, before.location)

    def end_refused(self, look: Look, begin: Callable[[], Before]) -> bool:
        """Close a non-finite eager step without an optimizer; return whether there was one.

        Args:
            look: observations of the step.
            begin: records the state before the step.
        """
        if not look.targets:
            look.targets += losses_without_gradient(look)
        elif not any(t.sources & LOOKS.optimized for t in look.targets):
            return False
        gradients_of([look], next(iter(self._optimizers), None))
        if not is_bad([look]):
            return False
        before = begin()
        before.in_branch = True
        return self.end(before, [look], [])

    def _report_dropped(self, before: Before, looks: Sequence[Look]) -> None:
        """Report gradients that no optimizer ever received."""
        self.updates |= any(look.by_hand for look in looks)
        targets = [target for look in looks for target in look.targets]
        if self.updates or not targets or any(iterations(one) for one in self._optimizers):
            return
        self._dropped += 1
        name = f"{type(before.model).__name__}.train_step"
        self.unapplied.report(name, self._dropped, targets[0].location or before.location)

    def tell_by_hand(self, looks: Sequence[Look]) -> None:
        """Report layers and losses of a step in which the script updated the weights.

        The TensorFlow adapter makes the step.
        """
        job, step = self._job, self._job.now.step
        own = [look for look in looks if look.by_hand and not look.applied]
        if not own or not job.is_full():
            return
        every = [loss.series for loss in self.losses(Before(), own)]
        series = every[0] if len(every) == 1 else None
        for look in own:
            job.contain_part("layers", self.forwards.report, look, step)
            job.contain_part("losses", self.calls.report, look, step, series, {})
        job.stood_ready(SAMPLED_STEPS)

    def _kept(self, made: Made, looks: Sequence[Look], count: int) -> Made:
        """Add the inputs that the program kept of a non-finite or requested step."""
        if isinstance(made.held, HeldLoop):
            return made
        keepers = [look for look in looks if look.keeper is not None]
        if len(keepers) != 1:
            return made if made.held is not None else replace(made, why_no_state=NO_KEEPER)
        [look] = keepers
        if look.keeper.why:
            return replace(made, why_no_state=look.keeper.why)
        if count == 1 and not self._guard.asks and made.is_within(self._guard.policy.limit):
            return made  # nothing was kept
        kept = look.keeper.take(look.ran - count)
        if kept is None:
            return made
        losses = made.losses
        if len(kept.losses) == len(losses):
            pairs = zip(losses, kept.losses, strict=True)
            losses = [
                Losses(series=loss.series, value=value, location=loss.location)
                for loss, value in pairs
            ]
        return replace(
            made,
            step=self._job.now.step + min(kept.place, count - 1),
            held=kept.held,
            batch=kept.batch,
            graph=look.keeper.graph,
            kept_losses=losses,
        )

    def _count(self, made: Made) -> None:
        """Record the steps of a call except the last step; a stored step contains its losses."""
        first = self._job.now.step
        early = made.step - first + 1 if made.step is not None else made.count
        if early < made.count:
            self._job.step(made.kept_losses, count=early, optimizer=made.optimizer)
        rest = made.count - 1 - early if early < made.count else made.count - 1
        if rest:
            self._job.step(count=rest, optimizer=made.optimizer)

    def _delta(self, optimizer: Any, before: Before) -> int:
        known = before.made.get(id(optimizer), self._optimizers[optimizer])
        return iterations(optimizer) - known

    def _accumulates(self, model: Any) -> bool:
        inner = optimizers.innermost(getattr(model, "optimizer", None))
        return bool(getattr(inner, "gradient_accumulation_steps", None))

    def losses(self, before: Before, looks: Sequence[Look]) -> list[Losses]:
        """Return the losses that a call reported."""
        found: dict[str, Losses] = {}
        several = _has_several(looks)
        for look in looks:
            for target in look.targets:
                place = target.location or before.location
                series = self._series(place, before.model or _optimizer_of(look))
                while series in found:
                    series += "'"
                value = float(target.value.read())
                name = str(_optimizer_of(look, target.sources).name) if several else ""
                found[series] = Losses(series=series, value=value, location=place, optimizer=name)
        if not found and before.model is not None:
            mean = _mean_since(before.totals, internals.loss_totals(before.model))
            if mean is None and before.returned is not None:
                mean = internals.plain_loss(before.model, before.returned)
            if mean is not None:
                series = self._series(before.location, before.model)
                found[series] = Losses(series=series, value=mean, location=before.location)
        return list(found.values())

    def _series(self, place: str | None, trained: Any) -> str:
        return self.numbered(os.path.basename(place or "loss"), trained)

    def numbered(self, name: str, trained: Any) -> str:
        """Return the label of a line's use of a model, numbered from the second model on."""
        if trained is None:
            return name
        known = self._trained.setdefault(name, ByIdentity())
        number = known.get(trained)
        if number is None:
            number = known[trained] = self._counts[name] = self._counts[name] + 1
        return f"{name} ({number})" if number > 1 else name

    def _report(
        self,
        before: Before,
        looks: Sequence[Look],
        hidden: Sequence[Look],
        made: Made,
    ) -> None:
        job, step = self._job, self._job.now.step
        applied, losses = made.applied, made.losses
        for each in applied:
            self._gradients.take(each)
        is_light = before.late or not job.is_full()
        job.contain_part("targets", self.networks.stepped, self.given, not is_light)
        called = [call.layer for look in looks for call in look.layers]
        self._weights.after(applied, called, looked=not is_light)
        if made.count > 1 and not is_light:
            self._weights.after_several()
        stepped = list({id(a.optimizer): a.optimizer for a in applied}.values())
        own = getattr(before.model, "optimizer", None)
        if not stepped and own is not None and own.built:
            stepped = [own]
        for optimizer in stepped:
            self._facts.step(optimizer)
            job.contain_part("optimizer state", self._weights.take_state, optimizer)
        if before.metrics and (not is_light or job.wants("metric")):
            job.contain_part("metrics", self._take_metrics, before)
        job.stood_ready(EVERY_STEP)
        if looks:
            self._looked_into = True
            if not is_light:
                series = losses[0].series if len(losses) == 1 else None
                chosen = before.chosen()
                for each in applied:
                    job.contain_part("gradients", self._opponents.take, each, step)
                    place = losses[0].location if losses else before.location
                    job.contain_part("gradients", self._elsewhere.stepped, each, place)
                job.contain_part("inputs", self.models.trained, looks)
                job.contain_part("collections", self.asked.stepped, looks)
                given = self.given()
                for look in looks:
                    job.contain_part("layers", self.forwards.report, look, step, given)
                    job.contain_part("losses", self.calls.report, look, step, series, chosen)
                job.stood_ready(SAMPLED_STEPS)
        elif hidden and not self._looked_into:
            why = hidden[-1].why
            job.blind("gradients and activations", why)
            job.cannot(f"gradients and layers are not observed: {why}", UNSEEN)

    def _take_metrics(self, before: Before) -> None:
        """Record the training metrics of Keras, which are means since the start of the epoch."""
        series = self._series(before.location, before.model)
        for name, value in numbers_in(before.metrics).items():
            self._job.scalar(logged_name(name), series, value)


def _may_refuse(before: Before, looks: Sequence[Look]) -> bool:
    """Return whether the script, or a loss scale, decides whether an optimizer is applied."""
    scaled = any(each.scaled for look in looks for each in look.applied)
    return before.in_branch or scaled or any(look.in_branches for look in looks)


def _optimizer_of(look: Look, sources: Collection[int] = ()) -> Any:
    """Return the optimizer of the variables that a loss was differentiated by, or the first."""
    for each in look.applied:
        if any(id(variable) in sources for variable in each.variables):
            return each.optimizer
    return look.applied[0].optimizer if look.applied else None


def _has_several(looks: Sequence[Look]) -> bool:
    return len({id(each.optimizer) for look in looks for each in look.applied}) > 1


def _obstacle(model: Any) -> str:
    """Return the reason why the state before a step of `fit` is unknown; '' if it is known."""
    if internals.steps_per_call(model) > 1 and internals.hides_steps(model):
        return "one call runs several steps (steps_per_execution)"
    if internals.hides_steps(model) and size_of(variables_of(model)) > LARGE_BYTES:
        return LARGE
    if model.distribute_strategy.num_replicas_in_sync > 1:
        return "the step runs on several replicas"
    return ""


def iterations(optimizer: Any) -> int:
    """Return the number of updates that an optimizer has made."""
    made = optimizer.iterations
    if not isinstance(made, keras.Variable):  # derived from the micro-batches
        return int(keras.ops.convert_to_numpy(made))
    return int(read(made).numpy())


def _mean_since(
    before: tuple[float, float] | None, after: tuple[float, float] | None
) -> float | None:
    """Return the mean of the losses between two readings of their sum and weight."""
    if after is None:
        return None
    total, weight = after
    if before is not None and before[1] < weight:
        total, weight = total - before[0], weight - before[1]
    return total / weight if weight > 0 else None
