"""The base of an adapter: what it declares, and its handle with the usual answers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final, Literal

from mothtrap.core.adapters import (
    Environment,
    Given,
    Handle,
    Job,
    SnapshotTaker,
    Surroundings,
)
from mothtrap.core.facts.stalls import CollectiveCall, InputState
from mothtrap.core.options import WITHOUT_SNAPSHOTS, Option
from mothtrap.core.replays import ReplayPlan
from mothtrap.core.reports import Reports
from mothtrap.tracing.replacements import Replacements


class BaseHandle:
    """One adapter at work; derive from it and replace functions of the framework in `install`.

    `install` runs at the end of `__init__`. A class that needs attributes of its own sets them
    before it calls `super().__init__`.

    Args:
        job: takes the observations.
        targets: objects that are watched; none = all of the process.

    Attributes:
        honors: options that the adapter supports; default: those that work without snapshots.
        replacements: puts functions in the place of others; `detach` undoes all of them.
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
        """Replace functions of the framework; the usual one replaces none."""

    def end(self) -> None:
        """Report what is still open; called before the originals are restored."""

    def watches(self, target: object) -> bool:
        """Return whether an object is watched."""
        return not self.targets or any(target is each for each in self.targets)

    @property
    def snapshots(self) -> SnapshotTaker | None:
        """Return the snapshot taker: none."""
        return None

    def step(self, given: Given) -> None:
        """Add numbers of the user to the step in progress; never raises."""
        for name, value in given.numbers.items():
            self.job.number(name, value)
        if given.loss is not None:
            self.job.number("loss", given.loss)

    def surroundings(self) -> Surroundings | None:
        """Return None: nothing is read that the numbers depend on."""
        return None

    def stop(self, reason: str) -> bool:  # noqa: ARG002
        """Return False: the loop is the script's own."""
        return False

    def detach(self) -> None:
        """Report what is still open, then restore everything that was replaced."""
        self.job.contain(self.end)
        self.replacements.undo()

    def abandon(self) -> None:
        """Observe nothing from here on, in a forked child."""
        self.job.live = False
        self.replacements.undo()


NOTHING: Final = Reports()


def _replay_nothing(_: ReplayPlan) -> None:
    """Do nothing: the adapter leaves no snapshots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterSpec:
    """Everything that a session knows of an adapter: `ADAPTER` of its module.

    Attributes:
        framework: name of its import; the module has the same name.
        handle: begins to observe: a class derived from `BaseHandle`, or a function. It gets the
            job and the objects to watch; none = the whole process.
        requires: the distribution and its versions, as a requirement: `torch>=2.6`.
        arrays: the module of `mothtrap.statistics` that reduces the framework's arrays.
        reports: everything that can ever come from the adapter.
        watched: classes whose objects can be watched, or a function that accepts an object.
        beside: classes of objects that may follow a watched one, such as optimizers.
        refines: the framework on which this one trains, whose adapter sees the rest.
        steps: who counts the steps where the adapter refines another: `own`, it does; `base`,
            the other does. `none`: nothing trains in it, as in a logger.
        replay: replays a recorded step in this process, instead of `attach`.
        check: makes the checks of `mothtrap check` in the script of this process; None = it
            cannot (see `session.checked_process`).
        trial: makes one trial of a check in a script that was started again for it; None = it
            cannot.
        tables: starts to report the tables that models are fitted to, for the checks of data;
            None = its models are trained step by step.
        explicit_step: returns the step that `mothtrap.check` checks; None = it cannot.
        explicit_set: returns the data set of a loader that `mothtrap.check` is given, for a role;
            None = it cannot.
        place: returns the place of this process in its job, and versions; asked again at the
            first step. Default: a process that is alone, and the version of the framework.
        collective: returns the last collective operation that this process has called, given
            the innermost frame of its training thread; None = the framework has none.
        reading: returns the file and record that input pipelines of this process work on; asked
            while no step is made. None = the framework has no such pipelines.
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
    replay: Callable[[ReplayPlan], None] = _replay_nothing
    check: Callable[..., None] | None = None
    trial: Callable[..., None] | None = None
    tables: Callable[[Callable[[Any], None]], None] | None = None
    explicit_step: Callable[..., Any] | None = None
    explicit_set: Callable[[object, Literal["train", "evaluation"]], Any] | None = None
    place: Callable[[], Environment] | None = None
    collective: Callable[[FrameType], CollectiveCall | None] | None = None
    reading: Callable[[], InputState] | None = None

    def accepts(self, target: object) -> bool:
        """Return whether an object can be watched."""
        if isinstance(self.watched, tuple):
            return isinstance(target, self.watched)
        return self.watched(target)

    def attach(self, job: Job, targets: Sequence[object] = ()) -> Handle:
        """Observe some objects: models, then their optimizers; none = the whole process.

        Raises:
            TypeError: one of the objects cannot be watched. Where the adapter refines another,
                that one checks all but the first.
        """
        for target in targets[: 1 if self.refines else None]:
            if not (self.accepts(target) or isinstance(target, self.beside)):
                raise TypeError(
                    f"cannot watch a {type(target).__qualname__} with {self.framework}: "
                    f"{self._expected()}"
                )
        return self.handle(job, targets)

    def _expected(self) -> str:
        if not isinstance(self.watched, tuple):
            return f"expected objects of {self.framework}"
        names = [kind.__name__ for kind in (*self.watched, *self.beside)]
        return f"expected {' or '.join(names)}" if names else "use `mothtrap run`"

    def environment(self) -> Environment:
        """Return the place of this process in its job, and the versions that matter."""
        if self.place is not None:
            return self.place()
        version = getattr(sys.modules.get(self.framework), "__version__", "")
        return Environment(versions={self.framework: str(version)})
