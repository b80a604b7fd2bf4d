"""Recording of the inputs of each step; the latest steps are kept in memory.

Every value is copied when it is observed, because the script may change it later. No frames or
objects of the user are referenced.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

import msgspec
from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from mothtrap.adapters.torch.data.inputs import argument_names
from mothtrap.adapters.torch.job.naming import unwrapped
from mothtrap.adapters.torch.job.nested import tensors_in
from mothtrap.adapters.torch.job.retained_outputs import nodes_made
from mothtrap.adapters.torch.recording.beforehand import Beforehand
from mothtrap.adapters.torch.recording.copies import Copies, Copy
from mothtrap.adapters.torch.recording.notes import (
    Entry,
    Noted,
    Notes,
    latest_evaluations,
    mark_batches,
)
from mothtrap.adapters.torch.recording.random_trees import RandomTrees
from mothtrap.adapters.torch.recording.redaction import matcher
from mothtrap.adapters.torch.recording.uncopied import Uncopied
from mothtrap.adapters.torch.recording.variables import ChangedVariables
from mothtrap.core.snapshots import (
    BatchHanded,
    ForwardCalled,
    KeptStep,
    LossCalled,
    RecordedEvent,
    RecordedStep,
    Tree,
)
from mothtrap.snapshot.ring import Ring
from mothtrap.tracing.jobs.identity import ByIdentity
from mothtrap.tracing.source import frames
from mothtrap.tracing.trainers import trainers_at_work

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.optimization.optimizers import Known
    from mothtrap.capture.grouper import ClosedStep

MAX_EVENTS = 512
"""Maximum number of recorded events of a step, because a process may call models without ever
stepping.
"""
MAX_EVALUATIONS = 4
"""Maximum number of consecutive recorded forward passes without autograd: the passes of a teacher,
or the first passes of an evaluation.
"""
MAX_IN_VARIABLE = 256
"""Maximum number of values in one variable, not counting numbers and texts: a variable with more is
not an input of a step.
"""
EVENT_BYTES = 1500
"""Approximate size of an event without its trees: measured."""
ARRAY_SHARE, VARIABLE_SHARE = 2, 16
"""Divisors of the ring's memory: largest share of an array, and of a variable."""
BEFORE_SHARE = 4
"""Divisor of the ring's memory: largest share of copies of values that forwards change."""
LATER_SHARE = 4
"""Divisor of a snapshot's size: largest share of an array that is only copied when the step is
kept.
"""

LossesOf = Callable[[Iterable[int]], tuple[float, ...]]
"""Function that returns the known values of losses by their keys, in the order of the keys."""


