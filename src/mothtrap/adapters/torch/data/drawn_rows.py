"""Rows of the batches that a script draws itself, without a loader."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from mothtrap.adapters.torch.data.overlap import has_rows
from mothtrap.adapters.torch.job.readable import plain_array
from mothtrap.adapters.torch.job.tensor_refs import UnchangedRef
from mothtrap.core.facts.data import RowsDrawn
from mothtrap.statistics.digest import Digests
from mothtrap.statistics.torch.in_place import as_array, glimpse
from mothtrap.statistics.torch.row_digests import row_digests
from mothtrap.tracing.describe.drawn_rows import MAX_ROWS, REPORT_AT, DrawnRows
from mothtrap.tracing.describe.row_sources import RowSource, RowSources
from mothtrap.tracing.jobs.identity import ByIdentity

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.forward_uses import Use
    from mothtrap.adapters.torch.job.job import Job

LEAST_ROWS = 4
"""Minimum number of rows of a batch."""
REMEMBER_AT = 8
"""Number of batches after which the script has loaded its data, so its variables are read."""
MAX_MODELS, MAX_STEPS = 4, 64
"""Maximum number of models whose batches are compared, and of steps before the first is found."""
MAX_CALLS = 16
"""Maximum number of calls per compared batch: a policy is called for each state. By hand."""


class _Model:
    """Batches of one model.

    `given` is the latest one. `anew` counts those in a new tensor, `computed` those that carry a
    gradient.
    """

    def __init__(self, path: str, argument: str, step: int) -> None:
        self.path, self.argument, self.first_step = path, argument, step
        self.draws, self.sources = DrawnRows(), RowSources(plain_array)
        self.given: UnchangedRef | None = None
        self.seen = b""
        self.digest_R: Digests = np.zeros(0, np.uint64)
        self.anew = self.called = self.computed = 0
        self.step = -1
        self.source: RowSource | None = None
        self.is_closed = False

    @property
    def is_over(self) -> bool:
        """Return whether no further batch is compared."""
        return self.is_closed or self.draws.is_over


class DrawnRowsObserver:
    """Compares the batches that a model gets in consecutive steps.

    Attributes:
        is_busy: batches are compared in each step, including light steps.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        # by first parameter, because a script may wrap a model anew in each step
        self._models: ByIdentity[nn.Parameter, _Model] = ByIdentity()
        self._known: ByIdentity[nn.Module, _Model] = ByIdentity()
        self._calls = self._compared = 0
        self.is_busy = True

    def called(
        self,
        module: nn.Module,
        arguments: Sequence[tuple[str, torch.Tensor]],
        loaded: bool,
        use: Use | None,
        place: str | None,
    ) -> None:
        """Handle a training forward; of each model, the first in a step is compared.

        Args:
            module: the called module, without wrappers.
            arguments: its tensor arguments.
            loaded: a loader has returned a batch, so this may be part of it.
            use: determines later whether the forward was an evaluation; None if nothing does.
            place: line of the call.
        """
        if not self.is_busy:
            return
        self._calls += 1
        is_late = not self._models and self._job.grouper.steps_applied >= MAX_STEPS
        if loaded or is_late or self._calls > MAX_CALLS * (MAX_MODELS + self._compared):
            self.is_busy = False
            return
        chosen = next((pair for pair in arguments if has_rows(pair[1])), None)
        if chosen is None or len(chosen[1]) < LEAST_ROWS:
            return
        step = self._job.grouper.step
        model = self._known.get(module) or self._model_of(module, chosen[0], step)
        if model is None or model.is_over or model.step == step:
            return
        model.step = step
        self._compared += 1
        if not any(tensor.requires_grad for _, tensor in arguments):
            self._compare(model, chosen[1], use, place)
            return
        model.computed += 1  # by another model, or points of an equation
        if chosen[1].is_leaf or (model.computed > MAX_STEPS and not model.called):
            self._end(model)

    def _model_of(self, module: nn.Module, argument: str, step: int) -> _Model | None:
        """Return the batches of a module; None if too many models are compared."""
        weight = next(module.parameters(), None)
        model = self._models.get(weight) if weight is not None else None
        if weight is not None and model is None and len(self._models) < MAX_MODELS:
            model = _Model(self._job.book.module_name(module), argument, step)
            self._models[weight] = model
        if model is not None:
            self._known[module] = model
        return model

    def passed_unobserved(self) -> None:
        """Record that steps were not observed."""
        for _, model in self._models.items():
            model.draws.skip()

    def _compare(
        self, model: _Model, tensor: torch.Tensor, use: Use | None, place: str | None
    ) -> None:
        before = model.given() if model.given is not None else None
        seen = glimpse(tensor)
        anew = before is not tensor or seen != model.seen
        if anew:
            model.given, model.seen = UnchangedRef(tensor), seen
            model.digest_R = row_digests(tensor.detach()[:MAX_ROWS])
        model.called += 1
        if model.called == REMEMBER_AT:
            model.sources.remember(len(tensor), tensor[0].numel())
        elif model.called in REPORT_AT:
            model.source = model.sources.find(_some_rows(tensor.detach()))
        given = model.digest_R, len(tensor), anew, place
        settled = functools.partial(self._settled, model, *given)
        if use is None:
            settled(False)
        else:
            use.then(settled)

    def _settled(
        self,
        model: _Model,
        digest_R: Digests,
        rows: int,
        anew: bool,
        place: str | None,
        evaluated: bool,
    ) -> None:
        """Add a batch once it is known that it was trained on."""
        if evaluated or model.is_over:
            return
        model.anew += anew
        if model.draws.add(digest_R, rows):
            self._report(model, place)
            if model.draws.is_over:
                self._end(model)

    def _report(self, model: _Model, place: str | None) -> None:
        draws, source = model.draws.counts(), model.source
        self._job.recorder.notes.observe(
            RowsDrawn(
                step=self._job.grouper.step,
                module=model.path,
                argument=model.argument,
                first_step=model.first_step,
                batches=draws.batches,
                rows=draws.rows,
                drawn=draws.drawn,
                distinct=draws.distinct,
                same=draws.same,
                kept=draws.kept,
                usual=draws.usual,
                returned=draws.returned,
                shifted=draws.shifted,
                irregular=draws.irregular,
                anew=model.anew,
                source=source.name if source is not None else "",
                source_rows=source.rows if source is not None else 0,
                location=place,
            )
        )

    def _end(self, model: _Model) -> None:
        """Stop comparing the batches of a model."""
        model.is_closed, model.given = True, None
        self.is_busy = not all(one.is_over for _, one in self._models.items())


def _some_rows(tensor: torch.Tensor) -> np.ndarray:
    """Return a few rows, evenly spread and flattened."""
    few = tensor[:: max(1, len(tensor) // 3)]
    few = few.float() if few.dtype is torch.bfloat16 else few
    return as_array(few.reshape(len(few), -1).contiguous())
