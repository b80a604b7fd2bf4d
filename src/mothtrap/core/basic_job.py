"""The part of a job that every adapter needs; `core.adapters.Job` has the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from mothtrap.core.config import Config
from mothtrap.core.fact import Fact
from mothtrap.core.reports import Reports
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.tensors import TensorInfo

T = TypeVar("T")


class Losses(msgspec.Struct, frozen=True, kw_only=True):
    """The loss of one series in a step.

    `location` is the line that computes it; `optimizer` minimizes it, "" = that of the step.
    """

    series: str
    value: float
    location: str | None = None
    optimizer: str = ""


class BasicJob(Protocol):
    """The job of a process: the part that every adapter needs.

    What is called here belongs to the training thread, but for `scalar`, `fact`, `cannot` and
    `blind`, which any thread may call. Nothing here raises into the training when it is called
    inside `contain`.

    Attributes:
        config: what the user has set.
        live: False once the process forked, ended, or this adapter failed as a whole; hooks
            return at once then.
    """

    config: Config
    live: bool

    @property
    def now(self) -> StepKey:
        """The train step in progress: `now.step` steps are over."""

    def contain(self, act: Callable[..., T], *args: Any) -> T | None:
        """Run a hook: timed as overhead; an error ends this adapter's work, not the training."""

    def contain_part(self, part: str, act: Callable[..., None], *args: Any) -> None:
        """Run what can fail alone, within `contain`; an error switches off that part only."""

    def step(
        self,
        losses: Sequence[Losses] = (),
        *,
        count: int = 1,
        skipped: bool = False,
        optimizer: str = "",
    ) -> range:
        """Close the step in progress; what was taken and reported since the last one is its.

        Args:
            losses: of the last of them.
            count: steps that one call of the framework stands for.
            skipped: nothing was applied.
            optimizer: name of what makes the step; default: the framework's.

        Returns:
            The numbers of the steps; empty where the framework that this one refines counts
            the step, or another step goes on, of which this one is a part.
        """

    def evaluation(
        self,
        name: str,
        values: Mapping[str, float],
        *,
        loss: str | None = None,
        higher_is_better: frozenset[str] = frozenset(),
        rows: int | None = None,
        guess: float | None = None,
        label_counts: tuple[int, ...] | None = None,
        location: str | None = None,
    ) -> None:
        """Report the metrics of one evaluation between two steps.

        Args:
            name: of the data evaluated.
            values: by metric.
            loss: the metric that is compared with the losses of training, if one is.
            higher_is_better: metrics that grow as the model becomes better.
            rows: of the data, where known.
            guess: least loss of a prediction that is the same for every row, where known.
            label_counts: rows of each class 0, 1 ..., where known.
            location: the line that evaluates, where known.
        """

    def wants(
        self, kind: str, mode: Mode = Mode.TRAIN, *, ids: Sequence[int] | None = None
    ) -> frozenset[str]:
        """Return the statistics due in this step: of a kind, or of any of some of its tensors."""

    def take(
        self,
        kind: str,
        ids: Sequence[int],
        arrays: Sequence[Any],
        *,
        mode: Mode | None = None,
        by: Any = None,
    ) -> None:
        """Reduce or copy tensors of one kind as is due.

        Args:
            kind: of all of them.
            ids: their numbers.
            arrays: their values; read now, and not held.
            mode: None = train, or what the forward turns out to be.
            by: a module of `mothtrap.statistics`; None = the adapter's own (`arrays`).
        """

    def define(self, info: TensorInfo) -> int:
        """Make a tensor known; return its number."""

    def scalar(self, name: str, of: str, value: float) -> None:
        """Add a number of the step in progress; `of` says whose, '' = the step's own."""

    def number(self, name: str, value: Any) -> None:
        """Add a number that the user gives; what is not one is left out and reported once."""

    def fact(self, fact: Fact) -> None:
        """Add a fact to the step in progress."""

    def cannot(self, why: str, lacking: Reports) -> None:
        """Say what of the adapter's `reports` cannot come in this job.

        Args:
            why: completes "not applicable: ...", e.g. `no evals were passed to train()`.
            lacking: what does not come; a mode says that nothing of it does.
        """

    def stood_ready(self, facts: tuple[type[Fact], ...]) -> None:
        """Say that facts would have been reported in the step in progress, had there been any.

        Args:
            facts: the same tuple at each step.
        """

    def blind(self, what: str, why: str) -> None:
        """Say, once, what is not observed, and why."""
