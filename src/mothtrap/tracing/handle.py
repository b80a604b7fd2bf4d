"""Base of an adapter: its declaration, and a handle with default methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from mothtrap.core.adapters import Environment, Given, Handle, Job, SnapshotTaker, Surroundings
from mothtrap.core.options import WITHOUT_SNAPSHOTS, Option
from mothtrap.core.replays import ReplayPlan
from mothtrap.core.reports import Reports
from mothtrap.tracing.adapter_parts import NO_CHECKS, NO_STALLS, CheckParts, StallParts
from mothtrap.tracing.attachable import Attachable
from mothtrap.tracing.replacements import Replacements


class BaseHandle:
    """Base handle of an attached adapter; derive from it and replace functions in `install`.

    `install` runs at the end of `__init__`. A class that needs its own attributes sets them before
    it calls `super().__init__`.

    Args:
        job: receives the observations.
        targets: watched objects; empty = the whole process.

    Attributes:
        honors: options that the adapter supports; by default the options that work without
            snapshots.
        replacements: replaces functions; `detach` undoes all replacements.
    """

    honors: frozenset[Option] = WITHOUT_SNAPSHOTS

    def __init__(self, job: Job, targets: Sequence[object] = ()) -> None:
        self.job, self.targets = job, tuple(targets)
        self.replacements = Replacements(job.contain)
        try:
            self.install(self.replacements)
        except BaseException:
            self.replacements.undo()  # all or nothing
            raise

    def install(self, replacements: Replacements) -> None:
        """Replace functions of the framework; by default, does nothing."""

    def end(self) -> None:
        """Report open data; called before the originals are restored."""

    def watches(self, target: object) -> bool:
        """Return whether an object is observed."""
        return not self.targets or any(target is each for each in self.targets)

    @property
    def snapshots(self) -> SnapshotTaker | None:
        """Return no snapshot taker."""
        return None

    def step(self, given: Given) -> None:
        """Add the user's numbers to the step in progress; never raises."""
        for name, value in given.numbers.items():
            self.job.number(name, value)
        if given.loss is not None:
            self.job.number("loss", given.loss)

    def surroundings(self) -> Surroundings | None:
        """Return None, because no settings are read."""
        return None

    def stop(self, reason: str) -> bool:  # noqa: ARG002
        """Return False, because the loop belongs to the script."""
        return False

    def detach(self) -> None:
        """Report open data, then restore everything that was replaced."""
        self.job.contain(self.end)
        self.replacements.undo()

    def abandon(self) -> None:
        """Stop observing in a forked child."""
        self.job.live = False
        self.replacements.undo()


NOTHING: Final = Reports()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterSpec(Attachable):
    """Everything that a session knows about an adapter: `ADAPTER` in its module.

    Attributes:
        framework: import name; the module has the same name.
        handle: class derived from `BaseHandle`, or a function, that starts to observe. It receives
            the job and the objects to watch; empty = the whole process.
        requires: the distribution and its versions, for errors: `torch>=2.6`.
        arrays: the module of `mothtrap.statistics` that reduces the framework's arrays.
        reports: everything that the adapter can ever report.
        watched: classes whose objects can be watched, or a function that accepts an object.
        beside: classes of objects that may be passed after a watched object, such as optimizers.
        refines: the underlying framework, whose adapter observes the rest.
        steps: which adapter counts the steps if this adapter refines another one: `own` (this
            adapter) or `base` (the other). `none`: it does not train, like a logger.
        replay: replays a recorded step in this process; None = the adapter takes no snapshots.
        place: returns the position of this process in its job, and versions; called again at the
            first step. Default: a single process, and the version of the framework.
        checks: functions for `mothtrap check`.
        stalls: functions that explain why a process makes no step.
    """

    framework: str
    handle: Callable[[Job, Sequence[object]], Handle]
    requires: str
    arrays: str = "numpy"
    reports: Reports = NOTHING
    watched: tuple[type, ...] | Callable[[object], bool] = ()
    beside: tuple[type, ...] = ()
    refines: str | None = None
    steps: Literal["own", "base", "none"] = "own"
    replay: Callable[[ReplayPlan], None] | None = None
    place: Callable[[], Environment] | None = None
    checks: CheckParts = NO_CHECKS
    stalls: StallParts = NO_STALLS