class Recording:
    """Records steps for snapshots, on the training thread.

    Attributes:
        active: whether anything is recorded.
        before: buffers and parameters from before the forward passes of the step in progress.
        whole: the step in progress was watched from its beginning.
        blind: parts that are not visible in this job, and are missing in every step.
    """

    def __init__(self, job: Job, thread: Callable[[], int]) -> None:
        config = job.config
        limit_bytes = config.ring_mb * 2**20
        self.active = limit_bytes > 0 and config.capture != "off"
        self.blind, self.whole = dict[str, None](), True
        self.before = Beforehand(limit_bytes / BEFORE_SHARE)
        self._job, self._thread = job, thread
        self._limit_bytes = limit_bytes
        self._redacted = redacted = matcher(config.redact) if config.redact else None
        self._copies = Copies(limit_bytes, redacted, config.snapshot_mb * 2**20 / LATER_SHARE)
        self._ring: Ring[Entry] = Ring(limit_bytes)
        self._random = RandomTrees(job.random_states, self._copies)
        self._variables = ChangedVariables()
        self._loaders: ByIdentity[DataLoader[Any], int] = ByIdentity()
        self._loaders_begun = 0
        self._loader_of: ByIdentity[object, int] = ByIdentity()
        self._now, self._later = Notes(), Notes()
        self._needs_rng, self._begun = True, False
        self._sequence = self._bytes = 0

    # Kept steps

    def steps(self) -> tuple[int, ...]:
        """Return the steps in the ring, oldest first."""
        return tuple(self._ring)

    def kept(self, step: int) -> KeptStep | None:
        """Return a step in the ring; None if it is not stored."""
        found = self._ring.get(step)
        return found.kept() if found is not None else None

    def current(self) -> KeptStep:
        """Return the step in progress so far."""
        return self._entry(self._now, self._job.grouper.step, (), ()).kept()

    def has_begun(self) -> bool:
        """Return whether the step in progress has any recorded event."""
        return bool(self._now.events)

    def has_forward(self) -> bool:
        """Return whether a model was called in the step in progress."""
        return any(isinstance(noted.event, ForwardCalled) for noted in self._now.events)

    @property
    def bytes_held(self) -> int:
        """Size of the copies in the ring in bytes."""
        return self._ring.bytes_held

    # Reports

    def pass_began(self, loader: DataLoader[Any], iterator: object) -> None:
        """Handle the return of `iter(loader)`."""
        if not self.active or self._is_elsewhere():
            return
        number = self._loaders.get(loader)
        if number is None:
            number = self._loaders[loader] = self._loaders_begun
            self._loaders_begun += 1
        self._loader_of[iterator] = number

    def batch_handed(self, iterator: object, batch: object) -> None:
        """Handle a batch passed to the user's code."""
        number = self._loader_of.get(iterator) if self.active else None
        if number is None or threading.get_ident() != self._thread():
            return
        site = frames.user_location() or ""
        notes = self._later if self._job.grouper.between_steps else self._now
        self._copies.batch += 1
        self._drop_evaluated(number)
        if self._is_full(notes):
            return
        what = f"the batch of loader {number} at {site}"
        value = self._copies.tree(batch, what, self._limit_bytes / ARRAY_SHARE)
        event = BatchHanded(
            loader=number,
            site=site,
            value=value,
            rng=self._random.read(),
            counters=trainers_at_work.counters(),
        )
        self._add(notes, event)
        self._needs_rng = False

    def pass_ended(self, iterator: object) -> None:
        """Handle the end of an iterator: an untrained last batch was evaluated."""
        number = self._loader_of.get(iterator) if self.active else None
        if number is not None and not self._is_elsewhere():
            self._drop_evaluated(number)

    def forward_called(
        self,
        root: str,
        module: nn.Module,
        args: Any,
        kwargs: Mapping[str, Any],
        trains: bool,
        frame: FrameType | None = None,
        site: str | None = None,
    ) -> None:
        """Handle a model call at a line; the frame and the line are determined if not given."""
        if not self.active:
            return
        notes = self._later if self._job.grouper.between_steps else self._now
        if notes.events:
            mark_batches(notes, evaluated=not trains, used=trains)
        if notes is self._later and not self._begun:
            self.before.new_step()
            self._begun = True
        self.before.before_forward(module)
        if not trains and len(latest_evaluations(notes)) >= MAX_EVALUATIONS:
            return
        full = len(notes.events) >= MAX_EVENTS or self._bytes > self._limit_bytes
        if not (full and self._is_full(notes)):
            if frame is None:
                frame = frames.user_frame()
                site = frames.location(frame)
            self._note_forward(notes, module, root, args, kwargs, trains, frame, site or "")

    def _note_forward(
        self,
        notes: Notes,
        module: nn.Module,
        root: str,
        args: Any,
        kwargs: Mapping[str, Any],
        trains: bool,
        frame: FrameType | None,
        site: str,
    ) -> None:
        rng = self._random.read() if self._needs_rng and trains else None
        self._needs_rng = self._needs_rng and not trains
        notes.carried = notes.carried or self._are_carried(args, kwargs)
        names = _names(module) if self._redacted is not None else ()
        given, named = self._arguments(f"an argument at {site}", names, args, kwargs)
        event = ForwardCalled(
            root=root,
            site=site,
            args=given,
            kwargs=named,
            variables=self._changed_variables(frame),
            rng=rng,
            trains=trains,
            counters=trainers_at_work.counters(),
        )
        self._add(notes, event)

    def loss_called(self, function: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Handle a loss call, by name of its function or module class."""
        notes = self._later if self._job.grouper.between_steps else self._now
        if not self.active:
            return
        for tensor in tensors_in((*args, *kwargs.values())):
            if tensor.requires_grad:
                break
        else:
            return
        full = len(notes.events) >= MAX_EVENTS or self._bytes > self._limit_bytes
        if full and self._is_full(notes):
            return
        site = frames.user_location() or ""
        what, names = f"an argument of {function} at {site}", ("input", "target")
        given, named = self._arguments(what, names, args, kwargs)
        self._add(notes, LossCalled(site=site, function=function, args=given, kwargs=named))

    def backward_began(self) -> None:
        """Handle the start of a backward pass: later events belong to another micro-batch."""
        self._needs_rng = True
        self._copies.batch += 1

    def stepping(self, known: Known, optimizer: Optimizer) -> None:
        """Handle the start of an optimizer step."""
        if not self.active:
            return
        if self.before.notes:
            self.before.stepping()
        rates = []
        for group in optimizer.param_groups:
            rate = group.get("lr")
            if not isinstance(rate, float):
                return
            rates.append(rate)
        self._now.rates[known.name] = tuple(rates)

    def applied(self, *_: Any) -> None:
        """Handle the end of an optimizer step, or its omission by a scaler."""
        if self.active:
            self._sequence = nodes_made()
            self._needs_rng = True

    def close(self, losses_of: LossesOf, closed: ClosedStep) -> None:
        """Handle the end of a step."""
        if not self.active:
            return
        keys: list[int] = []
        for series in closed.series:
            keys += series.losses
        values = losses_of(sorted(keys))
        entry = self._entry(self._now, closed.step, closed.optimizers, values, closed.skipped)
        self._ring.limit_bytes = self._limit_bytes - self.before.bytes_held
        self._ring.push(closed.step, entry, entry.sizes)
        self._now, self._later = self._later, Notes()
        self._bytes = self._now.nbytes
        if not self._begun:
            self.before.new_step()
        self._begun, self.whole = False, True

    def passed_unobserved(self, whole: bool) -> None:
        """Handle unobserved steps; `whole`: the current step is recorded from its start."""
        self.whole = whole
        self._now, self._later, self._bytes, self._begun = Notes(), Notes(), 0, False
        self.before.new_step()
        self.backward_began()
        self.applied()

    # Details

    def _is_elsewhere(self) -> bool:
        return threading.get_ident() != self._thread()

    def _add(self, notes: Notes, event: RecordedEvent) -> None:
        own = self._copies
        copies, tree_bytes = own.take()
        tree_bytes += EVENT_BYTES
        size = tree_bytes
        for copy in copies.values():
            size += copy.nbytes
        notes.events.append(Noted(event, copies, tree_bytes, size))
        notes.nbytes += size
        self._bytes += size
        if own.missing:
            notes.missing |= own.missing
            own.missing = {}
        if self._bytes > self._limit_bytes:
            self._make_room()

    def _is_full(self, notes: Notes) -> bool:
        if len(notes.events) < MAX_EVENTS and self._bytes <= self._limit_bytes:
            return False
        notes.missing["inputs that exceed their memory limit (ring_mb)"] = None
        return True

    def _make_room(self) -> None:
        """Discard the oldest batches that were not used for training, but only inspected."""
        for notes in (self._now, self._later):
            for noted in list(notes.events[:-1]):
                if isinstance(noted.event, BatchHanded) and not noted.used:
                    self._forget(notes, noted)
                    notes.missing["batches on which no model was trained"] = None
                if self._bytes <= self._limit_bytes / 2:
                    return

    def _forget(self, notes: Notes, noted: Noted) -> None:
        notes.events.remove(noted)
        notes.nbytes -= noted.nbytes
        self._bytes -= noted.nbytes

    def _drop_evaluated(self, number: int) -> None:
        """Discard the previous batch of a loader if no model was trained on it."""
        for notes in (self._now, self._later):
            for noted in reversed(notes.events):
                if isinstance(noted.event, BatchHanded) and noted.event.loader == number:
                    if noted.evaluated and not noted.used:
                        for other in (noted, *latest_evaluations(notes)):
                            self._forget(notes, other)
                    break

    def _arguments(
        self, what: str, names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Tree, Tree]:
        """Return the trees of positional arguments, by name or number, and of keyword arguments."""
        most, tree = self._limit_bytes / ARRAY_SHARE, self._copies.tree
        given, named = [], []
        for place, value in enumerate(args):
            name = names[place] if place < len(names) else str(place)
            given.append(tree(value, what, most, name=name))
        for name, value in kwargs.items():
            named.append([name, tree(value, what, most, name=name)])
        return {"tuple": given}, {"dict": named}

    def _changed_variables(self, frame: Any) -> Tree:
        most, found = self._limit_bytes / VARIABLE_SHARE, []
        for name, value in self._variables.of(frame):
            what, own = f"the variable {name}", name.rpartition(".")[2]
            tree = self._copies.tree(value, what, most, MAX_IN_VARIABLE, name=own, later=False)
            found.append([name, tree])
        return {"dict": found} if found else None

    def _are_carried(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Return whether a tensor has a graph that was created before this step."""
        for tensor in tensors_in((*args, *kwargs.values())):
            if (node := tensor.grad_fn) is not None and node._sequence_nr() < self._sequence:
                return True
        return False

    def _entry(
        self,
        notes: Notes,
        step: int,
        optimizers: tuple[str, ...],
        losses: tuple[float, ...],
        skipped: bool = False,
    ) -> Entry:
        copies: dict[str, Copy | Uncopied] = {}
        sizes: dict[str, int] = {}
        events, tree_bytes = [], 0
        for noted in notes.events:
            copies |= noted.copies
            events.append(noted.event)
            tree_bytes += noted.tree_bytes
        for key, copy in copies.items():
            sizes[key] = copy.nbytes
        sizes[f"trees of {step}"] = tree_bytes
        recorded = RecordedStep(
            step=step,
            events=tuple(events),
            optimizers=optimizers,
            losses=losses,
            carried=notes.carried,
            skipped=skipped,
            rates=notes.rates,
            missing=(*self.blind, *self._variables.unread, *notes.missing),
        )
        return Entry(msgspec.msgpack.encode(recorded), copies, sizes)


def _names(module: nn.Module) -> Sequence[str]:
    """Return the names of the positional arguments of a model."""
    kind: type = type(unwrapped(module))
    return argument_names(kind)
