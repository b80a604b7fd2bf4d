"""Samples that each step trained on.

When a model is called, a batch of a loader is identified by its memory, even if the loader has
returned another batch since. If its tensors were moved or changed, the latest batch with the same
number of rows is used. If several batches were loaded ahead and moved together, it is the oldest
one that no model has received, otherwise the batches loaded since the last backward pass. A batch
that is not from a loader is identified by digests of its rows.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import torch
from torch.utils.data import IterableDataset

from mothtrap.adapters.torch.data.datasets import DataBook
from mothtrap.adapters.torch.data.nonfinite_inputs import all_finite
from mothtrap.adapters.torch.data.row_names import names_in
from mothtrap.adapters.torch.data.sample_origins import indices_of, origins
from mothtrap.adapters.torch.data.unused_batches import UnusedBatches
from mothtrap.capture.grouper import ClosedStep
from mothtrap.core.facts.samples import SampleBatch, SamplesTaken
from mothtrap.core.packed import pack
from mothtrap.statistics.torch.row_digests import sample_digests
from mothtrap.tracing.jobs.identity import OwnRef

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.forward_uses import Use
    from mothtrap.adapters.torch.job.job import Job

HELD = MAX_REPORTED = 64
"""Number of latest batches that are identified by their memory, and number of batches of a step
that are reported: a trainer may load all micro-batches of a step before it uses the first.
"""

Placed = Sequence[tuple[str, torch.Tensor]]


@dataclass(slots=True, eq=False)
class Handed:
    """A batch returned by a loader.

    Attributes:
        told: data known about its samples.
        tensors: tensors of the batch, with the addresses of their memory.
        rows: lengths of its tensors.
        backwards: number of backward passes that had begun when it was loaded.
        step: last step that trained on it; -1 if no step did.
        evaluated: it was passed to a model without training.
        moved: its tensors no longer existed when the next batch was loaded, and no model had used
            them: it was moved to a device before its use.
        sizes: elements of its floating-point tensors, by the addresses of their memory.
        given: addresses of the tensors passed to models.
        finite: all of it was found to be finite.
    """

    told: SampleBatch
    tensors: list[tuple[int, OwnRef[torch.Tensor]]]
    rows: set[int]
    backwards: int
    step: int = -1
    evaluated: bool = False
    moved: bool = False
    sizes: dict[int, int] = field(default_factory=dict)
    given: set[int] = field(default_factory=set)
    finite: bool = False

    def was_finite(self) -> bool:
        """Return whether no tensor of the batch contained NaN or infinity, as far as known."""
        alive = [reference() for _, reference in self.tensors]
        known = [tensor for tensor in alive if tensor is not None]
        self.finite = self.finite or (len(known) == len(alive) and all_finite(known))
        return self.finite

    def may_have_made(self, elements: int) -> bool:
        """Return whether an unused floating-point tensor of the batch has this many elements."""
        return any(
            size == elements for address, size in self.sizes.items() if address not in self.given
        )


@dataclass(slots=True)
class _Step:
    """Batches of the step in progress."""

    batches: list[SampleBatch] = field(default_factory=list)
    left_out: int = 0


class ProvenanceObserver:
    """Tracks batches and model calls; reports at the end of a step."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._data = DataBook(job)
        self._held: deque[Handed] = deque(maxlen=HELD)
        self._step = _Step()
        self._backwards = 0
        self._known = False
        self._repeated: dict[str, tuple[int, str]] = {}
        self._unused = UnusedBatches[Handed](job.recorder.notes.observe)

    def loaded(
        self,
        iterator: Any,
        label: str,
        batch: Any,
        placed: Placed,
        drawn: object,
        pass_number: int,
        number: int,
    ) -> None:
        """Handle a batch from a loader.

        Args:
            iterator: iterator of the loader, which may no longer exist.
            label: label of the loader.
            batch: batch from the loader.
            placed: its tensors.
            drawn: samples that its sampler drew for it, if known.
            pass_number: number of the loader's pass, from 1.
            number: number of the batch in the pass, from 0.
        """
        rows, sizes, held = set[int](), dict[int, int](), []
        for _, tensor in placed:
            address = _address(tensor)
            held.append((address, OwnRef(tensor)))
            if tensor.ndim:
                rows.add(tensor.shape[0])
            if tensor.is_floating_point():
                sizes[address] = tensor.numel()
        worker, seed = _worker_of(iterator)
        fields: dict[str, Any] = {
            "loader": label,
            "rows": max(rows, default=0),
            "pass_number": pass_number,
            "number": number,
            "worker": worker,
            "seed": seed,
        }
        data = getattr(iterator, "_dataset", None)  # private API, covered by a test
        if data is not None:
            ordered = not iterator._num_workers or getattr(iterator, "_in_order", True)
            fields |= self._samples_of(data, label, batch, placed, drawn if ordered else None)
        if not (fields.get("indices") or fields.get("names") or self._job.is_light_next):
            fields |= digests_of(placed)
        before = self._held[-1] if self._held else None
        if before is not None and before.step < 0 and not before.evaluated:
            before.moved = all(reference() is None for _, reference in before.tensors)
        told = SampleBatch(**fields)
        self._unused.loaded(label)
        self._held.append(Handed(told, held, rows, self._backwards, sizes=sizes))

    @property
    def samples_drawn(self) -> int | None:
        """Record the samples that a loader drew for the latest batch of the step, if known."""
        batch = self._step.batches[-1] if self._step.batches else None
        return batch.rows if batch is not None and batch.indices else None

    def found_finite(self) -> None:
        """Record that all tensors of the latest batch are finite."""
        if self._held:
            self._held[-1].finite = True

    def gave_finite(self, elements: int) -> bool:
        """Return whether all loaded data for the step in progress is known to be finite.

        True only if the origin of a tensor with this number of `elements` is included, and cannot
        be another batch that was loaded ahead or at the same time.
        """
        step = self._job.grouper.step
        own = [handed for handed in self._held if handed.step == step]
        if not own or own[-1] is not self._held[-1]:
            return False
        idle = [handed for handed in self._held if handed.step < 0 and not handed.evaluated]
        if any(_pass_of(handed) == _pass_of(own[-1]) for handed in idle):
            return False
        made = any(handed.may_have_made(elements) for handed in own)
        return made and all(handed.was_finite() for handed in (*own, *idle))

    def called(self, arguments: Placed, trains: bool, first: bool, use: Use | None = None) -> None:
        """Handle a model call in user code.

        Args:
            arguments: its tensor arguments.
            trains: autograd records the forward pass.
            first: no other model was called before it in this step.
            use: determines later whether the forward pass was an evaluation; None if nothing does.
        """
        before = len(self._step.batches)
        addresses = {_address(t) for _, t in arguments} if self._held else set()
        handed, sure = self._batch_of(arguments, addresses)
        if handed is not None:
            handed.given |= addresses
            if trains:
                self._took(handed, sure=sure)
                if sure:
                    step = self._job.grouper.step
                    self._unused.trained(handed, handed.told.loader, step)
                else:
                    self._unused.forget()
            else:
                handed.evaluated = handed.step < 0
        elif trains and first and not (self._job.light or (self._held and self._waiting())):
            found = digests_of([(p, t) for p, t in arguments if not t.requires_grad])
            if found:
                self._add(SampleBatch(**found))
        if use is not None and len(self._step.batches) > before:
            added = self._step.batches[-1]
            use.then(functools.partial(self._settled, handed, added))

    def _settled(self, handed: Handed | None, added: SampleBatch, evaluated: bool) -> None:
        """Remove a batch from the step if it was only evaluated."""
        if not evaluated:
            return
        self._step.batches[:] = [batch for batch in self._step.batches if batch is not added]
        if handed is not None:
            handed.step, handed.evaluated = -1, True

    def backward_began(self) -> None:
        """Record batches that were loaded since the last loss but passed to no model."""
        if not self._known:
            for handed in self._waiting():
                self._took(handed, sure=False)
        self._known = False
        self._backwards += 1

    def passed_unobserved(self) -> None:
        """Discard data loaded before or during unobserved steps."""
        self._held.clear()
        self._unused.forget()
        self._step = _Step()
        self._known = False

    def close(self, closed: ClosedStep) -> None:
        """Report the samples of the completed step."""
        if self._step.batches:
            taken, self._step, step = self._step, _Step(), closed.step
            told = tuple([self._without_repetition(batch, step) for batch in taken.batches])
            observed = SamplesTaken(step=step, batches=told, left_out=taken.left_out)
            self._job.recorder.notes.observe(observed)

    def _samples_of(
        self, data: object, label: str, batch: Any, placed: Placed, drawn: object
    ) -> dict[str, Any]:
        indices = None if isinstance(data, IterableDataset) else indices_of(drawn)
        if indices is None:
            number = self._data.numbers([data], label, placed)[0]
            return {"data": number, "names": names_in(batch, drawn)}
        origin = origins(data, indices)
        numbers = self._data.numbers(origin.sets, label, placed)
        self._data.name(origin, numbers)
        found: dict[str, Any] = {
            "indices": pack(origin.indices),
            "rows": len(drawn) if isinstance(drawn, list | tuple) else 1,
        }
        if origin.which:
            return {**found, "sets": pack([numbers[place] for place in origin.which])}
        return {**found, "data": numbers[0]}

    def _batch_of(self, arguments: Placed, addresses: set[int]) -> tuple[Handed | None, bool]:
        """Return the batch that a model receives, and whether it was identified by its memory."""
        if not self._held:
            return None, False
        longest = self._unused.latest
        for handed in (*reversed(self._held), *([longest] if longest is not None else [])):
            for address, reference in handed.tensors:
                if address in addresses and address and reference() is not None:
                    return handed, True
        rows = {t.shape[0] for _, t in arguments if t.ndim}
        latest = self._held[-1]
        ahead = next((one for one in self._held if self._was_loaded_ahead(one, rows)), latest)
        return (ahead, False) if rows & ahead.rows else (None, False)

    def _was_loaded_ahead(self, handed: Handed, rows: set[int]) -> bool:
        """Return whether a batch was probably moved to a device, and waits to be trained on."""
        if not handed.moved or handed.step >= 0 or handed.evaluated or not rows & handed.rows:
            return False
        told, latest = handed.told, self._held[-1].told
        return (told.loader, told.pass_number) == (latest.loader, latest.pass_number)

    def _waiting(self) -> list[Handed]:
        """Return batches loaded since the last backward pass that no model has received."""
        return [
            handed
            for handed in self._held
            if handed.backwards == self._backwards and handed.step < 0 and not handed.evaluated
        ]

    def _took(self, handed: Handed, *, sure: bool) -> None:
        self._known = True
        step = self._job.grouper.step
        if handed.step != step:
            handed.step = step
            told = handed.told
            if not sure:
                told = msgspec.structs.replace(told, sure=False)
            self._add(told)

    def _add(self, batch: SampleBatch) -> None:
        self._known = True
        if len(self._step.batches) < MAX_REPORTED:
            self._step.batches.append(batch)
        else:
            self._step.left_out += 1

    def _without_repetition(self, batch: SampleBatch, step: int) -> SampleBatch:
        """Replace digests that equal those of an earlier step with a reference to that step."""
        if not batch.digests:
            return batch
        before = self._repeated.get(batch.loader)
        if before is not None and before[1] == batch.digests:
            return msgspec.structs.replace(batch, digests="", same_as=before[0])
        self._repeated[batch.loader] = step, batch.digests
        return batch


