"""The training script under test, as checks see it: its datasets, batches, and one step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy.typing as npt

from mothtrap.checks.starts import LoopsSeen
from mothtrap.checks.step import Forward, Step
from mothtrap.core.asked_samples import Asked
from mothtrap.core.contracts import Entry
from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.checks import LayerRow

if TYPE_CHECKING:
    from mothtrap.checks.part_seen import PartSeen
    from mothtrap.checks.resumed import Resumed
    from mothtrap.checks.starts import Starts

Array = npt.NDArray[Any]
Source = Literal["step", "trials", "datasets"]
"""Parts of a subject that may be missing: one recorded step as a function, the script's own
loop repeated from that step, and its datasets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Samples of a dataset.

    Attributes:
        indices: Indices of the samples, in the requested order. Samples that could not be read are
            left out of all attributes.
        inputs: one array per input, with one row per sample. An array has the dtype `object`
            if the samples differ in shape.
        targets: one row per sample; None for a dataset without targets.
    """

    indices: tuple[int, ...]
    inputs: tuple[Array, ...]
    targets: Array | None


class DataSet(Protocol):
    """A dataset that a loader of the script read in the watched steps.

    Attributes:
        name: the variable or class, for messages.
        role: Purpose of the forward calls that use its batches.
        size: number of samples; None for a stream, because only its watched batches are known.
        location: `file:line` of the loop over its loader.
        random: reading one sample twice gives different values (augmentation).
        shuffled: its loader draws samples in random order.
        base: number of the dataset that contains the samples; parts of a dataset have the same
            number.
        places: index of each sample in that dataset; None = the same index.
        classes: names of the classes, by their number; empty if they have no names.
    """

    name: str
    role: Literal["train", "evaluation"]
    size: int | None
    location: str | None
    random: bool
    shuffled: bool
    base: int
    places: Sequence[int] | None
    classes: Sequence[str]

    @property
    def handed(self) -> Sequence[Rows]:
        """Rows of each watched batch, as returned by the loader; empty if unknown."""

    @property
    def origin(self) -> DataSet | None:
        """The rows of `handed`, each with its own target; None = the rows of this dataset."""

    @property
    def stored(self) -> DataSet | None:
        """Inputs as they are stored, before reading a row changes them; None if not known."""

    def read(self, indices: Sequence[int], deadline: float) -> Rows:
        """Read samples by index, and return the samples read before `deadline` (monotonic seconds).

        A stream returns the samples of the watched batches, whatever `indices` asks for.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Data and functions that a check may use.

    A check runs in a copy of the script's process, with one thread. It may change objects of the
    copy; the script is not affected.

    Attributes:
        recorded: the recorded step; `step` is the same, and never None.
        datasets: Datasets that the script's loaders read.
        task: `classes` for integer targets of a classification loss, `numbers` for regression.
        missing: Why a source is not available, by source.
        deadline: Monotonic time in seconds at which the check must end.
        part: Result of running the checked part of the script; None if no part was selected.
        resume: Runs the script until its checkpoint, and resumes it; None if the command is
            unknown.
        starts: Starts the script again up to the same step, and returns both records; None if that
            is not possible.
        loops: Number of steps that the loops of the script take.
        sources: Datasets used for training, as rows of the table of layers.
        asks: Number of samples for a person to predict; 0 = none.
        figures: Numbers that a check adds to its result; stored in the run as scalars.
    """

    recorded: Step | None = None
    datasets: Sequence[DataSet] = ()
    task: Literal["classes", "numbers", ""] = ""
    missing: Mapping[Source, str] = field(default_factory=dict)
    deadline: float = float("inf")
    part: PartSeen | None = None
    resume: Callable[[], Resumed] | None = None
    starts: Callable[[], Starts] | None = None
    loops: LoopsSeen = field(default_factory=LoopsSeen)
    sources: Sequence[LayerRow] = ()
    asks: int = 0
    figures: dict[str, float] = field(default_factory=dict)
    layers: list[LayerRow] = field(default_factory=list)
    learned: list[Entry] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)

    @property
    def left_s(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - time.monotonic()

    @property
    def step(self) -> Step:
        """The recorded step.

        Raises:
            NotApplicable: there is none.
        """
        if self.recorded is None:
            raise NotApplicable("no training step was recorded")
        return self.recorded

    @property
    def forward(self) -> Forward:
        """The call to the model in the recorded step.

        Raises:
            NotApplicable: the step does not call exactly one model.
        """
        if self.step.forward is None:
            raise NotApplicable("the step does not call exactly one model")
        return self.step.forward

    def of(self, role: Literal["train", "evaluation"]) -> tuple[DataSet, ...]:
        """Return the datasets with a given role."""
        return tuple(one for one in self.datasets if one.role == role)
