"""Evaluations: forward passes without a graph of a model under training, between two steps.

Whether a forward pass with a graph was for training is known only once a backward pass follows or
not. A forward pass of a module in evaluation mode waits for this, with its losses. If a backward
pass comes next, it was training. If a forward pass in training mode comes next, `torch.no_grad`
was forgotten. A forward pass of a module in training mode waits until the end of the step
(`job/forward_uses.py`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mothtrap.adapters.torch.forward.evaluated_copies import EvaluatedCopies
from mothtrap.adapters.torch.forward.evaluation_graphs import EvaluationGraphs
from mothtrap.adapters.torch.forward.evaluation_norms import NormStatistics
from mothtrap.adapters.torch.forward.labelled_outputs import LabelledOutputObserver
from mothtrap.adapters.torch.forward.modes import MAX_PATHS, active_in_training
from mothtrap.adapters.torch.job.forward_uses import ForwardUses, Use
from mothtrap.adapters.torch.job.naming import class_name
from mothtrap.adapters.torch.job.own_modes import unswitched_dropout
from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.adapters.torch.job.tensor_refs import ContentRef
from mothtrap.adapters.torch.losses import evaluated_losses
from mothtrap.adapters.torch.losses.evaluated_losses import EvaluatedLosses, Site
from mothtrap.adapters.torch.losses.evaluated_predictions import EvaluatedPredictions
from mothtrap.adapters.torch.losses.loss_calls import LossInputs, inputs_of, mean_of
from mothtrap.adapters.torch.losses.loss_rows import LossRows
from mothtrap.core.facts.evaluations import EvaluationPhase
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.steps import Mode
from mothtrap.tracing.jobs.identity import ByIdentity, OwnRef
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

REPORTED_FIRST, REPORTED_EVERY = 16, 16
"""Evaluations of a module that are reported: the first ones, then one in N, because a generator may
be evaluated at every step. Chosen by hand.
"""
MAX_DOUBTED = 1024
"""Maximum number of losses with a graph that are kept until their purpose is known."""
MAX_DOUBTS = 16
"""Number of consecutive forwards that turned out to be training, after which no forward pass is
ambiguous.
"""

EvaluatedLoss = tuple[torch.Tensor, LossInputs, Site, LossCall | None]
"""Value of a loss without its graph, its arguments without values, its line, and its inputs."""


@dataclass(slots=True, eq=False)
class _Ran:
    """Forward calls of one module in the current evaluation; the module may be deleted later."""

    name: str
    kind: str
    counts: _Counts
    told: bool
    trains: bool = False
    dropouts: tuple[str, ...] = ()
    norms: tuple[str, ...] = ()
    updating: tuple[str, ...] = ()
    dropping: tuple[str, ...] | None = None
    created: bool = False
    evaluates: bool = False
    location: str | None = None
    forwards: int = 0
    labelled: int = 0
    repeated: bool = False
    last_input: tuple[ContentRef[torch.Tensor], int] | None = None
    output_shape: tuple[int, ...] | None = None


@dataclass(slots=True)
class _Counts:
    number: int = 0
    step: int = 0


@dataclass(slots=True)
class _Open:
    """The evaluation in progress, begun at `step`."""

    step: int
    ran: dict[int, _Ran] = field(default_factory=dict)


class EvaluationObserver:
    """Collects the events of an evaluation, and reports it when training continues.

    Attributes:
        losses: the losses by call site.
        in_doubt: the latest forward pass has a graph and may still have been an evaluation.
        rows: compares the rows of training losses with those of evaluation losses.
        uses: forward passes with a graph whose purpose is not known yet.
        open: data about the evaluation in progress; None if there is none.
    """

    def __init__(self, job: Job, cut: Callable[[nn.Module], bool]) -> None:
        self._job = job
        self.open: _Open | None = None
        self._counts: ByIdentity[nn.Module, _Counts] = ByIdentity()
        self._doubted: list[EvaluatedLoss] = []
        self._doubts = 0
        self._latest: weakref.ref[torch.Tensor] | None = None
        self.in_doubt = False
        self.losses, self.rows = EvaluatedLosses(), LossRows(job)
        self._predictions = EvaluatedPredictions()
        self._graphs, self._labelled = EvaluationGraphs(), LabelledOutputObserver()
        self._norms, self._copies = NormStatistics(), EvaluatedCopies(job)
        self.uses = ForwardUses(job, self._recognized, cut)
        self._of_uses: weakref.WeakKeyDictionary[Use, list[EvaluatedLoss]]
        self._of_uses = weakref.WeakKeyDictionary()

    @property
    def is_open(self) -> bool:
        """Return whether an evaluation is certainly in progress."""
        return self.open is not None

    def root_called(self, module: nn.Module, inputs: Sequence[Any], trains: bool) -> None:
        """Handle the start of a forward pass of a module with optimizer parameters.

        Args:
            module: the module that the user called.
            inputs: its arguments.
            trains: autograd is on.
        """
        if self.rows.looks:
            self.rows.called(inputs[0] if inputs else None, trains, module.training)
        if trains and self._copies.compares:
            self._copies.trained(module, inputs)
        if not trains:
            self._evaluates(module, inputs)
        elif module.training:
            if self.open is not None or self.in_doubt:
                self.close()
            self.in_doubt = False
            self._norms.trained(module, inputs)
        elif self._doubts < MAX_DOUBTS:
            self.in_doubt = True

    def copy_called(self, module: nn.Module, inputs: Sequence[Any]) -> None:
        """Handle the start of a graph-free forward pass of a copy of a trained model.

        Losses that follow belong to an evaluation. A teacher runs in the same way, but its loss has
        the graph of its student.
        """
        self._copies.called(module, inputs)
        if self.open is None:
            self.open = _Open(self._job.grouper.steps_applied)

    def root_returned(self, module: nn.Module, outputs: Sequence[torch.Tensor]) -> None:
        """Handle the return of a graph-free or ambiguous forward pass."""
        if self.in_doubt:
            self._graphs.returned(outputs)
        ran = self.open.ran.get(id(module)) if self.open is not None else None
        if ran is not None and len(outputs) == 1:
            ran.output_shape = tuple(outputs[0].shape)
            self._job.contain_part("evaluated labels", self._labelled.returned, outputs[0])

    def loss_called(
        self, name: str, result: torch.Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Handle the return of a loss function."""
        if result.requires_grad:
            use = self.uses.latest
            if use is not None:
                use.labelled += 1
            kept = self._doubted
            if not self.in_doubt and use is not None:
                kept = self._of_uses.setdefault(use, [])
            if is_plain(result) and len(kept) < MAX_DOUBTED:
                inputs = inputs_of(name, args, kwargs)
                value, site = mean_of(result, inputs), evaluated_losses.user_site()
                call = self._predictions.look(inputs, self._job.grouper.steps_applied)
                few = len(kept) < evaluated_losses.GUESSED_CALLS
                with torch.no_grad():
                    inputs = inputs.lightened(targets=few)  # do not keep a graph alive
                kept.append((value, inputs, site, call))
        elif self.open is not None and is_plain(result):
            inputs = inputs_of(name, args, kwargs)
            for ran in self.open.ran.values():
                ran.labelled += inputs.target is not None
            self.losses.add(mean_of(result, inputs), inputs, evaluated_losses.user_site())
            self._latest = OwnRef(result)
            self._observe(self._predictions.look(inputs, self.open.step))

    def loss_module_returned(self, module: nn.Module, value: torch.Tensor) -> None:
        """Handle a loss module that returned one number without a graph."""
        known = self._latest() if self._latest is not None else None
        if self.open is not None and known is not value and is_plain(value):
            for ran in self.open.ran.values():
                ran.labelled += 1
            inputs = LossInputs(class_name(module), {})
            self.losses.add(mean_of(value, inputs), inputs, evaluated_losses.user_site())

    def model_returned_loss(self, computed: torch.Tensor, value: torch.Tensor) -> None:
        """Handle a model that returned a value derived from the only loss it computed."""
        if self._latest is not None and self._latest() is computed and is_plain(value):
            self.losses.replace_latest(value)

    def backward_began(self) -> None:
        """Discard ambiguous evaluations, which were training, and end the certain evaluation."""
        if self.in_doubt:
            self.in_doubt = False
            self._doubts += 1
            self._doubted.clear()
            self._graphs.was_training()
        if self.open is not None:
            self.close()

    def ended(self) -> None:
        """Handle the end of the job: forward passes without a backward were evaluations."""
        self.uses.ended()
        self.close()
        self._copies.ended()

    def close(self) -> None:
        """Report the evaluation, if there was one."""
        ended, self.open = self.open, None
        doubted, self._doubted = self._doubted, []
        step = ended.step if ended is not None else self._job.grouper.steps_applied
        if doubted:
            self._doubts = 0
        self._take(doubted)
        for told in self.losses.told(step):
            self._job.recorder.notes.observe(told)
        every = list(ended.ran.values()) if ended is not None else []
        labelled = self._labelled.closed(step)
        has_loss = any(ran.labelled for ran in every)
        for kept in (self._graphs.closed(step), *([] if has_loss else labelled)):
            if kept is not None:
                self._job.recorder.notes.observe(kept)
        for ran in every:
            self._report(ran, step)

    def _recognized(self, uses: Sequence[Use]) -> None:
        """Report forward passes with a graph that no backward pass used."""
        was_open = self.open is not None
        for use in uses:
            module = use.module()
            if module is None:
                continue
            ran = self._ran(module, use.applied)
            self._ran_once(ran, module, use.given, trains=use.training, place=use.place)
            ran.output_shape = use.output_shape or ran.output_shape
            ran.labelled += use.labelled
            self._take(self._of_uses.pop(use, []))
        if not was_open:
            self.close()

    def _take(self, losses: Sequence[EvaluatedLoss]) -> None:
        for value, inputs, site, call in losses:
            self.losses.add(value, inputs, site)
            self._observe(call)

    def _observe(self, call: LossCall | None) -> None:
        if call is not None:
            self._job.recorder.notes.observe(call)

    def _evaluates(self, module: nn.Module, inputs: Sequence[Any]) -> None:
        ran = self._ran(module, self._job.grouper.steps_applied)
        given = next((value for value in inputs if isinstance(value, torch.Tensor)), None)
        known = None
        if given is not None and not given.is_inference():  # its version shows changes
            known = ContentRef(given), given._version
        self._ran_once(ran, module, known, trains=module.training, place=None)

    def _ran(self, module: nn.Module, step: int) -> _Ran:
        """Return the record of a module in the current evaluation; create it if it is missing."""
        if self.open is None:
            self.open = _Open(step)
        ran = self.open.ran.get(id(module))
        if ran is None:
            counts = self._counts.get(module)
            if counts is None:
                counts = self._counts[module] = _Counts()
            told = counts.number < REPORTED_FIRST or counts.number % REPORTED_EVERY == 0
            name = self._job.book.module_name(module)
            ran = self.open.ran[id(module)] = _Ran(name, class_name(module), counts, told)
            norms, where = self._norms, (self._job.book, self.open.step)
            for fact in norms.averages(module, *where), norms.evaluated(module, *where):
                if fact is not None:
                    self._job.recorder.notes.observe(fact)
        return ran

    def _ran_once(
        self,
        ran: _Ran,
        module: nn.Module,
        given: tuple[ContentRef[torch.Tensor], int] | None,
        *,
        trains: bool,
        place: str | None,
    ) -> None:
        """Count a forward; `given` is its first input and the version of that input."""
        ran.evaluates = ran.evaluates or not trains
        if trains and not ran.trains:
            ran.trains = True
            if ran.told:
                ran.location = place or frames.user_location()
                active = active_in_training(module, self._job.book)
                ran.dropouts, ran.norms, ran.updating = active
        if ran.told and ran.dropping is None:
            found = {part: one for part in module.modules() if (one := unswitched_dropout(part))}
            ran.dropping = tuple(self._job.book.module_name(part) for part in found)
            ran.created = bool(found) and all(one.created for one in found.values())
            ran.location = next((one.line for one in found.values()), ran.location)
        ran.forwards += 1
        if given is None:
            return
        before, ran.last_input = ran.last_input, given
        if before is None or before[0].swapped:
            return
        tensor = given[0]()
        if tensor is not None and before[0]() is tensor and before[1] == given[1]:
            ran.repeated = True

    def _report(self, ran: _Ran, step: int) -> None:
        counts = ran.counts
        number, since = counts.number, step - counts.step
        counts.number, counts.step = number + 1, step
        if not ran.told:
            return
        self._job.recorder.notes.observe(
            EvaluationPhase(
                step=step,
                mode=Mode.EVAL,
                module=ran.name,
                module_type=ran.kind,
                forwards=ran.forwards,
                trains=ran.trains and not ran.evaluates,
                number=number,
                steps=since,
                labelled=ran.labelled,
                repeated=ran.repeated,
                dropouts=ran.dropouts[:MAX_PATHS],
                norms=ran.norms[:MAX_PATHS],
                updating=ran.updating[:MAX_PATHS],
                dropping=(ran.dropping or ())[:MAX_PATHS],
                created=ran.created,
                output_shape=ran.output_shape,
                location=ran.location,
            )
        )
