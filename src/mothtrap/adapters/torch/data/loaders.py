"""Batches that a job's loaders return: their order, repeated rows, NaN and infinite values.

This module never iterates over a loader, and never draws random numbers. It observes only the
training thread in the training process.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import torch
from torch import nn
from torch.utils.data import DataLoader

from mothtrap.adapters.torch.data.data_sources import Batch, Source
from mothtrap.adapters.torch.data.nonfinite_inputs import all_finite, spots_in
from mothtrap.adapters.torch.data.provenance import Placed, ProvenanceObserver
from mothtrap.adapters.torch.data.redrawn_rows import RedrawnRows
from mothtrap.adapters.torch.data.repeated_batches import RepeatedBatches
from mothtrap.adapters.torch.data.rescaled_rows import RescaledRows
from mothtrap.adapters.torch.data.sampler_orders import order_began
from mothtrap.adapters.torch.data.samplers import plan_of, samples_of
from mothtrap.adapters.torch.data.shared_indices import SharedIndices
from mothtrap.adapters.torch.data.worker_generators import seeded_alike, shared_generators
from mothtrap.adapters.torch.job.nested import placed_tensors
from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.core.facts.data import (
    BatchesLoaded,
    GeneratorsShared,
    LoaderBegan,
    NonfiniteInput,
    RowsRedrawn,
    RowsRescaled,
)
from mothtrap.core.steps import Mode
from mothtrap.tracing.jobs.identity import ByIdentity, OwnRef
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.comparing_runs.digests import DigestObserver
    from mothtrap.adapters.torch.job.forward_uses import Use
    from mothtrap.adapters.torch.job.job import Job

PASSES = 3
"""Maximum number of passes of a loader whose batches are compared."""
BATCHES = 2048
"""Maximum number of batches of a pass that are compared."""
CHECKED, CHECKED_ELEMENTS = 64, 1 << 20
"""Number of first batches of a loader, and of elements of a tensor, that are always searched for
NaN; others are searched only if a loss is not finite. Chosen by hand to bound the cost.
"""
MAX_REPORTED = 16
"""Maximum number of facts of one kind about one loader."""
LOADERS = 64
"""Maximum number of observed loaders: if a script creates one per iteration, further loaders are
observed for their samples only.
"""
FURTHER = "a further loader"


@dataclass(slots=True, eq=False)
class _Pass:
    """One pass over a loader."""

    source: Source | None = None
    batches: int = 0
    compared: RepeatedBatches = field(default_factory=RepeatedBatches)
    drawn: deque[object] = field(default_factory=deque)

    def next_batch(self) -> object:
        """Count a batch; return the samples that the sampler drew for it, None if unknown."""
        self.batches += 1
        return self.drawn.popleft() if self.drawn else None


class LoaderObserver:
    """Receives the events of loaders.

    Attributes:
        latest: latest loaded batch; None before the first, and after a pass has ended.
        provenance: tracks the training samples of each step.
        made: number of loaders so far.
        passes_trained: number of passes of the most used training loader.
    """

    def __init__(self, job: Job, thread: Callable[[], int], digests: DigestObserver) -> None:
        self._job, self._thread, self._digests = job, thread, digests
        self._sources: ByIdentity[DataLoader[Any], Source] = ByIdentity()
        self._passes: ByIdentity[object, _Pass] = ByIdentity()
        self._found: list[NonfiniteInput] = []
        self._shared = SharedIndices(job)
        self.made = self.passes_trained = 0
        self.provenance = ProvenanceObserver(job)
        self.latest: Batch | None = None
        self._before: Batch | None = None
        self._ahead = False

    # Calls around a loader

    def pass_begins(self, loader: DataLoader[Any]) -> None:
        """Handle the start of `iter(loader)`; a reused iterator starts over."""
        kept = getattr(loader, "_iterator", None)
        if kept is not None and kept in self._passes:
            self._passes[kept] = _Pass()

    def pass_began(self, loader: DataLoader[Any], iterator: object) -> None:
        """Handle the return of `iter(loader)`."""
        if self._is_elsewhere():
            return
        source = self._sources.get(loader) or self._new_source(loader)
        if source is None:
            return
        source.passes += 1
        self._job.contain_part("data", order_began, self._job, source, loader)
        self._pass_of(iterator).source = source

    def drawn(self, iterator: object, indices: object) -> None:
        """Handle the indices drawn by an iterator's sampler for a later batch."""
        if not self._is_elsewhere():
            self._pass_of(iterator).drawn.append(indices)

    def loaded(self, iterator: object, batch: object) -> None:
        """Handle a batch from an iterator."""
        known = self._passes.get(iterator)
        if known is None or self._is_elsewhere():
            return
        drawn, source = known.next_batch(), known.source
        tensors = [(place, t) for place, t in placed_tensors(batch) if is_plain(t)]
        label, passes = (source.label, source.passes) if source is not None else (FURTHER, 0)
        given = batch, tensors, drawn, passes, known.batches - 1
        self._job.contain_part("samples", self.provenance.loaded, iterator, label, *given)
        if source is None:
            return
        held = [(place, OwnRef(t)) for place, t in tensors]
        self._settle()  # `next(iter(loader))` in an evaluation does not end a pass
        is_next = self.latest is not None and self.latest.source is source
        self._before = self.latest if is_next else None
        self.latest = Batch(source, held, {_size(t) for _, t in tensors}, drawn)
        light = self._job.is_light_next
        if not light:
            self._job.contain_part("digests", self._take_digests, self.latest)
        told = drawn, tensors, source.passes, self._job.grouper.step
        if source.rescaled is not None:
            self._job.contain_part("data", source.rescaled.loaded, *told)
        if source.redrawn is not None and not source.trained:
            self._job.contain_part("data", source.redrawn.loaded, *told)
        self._found.clear()
        if source.checked < CHECKED and source.told < MAX_REPORTED:
            source.checked += 1
            small = [(p, t) for p, t in tensors if t.numel() <= CHECKED_ELEMENTS]
            if not all_finite([t for _, t in small]):
                self._found += self._nonfinite(self.latest, small)
            elif len(small) == len(tensors):
                self.provenance.found_finite()
        if not light and source.passes <= PASSES and known.batches <= BATCHES:
            self._compare(known, [t for _, t in tensors], drawn)

    def _take_digests(self, batch: Batch) -> None:
        batch.has_digests = True
        alive = [(place, ref()) for place, ref in batch.tensors]
        self._digests.loaded(batch.source.label, [(p, t) for p, t in alive if t is not None])

    def full_step(self) -> None:
        """Handle a full step that uses a batch loaded for a light step."""
        if self.latest is not None and not self.latest.has_digests:
            self._job.contain_part("digests", self._take_digests, self.latest)

    def passed(self, iterator: object) -> None:
        """Handle a batch for a step that is not observed."""
        known = self._passes.get(iterator)
        if known is not None and not self._is_elsewhere():
            known.next_batch()

    def passed_unobserved(self) -> None:
        """Discard batches that were loaded before unobserved steps."""
        self.latest = self._before = None
        self.provenance.passed_unobserved()
        self._digests.forget_loaded()

    def ended(self, iterator: object) -> None:
        """Handle the end of an iterator."""
        known = self._passes.get(iterator)
        if known is None or known.source is None or self._is_elsewhere():
            return
        if known.source.passes <= PASSES:
            self._report_batches(known, ended=True)
        known.source.done = True
        known.compared.forget()
        self._settle()
        self._before = self.latest if self._ahead else None
        self.latest = None

    # Use in training

    def used(
        self,
        arguments: Placed,
        *,
        trains: bool,
        use: Use | None = None,
        model: nn.Module | None = None,
    ) -> Source | None:
        """Handle a model call; return the loader of its arguments, if any.

        Tensors are identified by their sizes, because they may be moved, flattened or normalized
        first.
        """
        batch = self._given(arguments)
        if batch is None:
            return None
        if batch.trains is None:
            for fact in self._found:
                self._report_nonfinite(fact, Mode.TRAIN if trains else Mode.EVAL, batch)
        if not trains and batch.trains:
            return None  # the script may now pass other tensors of the same sizes
        if model is not None:
            batch.source.models.add(model)
        batch.trains = trains  # a teacher may receive it before the trained model
        if use is not None:
            use.then(functools.partial(self._settled, batch.source))
        return batch.source

    def trained_on(self) -> None:
        """Handle the start of a backward pass, which trains on the latest batch."""
        self._job.contain_part("samples", self.provenance.backward_began)
        batch = self._in_use
        if batch is not None:  # even if the model gets tensors that are computed from it
            self.passes_trained = max(self.passes_trained, batch.source.passes)
        if batch is None or not batch.trains:
            return
        if not batch.source.trained:
            batch.source.trained = True
            self._shared.compare(batch.source)

    def nonfinite(self) -> bool:
        """Search the latest batch for NaN and infinity; return whether any was found."""
        batch = self._in_use
        if batch is None or not batch.trains:
            return False
        if not batch.told:
            alive = [(place, ref()) for place, ref in batch.tensors]
            for fact in self._nonfinite(batch, [(p, t) for p, t in alive if t is not None]):
                self._report_nonfinite(fact, Mode.TRAIN, batch)
        return batch.told

    # Details

    @property
    def _in_use(self) -> Batch | None:
        """Return the batch that models are called with: the latest or the previous batch."""
        return self._before if self._ahead else self.latest

    def _given(self, arguments: Placed) -> Batch | None:
        """Return the batch that contains a tensor passed to a model.

        Some trainers load the next batch before they use the current one.
        """
        sizes = [_size(tensor) for _, tensor in arguments]
        for batch in (self.latest, self._before):
            if batch is not None and not batch.sizes.isdisjoint(sizes):
                self._ahead = batch is not self.latest
                return batch
        return None

    def _settled(self, source: Source, evaluated: bool) -> None:
        """Record whether a forward with a batch of a loader was an evaluation."""
        if evaluated and not source.evaluated:
            source.evaluated = True
            self._shared.compare(source)

    def _settle(self) -> None:
        """Finish with the latest batch; if no model was trained on it, it was for evaluation."""
        batch = self._in_use
        if batch is not None and batch.trains is False and not batch.source.evaluated:
            batch.source.evaluated = True
            self._shared.compare(batch.source)

    def _is_elsewhere(self) -> bool:
        return threading.get_ident() != self._thread()

    def _pass_of(self, iterator: object) -> _Pass:
        known = self._passes.get(iterator)
        if known is None:
            known = self._passes[iterator] = _Pass()
        return known

    def _new_source(self, loader: DataLoader[Any]) -> Source | None:
        self.made += 1
        if self.made > LOADERS:
            return None
        location = frames.user_location()
        source = Source(f"loader {self.made}", plan_of(loader), location, weakref.ref(loader))
        self._sources[loader] = source
        source.rescaled = RescaledRows(functools.partial(self._report_rescaled, source))
        source.redrawn = RedrawnRows(functools.partial(self._report_redrawn, source))
        self._job.recorder.notes.observe(
            LoaderBegan(
                step=self._job.grouper.step,
                loader=source.label,
                sampler=source.plan.sampler,
                workers=source.plan.workers,
                samples=source.plan.samples,
                batch_size=source.plan.batch_size,
                batches=source.plan.batches,
                in_order=source.plan.in_order,
                weights=source.plan.weights,
                location=location,
            )
        )
        self._job.contain_part("data", self._report_generators, source, loader)
        return source

    def _report_generators(self, source: Source, loader: DataLoader[Any]) -> None:
        generators, seeded_by = shared_generators(loader), seeded_alike(loader)
        if generators or seeded_by:
            self._job.recorder.notes.observe(
                GeneratorsShared(
                    step=self._job.grouper.step,
                    loader=source.label,
                    workers=loader.num_workers,
                    generators=generators,
                    seeded_by=seeded_by,
                    persistent=loader.persistent_workers,
                    location=source.location,
                )
            )

    def _nonfinite(
        self, batch: Batch, tensors: list[tuple[str, torch.Tensor]]
    ) -> list[NonfiniteInput]:
        found = []
        for place, tensor in tensors:
            spots = spots_in(tensor) if tensor.device.type == "cpu" else None
            if spots is not None:
                found.append(
                    NonfiniteInput(
                        step=0,
                        tensor=place,
                        source=batch.source.label,
                        from_loader=True,
                        nan=spots.nan,
                        inf=spots.inf,
                        rows=spots.rows,
                        row_count=spots.row_count,
                        samples=batch.samples(spots.rows, len(tensor) if tensor.ndim else 1),
                        location=batch.source.location,
                    )
                )
        return found

    def _report_nonfinite(self, fact: NonfiniteInput, mode: Mode, batch: Batch) -> None:
        batch.told = True
        if batch.source.told < MAX_REPORTED:
            batch.source.told += 1
            step = self._job.grouper.step
            self._job.recorder.notes.observe(msgspec.structs.replace(fact, step=step, mode=mode))

    def _report_rescaled(self, source: Source, found: RowsRescaled) -> None:
        evaluates = source.evaluated and not source.trained
        self._job.recorder.notes.observe(
            msgspec.structs.replace(
                found, loader=source.label, evaluates=evaluates, location=source.location
            )
        )

    def _report_redrawn(self, source: Source, found: RowsRedrawn) -> None:
        if source.evaluated and not source.trained:
            self._job.recorder.notes.observe(
                msgspec.structs.replace(found, loader=source.label, location=source.location)
            )

    def _compare(self, known: _Pass, tensors: list[torch.Tensor], drawn: object) -> None:
        """Count a batch that already occurred in the same pass."""
        if any(not tensor.is_cpu for tensor in tensors):
            return
        if max((t.shape[0] if t.ndim else 0 for t in tensors), default=0) < 2:
            return
        loader = known.source.loader() if known.source is not None else None
        indices = samples_of(loader, drawn) if loader is not None else ()
        if known.compared.add(tensors, indices) and known.compared.repeated in (1, 4, 16, 64):
            self._report_batches(known)

    def _report_batches(self, known: _Pass, *, ended: bool = False) -> None:
        source, compared = known.source, known.compared
        if source is None:
            return
        self._job.recorder.notes.observe(
            BatchesLoaded(
                step=self._job.grouper.step,
                loader=source.label,
                sampler=source.plan.sampler,
                workers=source.plan.workers,
                pass_number=source.passes,
                batches=known.batches,
                repeated=compared.repeated,
                rows=compared.rows,
                other_indices=compared.other_indices if compared.are_known else None,
                equal_rows=compared.equal_rows,
                ended=ended,
                trained=source.trained,
                location=source.location,
            )
        )


def _size(tensor: torch.Tensor) -> tuple[int, int]:
    return (tensor.shape[0] if tensor.ndim else 1), tensor.numel()


def in_preparation(
    loaders: LoaderObserver, iterator: object
) -> tuple[Source, tuple[int, ...]] | None:
    """Return the loader of an iterator, and the samples of its next batch.

    The samples are empty if the loader does not provide them; None for an iterator that is not
    tracked.
    """
    known = loaders._passes.get(iterator)
    source = known.source if known is not None else None
    if known is None or source is None:
        return None
    loader = source.loader()
    drawn = known.drawn[0] if known.drawn else None
    return source, samples_of(loader, drawn) if loader is not None else ()
