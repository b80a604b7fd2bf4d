"""The seam between a session and the adapters of frameworks.

A session gives an adapter (`tracing.handle.AdapterSpec`) a `Job`, gets a `Handle`, and uses no
other part of the adapter. All adapters of a process take part in one job: one run, one sequence of
steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from mothtrap.core.basic_job import BasicJob
from mothtrap.core.basic_job import Losses as Losses
from mothtrap.core.fact import Fact
from mothtrap.core.facts.workers import Resumed
from mothtrap.core.ledger import LedgerValue
from mothtrap.core.options import Option
from mothtrap.core.snapshot_orders import SnapshotOrder, SnapshotSink
from mothtrap.core.steps import Mode

LedgerValues = dict[str, dict[str, LedgerValue]]
"""Values of a ledger by section and name; see `core.ledger.Ledger`."""


class JobStore(Protocol):
    """Messages between the processes of a job; no method waits for another process."""

    def count(self, what: str) -> int:
        """Count a call for a key, and return the number of earlier calls in this process."""

    def leave(self, key: str, text: str) -> None:
        """Publish a text for all processes."""

    def find(self, key: str) -> str | None:
        """Return a published text; None if it does not exist yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Position of a process in its job.

    Attributes:
        rank: rank of the process; None if the framework assigned none.
        size: number of processes in the job.
        versions: versions of the framework and of the libraries that it is built on, by name.
        store: store of the job; None in a job of one process.
    """

    rank: int | None = None
    size: int = 1
    versions: Mapping[str, str] = field(default_factory=dict)
    store: JobStore | None = None


class Surroundings(Protocol):
    """Settings that affect a framework's numbers, read at the first step.

    Attributes:
        facts: facts for the ledger.
        missing: settings that could not be read, with the reason.
    """

    facts: LedgerValues
    missing: dict[str, str]

    def later(self) -> LedgerValues:
        """Determine slow settings in another thread."""


class SnapshotTaker(Protocol):
    """Takes snapshots, on the training thread.

    Attributes:
        active: whether snapshots are taken in this job.
    """

    active: bool

    def order(self, order: SnapshotOrder) -> bool:
        """Request a snapshot as soon as possible; return False if too many requests are waiting."""

    def connect(self, sink: SnapshotSink) -> None:
        """Start delivering snapshots, beginning with those already taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Arguments of `Watch.step`.

    Attributes:
        loss: loss of the step; a number, a one-element tensor, or None.
        numbers: values by name, which may include non-numbers.
        makes_step: the call itself counts as a step, because nothing else reports steps.
    """

    loss: Any = None
    numbers: Mapping[str, Any] = field(default_factory=dict)
    makes_step: bool = False


Resumption = Callable[[Mapping[str, str], "int | None"], "Resumed | None"]
"""Function that resumes the job from the digests of the loaded weights, by root module."""


Deferral = Callable[[str, Any, Callable[[Any], None]], bool]
"""Function that may defer a value that the user logs."""


class MadeStep(Protocol):
    """A finished step.

    Attributes:
        step: its number.
        optimizers: names of the optimizers that stepped.
    """

    @property
    def step(self) -> int:
        """Return the number of the step."""

    @property
    def optimizers(self) -> tuple[str, ...]:
        """Return the names of the optimizers that stepped."""


class StepObserver(Protocol):
    """Adds data to a step when it closes; see `Job.observe`."""

    def closing(self, closed: MadeStep) -> None:
        """Add data to a step that is finished but not recorded yet."""

    def closed(self, closed: MadeStep) -> None:
        """Begin the next step, after the previous one was recorded."""

    def interrupted(self) -> None:
        """Close a finished step because another framework begins a step."""


class ReportsSettings(Protocol):
    """Reports settings without effect on the terminal and in the run."""

    def no_effect(self, option: Option, why: str) -> None:
        """Report, once, that an option has no effect on some steps.

        Does nothing if the user has not set the option.

        Args:
            option: option without effect on these steps.
            why: the affected steps, or the reason.
        """


class Job(BasicJob, Protocol):
    """A process's job, as one adapter sees it.

    A small adapter needs `BasicJob` only. The methods here are for frameworks that hide their
    loops, compile their steps, or train on top of another framework.
    """

    @property
    def settings(self) -> ReportsSettings:
        """Return the reporter of settings that have no effect."""

    def contain_part(self, part: str, act: Callable[..., None], *args: Any) -> None:
        """Run a part within `contain`, so that an error disables only this part."""

    def number(self, name: str, value: Any) -> None:
        """Add a number given by the user; other values are skipped and reported once."""

    def resume(self, digests: Mapping[str, str], own_steps: int | None = None) -> Resumed | None:
        """Report, before the first step, which state was loaded; step numbers continue from there.

        Args:
            digests: digests of the current weights, by root module.
            own_steps: number of steps stored in the loaded state, if known.

        Returns:
            The step at which the job resumes; None if it starts from scratch or has already
            resumed.
        """

    def observe(self, observer: StepObserver) -> None:
        """Register an observer for the steps of this framework and of frameworks it trains with."""

    @property
    def steps_applied(self) -> int:
        """Return the number of steps applied to the weights, including a step not closed yet."""

    def is_full(self, step: int | None = None) -> bool:
        """Return whether a step is observed in full; in other steps, only cheap data is read.

        Args:
            step: a future step; None = the step in progress.
        """

    def asks(self, kind: str, mode: Mode = Mode.TRAIN) -> bool:
        """Return whether any collection includes tensors of a kind, even if none are due now."""

    def begins_evaluation(self, mode: Mode = Mode.EVAL) -> bool:
        """Begin an evaluation forward, and return whether it is captured.

        Args:
            mode: any mode except training. Afterwards, `wants` refers to the next forward pass,
                which `forward(mode)` ends even if nothing is due in it.
        """

    def forward(self, mode: Mode = Mode.TRAIN) -> AbstractContextManager[None]:
        """Group the tensors of one forward pass that are captured inside the block."""

    def add_row(self, tensor_id: int, fields: dict[str, float]) -> None:
        """Add statistics that the adapter computed itself for a tensor, by name."""

    def defer(self, take: Deferral) -> Callable[[], None]:
        """Pass each value that the user logs to `take`; return a function that stops this."""

    def waiting(self) -> AbstractContextManager[None]:
        """Exclude time that a hook waits for the training from the overhead."""

    def say(self, line: str) -> None:
        """Print one line for the user."""

    def log(self, values: Mapping[str, Any]) -> None:
        """Record the numbers among the values that the script passes to a logger, by name."""

    def ask_mode(self, mode: Mode | None) -> None:
        """Set the mode of the next forward passes unless the user has set it; None resets it."""

    def loss_computed_at(self, location: str | None) -> None:
        """Set the user's line that computes the loss, when a trainer calls backward."""

    @property
    def ended_by(self) -> BaseException | None:
        """Return the exception that ended the script."""

    def never_stepped(self, why: str, fact: Fact | None = None) -> None:
        """Record why no step was taken, and a fact about it, in case no step follows."""

    def after_end(self, fact: Fact) -> None:
        """Add a fact after training has ended, even if no step was taken."""

    def ends_here(self) -> None:
        """Report that the adapter is about to end training with an exception."""


class Handle(Protocol):
    """Handle of an attached adapter.

    Attributes:
        honors: options that take effect in the steps that this adapter counts. Other options that
            the user sets are reported. If an underlying framework counts the steps, its adapter
            applies the options.
        snapshots: snapshot taker; None if the adapter takes no snapshots.
    """

    honors: frozenset[Option]

    @property
    def snapshots(self) -> SnapshotTaker | None:
        """Return the snapshot taker; None if the adapter takes no snapshots."""

    def step(self, given: Given) -> None:
        """Attach the user's values to the latest step, or create a step; never raises."""

    def surroundings(self) -> Surroundings | None:
        """Read the settings that affect the numbers; called when the first step closes."""

    def stop(self, reason: str) -> bool:
        """End the framework's own loop; return False if this is not possible."""

    def detach(self) -> None:
        """Close the last step, remove every hook, and restore everything that was replaced."""

    def abandon(self) -> None:
        """Stop observing in a forked child, without closing anything and without I/O."""
