"""The seam between a session and the adapters of frameworks.

A session gives an adapter (`tracing.handle.AdapterSpec`) a `Job`, gets a `Handle`, and knows
nothing else of it. All adapters of a process take part in one job: one run, one sequence of steps.
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


Deferral = Callable[[str, Any, Callable[[Any], None]], bool]
"""Takes name, value and taker of what a user logs; returns True if it gives the value to the
taker itself, later, when the program that computes it has run."""


class MadeStep(Protocol):
    """A step that is over.

    Attributes:
        step: its number.
        optimizers: names of those that stepped.
    """

    @property
    def step(self) -> int:
        """Return the number of the step."""

    @property
    def optimizers(self) -> tuple[str, ...]:
        """Return the names of the optimizers that stepped."""


class StepObserver(Protocol):
    """Adds what is known of a step when it closes; see `Job.observe`."""

    def closing(self, closed: MadeStep) -> None:
        """Add to a step that is over and not recorded yet."""

    def closed(self, closed: MadeStep) -> None:
        """Begin the next step: that one is recorded."""

    def interrupted(self) -> None:
        """Close a step that is over and waits for the next event: another framework steps."""


class ReportsSettings(Protocol):
    """Reports settings that have no effect, on the terminal and in the run."""

    def no_effect(self, option: Option, why: str) -> None:
        """Report, once, that an option has no effect on some steps.

        Does nothing where the user has not asked for the option.

        Args:
            option: has no effect on these steps.
            why: names the steps, or the reason.
        """


class Job(BasicJob, Protocol):
    """The job of a process, as one adapter sees it.

    A small adapter needs `BasicJob` only. The methods here are for frameworks that hide their
    loops, compile their steps, or train on top of another framework.
    """

    @property
    def settings(self) -> ReportsSettings:
        """Return the reporter of settings that have no effect."""

    def resume(self, digests: Mapping[str, str], own_steps: int | None = None) -> Resumed | None:
        """Say, before the first step, what was loaded; steps go on from where that was saved.

        Args:
            digests: of the weights as they are now, by root.
            own_steps: steps that the loaded state says to have made, where it says so.

        Returns:
            Where the job goes on; None where it begins, or has gone on already.
        """

    def observe(self, observer: StepObserver) -> None:
        """Let an observer add to the steps of this framework and of those it trains with."""

    @property
    def steps_applied(self) -> int:
        """Return how many steps the weights have taken, with one that is not closed yet."""

    def is_full(self, step: int | None = None) -> bool:
        """Return whether a step is observed in full; in others, only what is cheap is read.

        Args:
            step: one to come; None = the step in progress.
        """

    def asks(self, kind: str, mode: Mode = Mode.TRAIN) -> bool:
        """Return whether a collection holds tensors of a kind, be they due now or not."""

    def begins_evaluation(self, mode: Mode = Mode.EVAL) -> bool:
        """Return whether forwards of a mode are captured, and find out what is due in the next one.

        Args:
            mode: other than training. `wants` of this mode answers for the next forward, which
                ends with `forward(mode)`, also where nothing is due in it.
        """

    def forward(self, mode: Mode = Mode.TRAIN) -> AbstractContextManager[None]:
        """Hold together the tensors of one forward, which are taken inside."""

    def add_row(self, tensor_id: int, fields: dict[str, float]) -> None:
        """Add statistics of a tensor, by name, that the adapter has computed itself."""

    def defer(self, take: Deferral) -> Callable[[], None]:
        """Ask `take` about each value that the user logs; return what ends that."""

    def waiting(self) -> AbstractContextManager[None]:
        """Wait inside a hook for the training; that time does not count as overhead."""

    def say(self, line: str) -> None:
        """Print one line for the user."""

    def log(self, values: Mapping[str, Any]) -> None:
        """Take the numbers among the values that the script gives to a logger, by name."""

    def ask_mode(self, mode: Mode | None) -> None:
        """Set the mode of the next forwards; None ends that. A mode set by the user stays."""

    def loss_computed_at(self, location: str | None) -> None:
        """Set the user's line that computes the loss, where a trainer calls the backward."""

    @property
    def ended_by(self) -> BaseException | None:
        """Return the exception that ended the script."""

    def never_stepped(self, why: str) -> None:
        """Say why no step was made, in case that none will be."""

    def after_end(self, fact: Fact) -> None:
        """Add a fact once the training is over, also where no step was made."""

    def ends_here(self) -> None:
        """Say that the adapter is about to end the training with an exception."""


class Handle(Protocol):
    """One adapter at work.

    Attributes:
        honors: options on which it acts in the steps that it counts. What a user asks for
            beyond them is reported. Where the framework below counts the steps, that one acts.
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
