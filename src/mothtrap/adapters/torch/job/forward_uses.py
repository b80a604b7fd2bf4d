"""Purpose of forwards with a graph: training, evaluation, or something else.

A script may evaluate without `torch.no_grad()` and without `model.eval()`. Such a forward looks
like training until the step is over. Then it is known whether a backward pass went through its
outputs. Forwards that no backward reached, and that came before those of the step, were an
evaluation. Observers that depend on the answer wait for it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mothtrap.adapters.torch.job.tensor_refs import ContentRef
from mothtrap.tracing.jobs.identity import OwnRef

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.capture.grouper import ClosedStep

MAX_USES = 1024
"""Maximum number of forwards that wait for an answer; others count as training. Chosen by hand."""
MAX_OUTPUTS = 8
"""Maximum number of outputs of a tracked forward; a forward with more counts as training."""
EXPECTED_STEPS = 64
"""Number of first steps in which each forward may be an evaluation. Later, until an evaluation is
recognized, only the second of two forwards without a backward in between may be one. Chosen by
hand.
"""
LIGHT_TRIES = 32
"""Number of light steps with such a second forward, but without a recognized evaluation, after
which light steps are no longer checked. Chosen by hand.
"""

_WAITING = "waiting"

Settled = Callable[[bool], None]
"""Called with True if the forward was an evaluation, and with False if it was not."""


class Use:
    """A forward pass with a graph, until its purpose is known.

    Attributes:
        module: the called module.
        key: its identity.
        training: the module was set to training.
        owned: an optimizer has some of its parameters.
        step: the optimizer step in progress.
        applied: optimizer steps before the forward.
        place: the line of the call.
        given: its first tensor, with its version; None if there is none.
        output_shape: shape of its only output; None if there are several.
        labelled: number of losses that were computed after it, and before the next forward pass.
        is_expected: it is likely enough to be an evaluation that its inputs are inspected.
        leads: it came before the forward passes of the step.
        waited: it came before the previous step, and could still be reached when that step ended.
    """

    def __init__(self, module: nn.Module, owned: bool, job: Job, place: str | None) -> None:
        self.module: weakref.ref[nn.Module] = OwnRef(module)
        self.key = id(module)
        self.training, self.owned, self.place = module.training, owned, place
        self.step, self.applied = job.grouper.step, job.grouper.steps_applied
        self.given: tuple[ContentRef[torch.Tensor], int] | None = None
        self.output_shape: tuple[int, ...] | None = None
        self.labelled = 0
        self.is_expected = self.leads = self.waited = False
        self._settled: list[Settled] = []
        self._waiting: dict[str, None] = {_WAITING: None}
        self._hooks: list[weakref.ref[Any]] = []

    def then(self, settled: Settled) -> None:
        """Call `settled` once it is known whether the forward was an evaluation."""
        self._settled.append(settled)

    def returned(self, outputs: Sequence[torch.Tensor]) -> None:
        """Track the graph of the outputs.

        The hook makes no Python call: it removes an entry from a dictionary, and returns None the
        first time and the gradients, unchanged, from then on. The graph owns the hook, so it ends
        with the graph.
        """
        reaching = [output for output in outputs if output.requires_grad]
        if len(outputs) == 1:
            self.output_shape = tuple(outputs[0].shape)
        if len(reaching) > MAX_OUTPUTS or any(output.grad_fn is None for output in reaching):
            self._waiting.clear()
            return
        for output in reaching:
            hook = partial(self._waiting.pop, _WAITING)
            output.grad_fn.register_prehook(hook)  # type: ignore[union-attr]
            self._hooks.append(weakref.ref(hook))

    @property
    def is_reached(self) -> bool:
        """Return whether a backward pass went through an output."""
        return not self._waiting

    @property
    def may_be_reached(self) -> bool:
        """Return whether the graph of an output still exists."""
        return any(hook() is not None for hook in self._hooks)

    @property
    def is_candidate(self) -> bool:
        """Return whether this may be an evaluation: first in the step, and without a backward."""
        return self.leads and bool(self._hooks) and not self.is_reached

    def is_cut(self, uses: Sequence[Use]) -> bool:
        """Return whether the step went through another forward of the model, and not this one.

        Args:
            uses: the forwards of the step.
        """
        evaluates = self.leads and bool(self.labelled)
        if not (self.owned and self.training and self._hooks) or evaluates:
            return False
        if self.waited or self.is_reached:
            return False
        return any(other.key == self.key and other.is_reached for other in uses)

    def settle(self, evaluated: bool) -> None:
        """Report the result to the registered functions."""
        for settled in self._settled:
            settled(evaluated)
        self._settled.clear()


class ForwardUses:
    """Tracks the forward passes of the step, and determines the purpose of each at its end.

    Args:
        job: the job to which the steps belong.
        recognized: function that receives the forwards of a recognized evaluation.
        cut: function that receives each model that also ran in a step without a backward through
            its output, and returns whether the model is known to compute targets in this way.

    Attributes:
        latest: latest watched forward pass; None once the step is over.
        called: forward passes with a graph since the last backward pass.
        searches_light_steps: the second of these forwards is also watched in light steps.
    """

    def __init__(
        self,
        job: Job,
        recognized: Callable[[Sequence[Use]], None],
        cut: Callable[[nn.Module], bool],
    ) -> None:
        self._job, self._report, self._cut = job, recognized, cut
        self._uses: list[Use] = []
        self.latest: Use | None = None
        self.called = 0
        self._recognized = False
        self.searches_light_steps = True
        self._light_tries = LIGHT_TRIES

    @property
    def expects(self) -> bool:
        """Return whether the latest forward pass is likely an evaluation."""
        early = self._job.grouper.steps_applied < EXPECTED_STEPS
        return self._recognized or early or self.called > 1

    def began(
        self, module: nn.Module, args: Sequence[Any], owned: bool, place: str | None
    ) -> Use | None:
        """Handle the start of a forward pass with a graph; return it if it is tracked."""
        if len(self._uses) >= MAX_USES or not torch.is_grad_enabled():
            self.latest = None
            return None
        use = self.latest = Use(module, owned, self._job, place)
        use.is_expected = self.expects
        given = next((value for value in args if isinstance(value, torch.Tensor)), None)
        if given is not None and not given.is_inference():
            use.given = ContentRef(given), given._version
        self._uses.append(use)
        return use

    def close(self, _closed: ClosedStep) -> None:
        """Determine the purpose of each forward pass at the end of the step."""
        if self._uses:
            self._settle(final=False)

    def ended(self) -> None:
        """Determine the purpose of each forward pass when no further backward can follow."""
        if self._uses:
            self._settle(final=True)

    def _settle(self, *, final: bool) -> None:
        uses, self._uses, self.latest = self._uses, [], None
        before = not any(use.leads for use in uses)
        for use in uses:
            before = before and not use.is_reached
            use.waited, use.leads = use.leads, use.leads or before
        candidates = [use for use in uses if use.is_candidate]
        gone = {use.key for use in candidates if not use.may_be_reached}
        targets = {use for use in uses if self._makes_targets(use, uses)}
        step, evaluated = self._job.grouper.step, []
        for use in uses:
            if use in targets:
                use.settle(False)
            elif use.is_candidate and (final or use.waited or use.key in gone):
                evaluated.append(use)
            elif use.is_candidate and use.step >= step - 1:
                self._uses.append(use)  # the next step may also use the output of a generator
            else:
                use.settle(False)
        if self._job.light and len(uses) > 1:
            self._light_tries = LIGHT_TRIES if evaluated else self._light_tries - 1
            self.searches_light_steps = self._light_tries > 0
        if evaluated:
            self._recognized = True
            for use in evaluated:
                use.settle(True)
            self._report([use for use in evaluated if use.owned])

    def _makes_targets(self, use: Use, uses: Sequence[Use]) -> bool:
        module = use.module()
        return module is not None and use.is_cut(uses) and self._cut(module)
