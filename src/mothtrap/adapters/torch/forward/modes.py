"""The mode in which modules are trained, and the batch sizes of their batch norms."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from mothtrap.adapters.torch.job.dropouts import is_dropout, share_dropped
from mothtrap.adapters.torch.job.naming import class_name
from mothtrap.adapters.torch.job.own_modes import updates_buffers
from mothtrap.capture.grouper import ClosedStep
from mothtrap.core.facts.evaluations import DropoutRate, TrainingMode
from mothtrap.tracing.describe.norm_samples import NormSamples
from mothtrap.tracing.jobs.identity import ByIdentity
from mothtrap.tracing.source.mentions import only_call

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.forward_uses import Use
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.job.naming import NameBook
    from mothtrap.adapters.torch.job.retained_outputs import RetainedOutputs

MAX_PATHS = 8
LASTING_STEPS = 10
"""Number of consecutive steps of a module in a new mode after which the change is reported."""
SAMPLES_FIRST, SAMPLES_EVERY = 32, 50
"""Training forwards whose batch norms are inspected: the first ones, then one in N."""

Paths = tuple[str, ...]


def is_batch_norm(module: nn.Module) -> bool:
    """Return whether a module normalizes by its batch in training, but not in evaluation."""
    return isinstance(module, _BatchNorm) and module.running_mean is not None


def active_in_training(module: nn.Module, book: NameBook) -> tuple[Paths, Paths, Paths]:
    """Return the parts of a module that are in training mode.

    Returns:
        The paths of dropouts, of batch norms, and of other parts that then update buffers.
    """
    parts = [part for part in module.modules() if part.training]
    return (
        tuple(book.module_name(part) for part in parts if is_dropout(part)),
        tuple(book.module_name(part) for part in parts if is_batch_norm(part)),
        tuple(book.module_name(part) for part in parts if updates_buffers(part)),
    )


@dataclass(slots=True)
class _Mode:
    """The reported mode of a module, and a later mode that is too short to be reported."""

    told: bool | None = None
    since: int = 0
    steps: int = 0


@dataclass(slots=True)
class _Samples:
    """Forwards of a called module, and the batch norm that received the fewest samples."""

    forwards: int = 0
    seen: NormSamples = field(default_factory=NormSamples)
    module: weakref.ref[nn.Module] | None = None


@dataclass(slots=True)
class _Ran:
    """A module that ran in the step in progress; `use` is its latest use in evaluation mode."""

    module: weakref.ref[nn.Module]
    trains: bool
    sleeping: Paths
    mode: _Mode
    samples: _Samples
    use: Use | None = None

    @property
    def is_evaluation(self) -> bool:
        """The module only ran in an evaluation: no backward pass went through it."""
        return not self.trains and self.use is not None and not self.use.is_reached


class ModeObserver:
    """Records the training mode of every module that user code calls."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._ran: dict[int, _Ran] = {}
        self._known: ByIdentity[nn.Module, tuple[_Mode, _Samples]] = ByIdentity()

    def trained(self, module: nn.Module, retained: RetainedOutputs, use: Use | None = None) -> None:
        """Handle a forward pass that returned values with a graph.

        Args:
            module: module that the user called, with parameters in an optimizer.
            retained: outputs of the modules in it.
            use: tells whether a backward pass goes through the outputs; None if it is unknown.
        """
        number, trains = id(module), module.training
        known = self._known.get(module)
        if known is None:
            known = self._known[module] = _Mode(), _Samples()
        mode, samples = known
        ran = self._ran.get(number)
        # An evaluation without no_grad looks like this, too, so the training mode decides.
        if ran is None or (trains and not ran.trains):
            # Read now, because the script may set the model to evaluation before the step is over.
            sleeping = self._sleeping(module) if mode.told != trains else ()
            self._ran[number] = _Ran(weakref.ref(module), trains, sleeping, mode, samples, use)
        elif not ran.trains:
            ran.use = use
        samples.forwards += 1
        first = samples.forwards <= SAMPLES_FIRST
        if first or (samples.seen.looked_at and samples.forwards % SAMPLES_EVERY == 0):
            self._look(samples, retained)

    def close(self, closed: ClosedStep) -> None:
        """Report changes at the end of a step."""
        ran, self._ran = self._ran, {}
        if closed.skipped:
            return
        for one in ran.values():
            if one.trains == one.mode.told:
                one.mode.steps = 0
            elif (module := one.module()) is not None and not one.is_evaluation:
                self._judge(module, one.mode, one.trains, closed.step, one.sleeping)
            if one.samples.seen.is_due:
                self._report_samples(one.samples, closed.step)

    def _sleeping(self, module: nn.Module) -> Paths:
        parts = [part for part in module.modules() if not part.training]
        asleep = [*filter(is_dropout, parts), *filter(is_batch_norm, parts)]
        return tuple(self._job.book.module_name(part) for part in asleep[:MAX_PATHS])

    def _judge(
        self, module: nn.Module, mode: _Mode, trains: bool, step: int, sleeping: Paths
    ) -> None:
        if not mode.steps:
            mode.since = step
        mode.steps += 1
        # A part that is first called later, in evaluation mode, may only be called in evaluations.
        is_first = mode.told is None and (trains or not step)
        if is_first or mode.steps >= LASTING_STEPS:
            mode.told, mode.steps = trains, 0
            self._report_mode(module, trains, mode.since, sleeping)

    def _report_mode(self, module: nn.Module, trains: bool, step: int, sleeping: Paths) -> None:
        book = self._job.book
        parts = list(module.modules())
        dropouts = [part for part in parts if is_dropout(part)]
        norms = [part for part in parts if is_batch_norm(part)]
        named = [
            tuple(book.module_name(part) for part in group[:MAX_PATHS])
            for group in (dropouts, norms)
        ]
        self._job.recorder.notes.observe(
            TrainingMode(
                step=step,
                module=book.module_name(module),
                module_type=class_name(module),
                trains=trains,
                dropouts=named[0],
                rates=tuple(
                    DropoutRate(name=name, rate=share_dropped(part), location=book.location(part))
                    for name, part in zip(named[0], dropouts, strict=False)
                    if share_dropped(part)
                ),
                norms=named[1],
                sleeping=sleeping,
                location=(None if trains else only_call("eval")) or book.location(module),
            )
        )

    def _look(self, samples: _Samples, retained: RetainedOutputs) -> None:
        """Record batch sizes of batch norms; their outputs have the shapes of their inputs."""
        sizes: list[tuple[int, nn.Module]] = [
            (int(output.shape[0]), module)
            for module, output in retained
            if module is not None
            and isinstance(output, torch.Tensor)
            and output.ndim > 1
            and module.training
            and is_batch_norm(module)
            and not isinstance(module, nn.SyncBatchNorm)
        ]
        if not sizes:
            return
        size, module = min(sizes, key=lambda pair: pair[0])
        if samples.seen.add(size):
            samples.module = weakref.ref(module)

    def _report_samples(self, samples: _Samples, step: int) -> None:
        """Report the inspected modules."""
        module = samples.module() if samples.module is not None else None
        if module is None:
            return
        book = self._job.book
        fact = samples.seen.fact(step, book.module_name(module), book.location(module))
        self._job.recorder.notes.observe(fact)