def digests_of(placed: Placed) -> dict[str, Any]:
    """Return the fields of a `SampleBatch` computed from digests of rows on the host.

    The tensor with the largest rows is used.
    """
    best: tuple[int, str, torch.Tensor] | None = None
    for place, tensor in placed:
        if tensor.ndim and tensor.numel() and tensor.is_cpu:
            size = tensor.numel() * tensor.element_size() // tensor.shape[0]
            if best is None or size > best[0]:
                best = size, place, tensor
    if best is None:
        return {}
    _, place, tensor = best
    found = sample_digests(tensor)
    return {"rows": tensor.shape[0], "digests": pack(found), "place": place} if found else {}


def _pass_of(handed: Handed) -> tuple[str, int]:
    return handed.told.loader, handed.told.pass_number


def _address(tensor: torch.Tensor) -> int:
    """Return the address of a tensor's memory, also of a view; 0 if it has none."""
    if tensor.layout is not torch.strided:
        return 0
    return tensor.untyped_storage().data_ptr()


def _worker_of(iterator: Any) -> tuple[int | None, int | None]:
    """Return the loader's process that created the latest batch, and its seed (private API)."""
    processes = getattr(iterator, "_num_workers", 0)
    received = getattr(iterator, "_rcvd_idx", 0)
    if not processes or not received or not getattr(iterator, "_in_order", True):
        return None, None
    if not all(getattr(iterator, "_workers_status", [False])):
        return None, None  # the processes that continue have changed places
    worker = (received - 1) % processes
    base = getattr(iterator, "_base_seed", None)
    return worker, base + worker if isinstance(base, int) else None
