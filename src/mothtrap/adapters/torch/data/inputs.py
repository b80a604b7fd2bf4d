"""Inputs of models: their distribution, and their NaN and infinite values.

In each step, only the module that is called first is assumed to receive data. Inputs of other
modules may have been computed by a model.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

import msgspec
import torch
from torch import nn

from mothtrap.adapters.torch.comparing_runs.digests import DigestObserver
from mothtrap.adapters.torch.data.drawn_rows import DrawnRowsObserver
from mothtrap.adapters.torch.data.loaders import LoaderObserver
from mothtrap.adapters.torch.data.nonfinite_inputs import spots_in
from mothtrap.adapters.torch.data.overlap import OverlapObserver
from mothtrap.adapters.torch.job.forward_uses import Use
from mothtrap.adapters.torch.job.multiples import Multiples
from mothtrap.adapters.torch.job.naming import class_name, unwrapped
from mothtrap.adapters.torch.job.nested import placed_tensors
from mothtrap.adapters.torch.job.readable import is_countable, is_plain, kind_of_unread
from mothtrap.adapters.torch.job.retained_outputs import Retained
from mothtrap.adapters.torch.job.tensor_refs import UnchangedRef
from mothtrap.core.facts.data import InputDistribution, NonfiniteInput
from mothtrap.core.steps import Mode
from mothtrap.statistics import torch as arithmetic
from mothtrap.statistics.summary import COLUMN, derive
from mothtrap.statistics.torch.in_place import as_array
from mothtrap.tracing.describe import layer_numbers
from mothtrap.tracing.describe.layer_numbers import MAX_FEATURES
from mothtrap.tracing.jobs.identity import ByIdentity, OwnRef
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

TRAIN_FIRST, TRAIN_EVERY, TRAIN_MOST = 4, 50, 64
"""Training forwards whose inputs are summarized: the first few, then one in every N steps."""
EVAL_FIRST, EVAL_MOST = 2, 64
"""Number of summarized forwards in an evaluation, and in all evaluations."""
MAX_ELEMENTS = 1 << 22
"""Maximum number of elements of a tensor that is summarized."""
COLUMN_LOOKS, COLUMN_ROWS = 8, 256
"""Summarized forwards of each mode whose columns are described, and rows of them that are read."""
WINDOWS = 4
"""Minimum number and length of windows of a series, and the number of them that are compared."""
MICRO_BATCHES = 16
"""Maximum number of forwards per step whose inputs are kept."""
MAX_REPORTED = 16
"""Maximum number of non-numeric inputs that are reported."""

Argument = tuple[str, torch.Tensor]
_Call = tuple[weakref.ref[nn.Module], str | None, list[tuple[str, OwnRef[torch.Tensor]]]]
"""A module, the line that called it, and its arguments."""


class _Called:
    """Forwards of one module that user code called, so far."""

    def __init__(self) -> None:
        self.train = self.train_told = self.eval_told = 0
        self.evaluation = -1
        self.in_evaluation = 0
        self.again = Multiples(TRAIN_EVERY)


class InputObserver:
    """Called before the forward pass of a module that user code calls.

    Attributes:
        digests: digests of the inputs of a step.
        loaders: know the origin of a batch.
        overlap: compares training rows with evaluation rows.
        drawn: compares consecutive batches that are not from a loader.
    """

    def __init__(self, job: Job, thread: Callable[[], int]) -> None:
        self._job = job
        self.digests = DigestObserver(job)
        self.loaders = LoaderObserver(job, thread, self.digests)
        self._called: ByIdentity[nn.Module, _Called] = ByIdentity()
        self._latest: list[_Call] = []
        self._step = -1
        self._reported = 0
        self._first: weakref.ref[nn.Module] | None = None
        self.overlap = OverlapObserver(job)
        self.drawn = DrawnRowsObserver(job)

    @property
    def reads_light_steps(self) -> bool:
        """Return whether the inputs of light steps are read, too."""
        return self.overlap.is_busy or self.drawn.is_busy

    def root_called(
        self,
        module: nn.Module,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        trains: bool,
        frame: FrameType | None = None,
        place: str | None = None,
        use: Use | None = None,
    ) -> None:
        """Handle a model call in user code.

        Args:
            module: the called model, or part of one.
            args: positional arguments.
            kwargs: keyword arguments.
            trains: autograd records the forward pass.
            frame: frame of the call; determined if not given.
            place: line of the call in `frame`.
            use: determines later whether the forward pass was an evaluation; None if nothing does.
        """
        inner = unwrapped(module)
        every, arguments = _arguments(inner, args, kwargs)
        if len(arguments) < len(every):
            self._report_unread(inner, every)
        loaders, light = self.loaders, trains and self._job.light
        source = None
        if loaders.latest is not None:
            source = loaders.used(arguments, trains=trains, use=use, model=module)
        if trains and self._job.grouper.step != self._step:
            self._step = self._job.grouper.step
            self._first = weakref.ref(module)
            self._latest.clear()
        first = not trains or self._first is None or self._first() is module
        if loaders.made or not light:
            part = loaders.provenance.called
            self._job.contain_part("samples", part, arguments, trains, first, use)
        if trains and not light:
            self._job.contain_part("digests", self.digests.model_called, module)
        if trains and self.drawn.is_busy:
            forward = inner, arguments, loaders.latest is not None, use, place
            self._job.contain_part("rows of batches", self.drawn.called, *forward)
        if not first:
            return
        if light:
            if self.digests.pending:  # the batch was loaded before the step turned out light
                self.digests.forget_loaded()
        else:
            from_loader = source is not None
            if trains and from_loader:
                self.loaders.full_step()
            countable = [(name, tensor) for name, tensor in every if is_countable(tensor)]
            self._job.contain_part("digests", self.digests.called, countable, from_loader, trains)
        if trains and len(self._latest) < MICRO_BATCHES:
            self._keep(inner, arguments, frame, place)
        if light and not self.overlap.is_busy:
            self.overlap.trained_step = self._job.grouper.step
            return
        called = self._called.get(module)
        if called is None:
            called = self._called[module] = _Called()
        due = not light and self._is_summarized(called, trains)
        facts: list[InputDistribution] = []
        if due:
            told = called.train_told if trains else called.eval_told
            by_column = told <= COLUMN_LOOKS
            facts = self._summaries(
                inner, arguments, trains=trains, place=place, by_column=by_column
            )
        if use is None or not (use.is_expected or facts):
            self._report(facts)
        else:
            given = [(name, UnchangedRef(tensor)) for name, tensor in arguments]
            use.then(functools.partial(self._settled, called, OwnRef(inner), given, facts))
        sparse = [] if arguments else [pair for pair in every if is_countable(pair[1])]
        self.overlap.called(inner, arguments or sparse, source, trains=trains, use=use)

    def _settled(
        self,
        called: _Called,
        module: OwnRef[nn.Module],
        given: Sequence[tuple[str, UnchangedRef]],
        facts: list[InputDistribution],
        evaluated: bool,
    ) -> None:
        """Report the inputs of a forward once its purpose is known.

        Inputs of an evaluation that were not summarized during the forward are summarized now, if
        they still exist.
        """
        if not evaluated:
            self._report(facts)
            return
        inner = module()
        if inner is None or not self._is_summarized(called, trains=False):
            return
        if not facts:
            found = [(name, reference()) for name, reference in given]
            there = [(name, tensor) for name, tensor in found if tensor is not None]
            by_column = called.eval_told <= COLUMN_LOOKS
            facts = self._summaries(inner, there, trains=False, by_column=by_column)
        self._report([msgspec.structs.replace(fact, mode=Mode.EVAL) for fact in facts])

    def _report(self, facts: list[InputDistribution]) -> None:
        for fact in facts:
            self._job.recorder.notes.observe(fact)

    def _report_unread(self, inner: nn.Module, arguments: list[Argument]) -> None:
        """Report that the data of a kind of tensor is not inspected, once per kind.

        A call whose tensors are all on the meta device only computes shapes.
        """
        if all(tensor.is_meta for _, tensor in arguments):
            return
        for name, tensor in arguments:
            kind = kind_of_unread(tensor)
            if kind is not None:
                self._job.recorder.notes.blind(
                    self._job.grouper.step,
                    f"{kind} tensors",
                    f"they are not inspected, such as the input {name} of {class_name(inner)}",
                )

    def nonfinite(self, retained: Iterable[Retained]) -> None:
        """Search the input data for the cause of a non-finite loss or gradient.

        Args:
            retained: outputs of modules and inputs of models in order; tensors that share memory
                with an earlier output are not data.
        """
        if self.loaders.nonfinite():
            return
        made = _made_by_models(retained)
        for called, location, arguments in self._latest:
            inner = called()
            path = self._job.book.module_name(inner) if inner is not None else ""
            for name, reference in arguments:
                tensor = reference()
                if tensor is not None and not tensor.requires_grad and id(tensor) not in made:
                    self._report_nonfinite(path, name, tensor, Mode.TRAIN, location)

    def _keep(
        self,
        inner: nn.Module,
        arguments: list[Argument],
        frame: FrameType | None,
        place: str | None,
    ) -> None:
        kept = []
        for name, tensor in arguments:
            if tensor.is_floating_point():
                kept.append((name, OwnRef(tensor)))
        if kept:
            if frame is None:
                place = frames.user_location()
            self._latest.append((weakref.ref(inner), place, kept))

    def _is_summarized(self, called: _Called, trains: bool) -> bool:
        if trains:
            number, called.train = called.train, called.train + 1
            again = called.again.passed(self._job.grouper.step - 1)
            due = number < TRAIN_FIRST or again
            called.train_told += due
            return due and called.train_told <= TRAIN_MOST
        if called.evaluation != self._job.grouper.step:
            called.evaluation, called.in_evaluation = self._job.grouper.step, 0
        called.in_evaluation += 1
        due = called.in_evaluation <= EVAL_FIRST
        called.eval_told += due
        return due and called.eval_told <= EVAL_MOST

    def _summaries(
        self,
        inner: nn.Module,
        arguments: list[Argument],
        *,
        trains: bool,
        place: str | None = None,
        by_column: bool = False,
    ) -> list[InputDistribution]:
        """Return the distribution of each argument, and report those that are not finite."""
        mode = Mode.TRAIN if trains else Mode.EVAL
        chosen = [
            (name, tensor)
            for name, tensor in arguments
            if tensor.is_floating_point() and tensor.ndim and 0 < tensor.numel() <= MAX_ELEMENTS
        ]
        if not chosen:
            return []
        path = self._job.book.module_name(inner)
        location = place or frames.user_location()
        rows_TF = arithmetic.summarize([t for _, t in chosen], ("nan", "inf", "mean", "std"))
        std_T, facts = derive(rows_TF, "std"), []
        for (name, tensor), row_F, std in zip(chosen, rows_TF, std_T.tolist(), strict=True):
            if row_F[COLUMN["nan"]] or row_F[COLUMN["inf"]]:
                self._report_nonfinite(path, name, tensor, mode, location)
                continue
            facts.append(
                InputDistribution(
                    step=self._job.grouper.step,
                    mode=mode,
                    module=path,
                    argument=name,
                    rows=tensor.shape[0],
                    mean=float(row_F[COLUMN["mean"]]),
                    std=std,
                    windows=not trains and _are_windows(tensor),
                    location=location,
                    **(_columns(tensor) if by_column else {}),
                )
            )
        return facts

    def _report_nonfinite(
        self, path: str, name: str, tensor: torch.Tensor, mode: Mode, location: str | None
    ) -> None:
        batch = self.loaders.latest
        if self._reported >= MAX_REPORTED or (batch is not None and batch.told):
            return
        spots = spots_in(tensor)
        if spots is None:
            return
        self._reported += 1
        size = tensor.shape[0] if tensor.ndim else 1
        self._job.recorder.notes.observe(
            NonfiniteInput(
                step=self._job.grouper.step,
                mode=mode,
                tensor=name,
                source=path,
                from_loader=False,
                nan=spots.nan,
                inf=spots.inf,
                rows=spots.rows,
                row_count=spots.row_count,
                samples=batch.samples(spots.rows, size) if batch is not None else (),
                computed=self.loaders.provenance.gave_finite(tensor.numel()),
                location=location,
            )
        )


def _columns(tensor: torch.Tensor) -> dict[str, Any]:
    """Return the fields of `InputDistribution` about the columns of a table."""
    if not 2 <= tensor.ndim <= 3 or tensor.shape[-1] > MAX_FEATURES:
        return {}
    every = -(-tensor.shape[0] // COLUMN_ROWS)
    sample = tensor.detach()[::every].to("cpu", torch.float64)
    return layer_numbers.input_columns(as_array(sample))


def _are_windows(tensor: torch.Tensor) -> bool:
    """Return whether the first rows are windows of a series, each one entry after the other."""
    if tensor.ndim < 2 or tensor.shape[0] < WINDOWS or tensor.shape[1] < WINDOWS:
        return False
    rows = tensor.detach()[:WINDOWS]
    later, changes = torch.equal(rows[:-1, 1:], rows[1:, :-1]), rows[0, 1:] != rows[0, :-1]
    return later and bool(changes.any())


def _arguments(
    inner: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Argument], list[Argument]]:
    """Return every plain tensor passed to a module, by argument name."""
    kind: type = type(inner)
    names = argument_names(kind)
    found: list[Argument] = []
    plain: list[Argument] = []
    # Private API, covered by a test: tensors inside a transformed function have no values.
    here = torch._C._functorch.peek_interpreter_stack() is None
    given = [*zip(names, args, strict=False)]
    for place in range(len(names), len(args)):
        given.append((str(place), args[place]))
    for name, value in (*given, *kwargs.items()):
        if here and type(value) is torch.Tensor and value.is_cpu and value.layout is torch.strided:
            found.append((name, value))
            if not (value.is_nested or value.is_quantized):
                plain.append((name, value))
        else:
            more = placed_tensors(value, name)
            found += more
            plain += [argument for argument in more if is_plain(argument[1])]
    return found, plain


def _made_by_models(retained: Iterable[Retained]) -> set[int]:
    """Return the identities of model inputs that are outputs of modules."""
    memory: set[int] = set()
    made: set[int] = set()
    for module, tensor in retained:
        if tensor is None or not is_plain(tensor):
            continue
        place = tensor.untyped_storage().data_ptr()
        if module is not None:
            memory.add(place)
        elif place in memory:
            made.add(id(tensor))
    return made


@functools.lru_cache(maxsize=256)
def argument_names(kind: type) -> tuple[str, ...]:
    """Return the names of the positional arguments of a module's forward."""
    forward = inspect.getattr_static(kind, "forward", None)
    if not inspect.isfunction(forward):  # the signature of a scripted module is created on access
        return ()
    found = inspect.signature(forward).parameters.values()
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(p.name for p in found if p.kind in places)[1:]
