"""The seam between a session and the adapters of frameworks.

An adapter is a module of `mothtrap.adapters`, or of an entry point of that name, called as the
framework's import is. A session gives it a `Job`, gets a `Handle`, and knows nothing else of it.
All adapters of a process take part in one job: one run, one sequence of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from mothtrap.core.config import Config
from mothtrap.core.fact import Fact
from mothtrap.core.facts.workers import Resumed
from mothtrap.core.ledger import LedgerValue
from mothtrap.core.options import Option
from mothtrap.core.replays import ReplayPlan
from mothtrap.core.reports import Reports
from mothtrap.core.snapshot_orders import SnapshotOrder, SnapshotSink
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.tensors import TensorInfo

T = TypeVar("T")
LedgerValues = dict[str, dict[str, LedgerValue]]
"""Values of a ledger by section and name; see `core.ledger.Ledger`."""


class Losses(msgspec.Struct, frozen=True, kw_only=True):
    """The loss of one series in a step.

    `location` is the line that computes it; `optimizer` minimizes it, "" = that of the step.
    """

    series: str
    value: float
    location: str | None = None
    optimizer: str = ""


class JobStore(Protocol):
    """Messages between the processes of a job; no method waits for another process."""

    def count(self, what: str) -> int:
        """Return how often this process has counted something before; counts it."""

    def leave(self, key: str, text: str) -> None:
        """Leave a text for all processes."""

    def find(self, key: str) -> str | None:
        """Return what was left; None while nothing was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The place of a process in its job.

    Attributes:
        rank: None where the framework has given it none.
        size: processes of the job.
        versions: of the framework and of what it is built on, by name.
        store: of the job; None in a job of one process.
    """

    rank: int | None = None
    size: int = 1
    versions: Mapping[str, str] = field(default_factory=dict)
    store: JobStore | None = None


class Surroundings(Protocol):
    """Settings that a framework's numbers depend on, read at the first step.

    Attributes:
        facts: for the ledger.
        missing: what could not be read, and why.
    """

    facts: LedgerValues
    missing: dict[str, str]

    def later(self) -> LedgerValues:
        """Find out what takes longer, in another thread."""


class SnapshotTaker(Protocol):
    """Takes snapshots, on the training thread.

    Attributes:
        active: whether it takes any in this job.
    """

    active: bool

    def order(self, order: SnapshotOrder) -> bool:
        """Have one taken as soon as that can be done; False where too many wait already."""

    def connect(self, sink: SnapshotSink) -> None:
        """Hand snapshots on from here on; those taken before are handed on at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Arguments of `Watch.step`.

    Attributes:
        loss: of the step; a number, a one-element tensor, or None.
        numbers: by name; may hold what is not a number.
        makes_step: nothing else makes steps, so the call itself is one.
    """

    loss: Any = None
    numbers: Mapping[str, Any] = field(default_factory=dict)
    makes_step: bool = False


Resumption = Callable[[Mapping[str, str], "int | None"], "Resumed | None"]
"""Takes the digests of the weights by root and the steps that the one optimizer says to have
made; returns where the job goes on, None where it begins."""


class ReportsSettings(Protocol):
    """Reports settings that have no effect, on the terminal and in the run."""

    def no_effect(self, option: Option, why: str) -> None:
        """Report, once, that an option has no effect on some steps.

        Does nothing where the user has not asked for the option.

        Args:
            option: has no effect on these steps.
            why: names the steps, or the reason.
        """


class Job(Protocol):
    """The job of a process, as one adapter sees it.

    What is called here belongs to the training thread, but for `scalar`, `fact`, `cannot` and
    `blind`, which any thread may call. Nothing here raises into the training when it is called
    inside `contain`.

    Attributes:
        config: what the user has set.
        live: False once the process forked, ended, or this adapter failed as a whole; hooks
            return at once then.
        settings: reports those that have no effect on some steps.
    """

    config: Config
    live: bool

    @property
    def settings(self) -> ReportsSettings:
        """Return the reporter of settings that have no effect."""

    @property
    def now(self) -> StepKey:
        """The train step in progress: `now.step` steps are over."""

    def contain(self, act: Callable[..., T], *args: Any) -> T | None:
        """Run a hook: timed as overhead; an error ends this adapter's work, not the training."""

    def contain_part(self, part: str, act: Callable[..., None], *args: Any) -> None:
        """Run what can fail alone, within `contain`; an error switches off that part only."""

    def resume(self, digests: Mapping[str, str], own_steps: int | None = None) -> Resumed | None:
        """Say, before the first step, what was loaded; steps go on from where that was saved.

        Args:
            digests: of the weights as they are now, by root.
            own_steps: steps that the loaded state says to have made, where it says so.

        Returns:
            Where the job goes on; None where it begins, or has gone on already.
        """

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
            by: a module of `mothtrap.statistics`; None = the adapter's own (`ARRAYS`).
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
        """Say what of the adapter's `REPORTS` cannot come in this job.

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


class Handle(Protocol):
    """One adapter at work.

    Attributes:
        honors: options on which it acts in the steps that it counts. What a user asks for
            beyond them is reported. Where its base counts the steps (`STEPS`) that one acts.
        snapshots: takes them; None where the adapter takes none.
    """

    honors: frozenset[Option]

    @property
    def snapshots(self) -> SnapshotTaker | None:
        """Return the snapshot taker; None where the adapter takes no snapshots."""

    def step(self, given: Given) -> None:
        """Attach what the user passes to the step just made, or make one; never raises."""

    def surroundings(self) -> Surroundings | None:
        """Read what the numbers depend on; called when the first step closes."""

    def stop(self, reason: str) -> bool:
        """End the framework's own loop; False where it has none that can be ended."""

    def detach(self) -> None:
        """Close the last step, remove every hook, restore everything that was replaced."""

    def abandon(self) -> None:
        """See nothing from here on, in a forked child: no closing, no input or output."""


class Adapter(Protocol):
    """A module of `mothtrap.adapters`, named as the framework's import."""

    FRAMEWORK: str
    """The module's own name."""
    REQUIRES: str
    """The distribution and the versions that it works with, as a requirement: `torch>=2.6`."""
    ARRAYS: str
    """The module of `mothtrap.statistics` that reduces the framework's arrays."""
    REPORTS: Reports
    STEPS: Literal["own", "base", "none"]
    """Who counts where this adapter refines another: `own`, it does; `base`, the other does.
    `none`: nothing trains in it; it is a logger, say."""

    def refines(self) -> str | None:
        """Return the framework on which this one trains, whose adapter sees the rest."""

    def accepts(self, target: object) -> bool:
        """Return whether `attach` can watch an object."""

    def attach(self, job: Job, targets: Sequence[object]) -> Handle:
        """Watch some objects: a model, then its optimizers; touches nothing else.

        Raises:
            TypeError: one of the optimizers is not one.
        """

    def attach_process(self, job: Job) -> Handle:
        """Watch every training of this process; called at the end of the framework's import."""

    def attach_replay(self, plan: ReplayPlan) -> None:
        """Replay a recorded step in this process; called in the place of `attach_process`."""

    def environment(self) -> Environment:
        """Return the place of this process in its job; asked again at the first step."""
