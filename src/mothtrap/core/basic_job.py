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
    """Loss of one series in a step.

    Attributes:
        location: line that computes it.
        optimizer: optimizer that minimizes it; "" = the optimizer of the step.
    """

    series: str
    value: float
    location: str | None = None
    optimizer: str = ""


class BasicJob(Protocol):
    """The part of a process's job that every adapter needs.

    Call these methods on the training thread, except `scalar`, `fact`, `cannot` and `blind`, which
    any thread may call. Inside `contain`, no method raises an error in the training code.

    Attributes:
        config: what the user has set.
        live: False once the process has forked or ended, or this adapter has failed as a whole;
            hooks then return immediately.
    """

    config: Config
    live: bool

    @property
    def now(self) -> StepKey:
        """The train step in progress: `now.step` steps are finished."""

    def contain(self, act: Callable[..., T], *args: Any) -> T | None:
        """Run a hook: its time counts as overhead, and an error disables only this adapter."""

    def step(
        self,
        losses: Sequence[Losses] = (),
        *,
        count: int = 1,
        skipped: bool = False,
        optimizer: str = "",
    ) -> range:
        """Close the step in progress, with everything captured and reported since the last step.

        Args:
            losses: losses of the last of these steps.
            count: number of steps that one call of the framework makes.
            skipped: no update was applied.
            optimizer: name of the optimizer; by default the framework's name.

        Returns:
            The numbers of the steps; empty if an underlying framework counts the step, or if the
            step is part of another step in progress.
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
        moments: tuple[float | None, float | None] = (None, None),
        location: str | None = None,
    ) -> None:
        """Report the metrics of one evaluation between two steps.

        Args:
            name: name of the evaluated data.
            values: values by metric.
            loss: the metric to compare with training losses, if any.
            higher_is_better: metrics for which a greater value is better.
            rows: number of rows, if known.
            guess: lowest loss of a constant prediction, if known.
            label_counts: number of rows of each class 0, 1 ..., if known.
            moments: mean and standard deviation of the targets of a squared error, if known.
            location: line that evaluates, if known.
        """

    def wants(
        self, kind: str, mode: Mode = Mode.TRAIN, *, ids: Sequence[int] | None = None
    ) -> frozenset[str]:
        """Return the statistics due in this step for a kind, or for some of its tensors."""

    def take(
        self, kind: str, ids: Sequence[int], arrays: Sequence[Any], *, mode: Mode | None = None
    ) -> None:
        """Reduce or copy the tensors of one kind that are due.

        Args:
            kind: kind of all tensors.
            ids: ids of the tensors.
            arrays: values of the tensors; read immediately, without keeping a reference.
            mode: mode of the tensors; None = train, or the mode of the forward pass once it is
                known.
        """

    def define(self, info: TensorInfo) -> int:
        """Define a tensor; return its id."""

    def scalar(self, name: str, of: str, value: float) -> None:
        """Add a number to the step in progress; `of` names its owner, '' = the step itself."""

    def fact(self, fact: Fact) -> None:
        """Add a fact to the step in progress."""

    def cannot(self, why: str, lacking: Reports) -> None:
        """Report which of the adapter's declared `reports` are unavailable in this job.

        Args:
            why: completes "not applicable: ...", e.g. `no evals were passed to train()`.
            lacking: the missing reports; a mode means all reports of that mode.
        """

    def stood_ready(self, facts: tuple[type[Fact], ...]) -> None:
        """Declare facts that would be reported if they occurred; pass the same tuple each step."""

    def blind(self, what: str, why: str) -> None:
        """Report once that something is not observed, with the reason."""
