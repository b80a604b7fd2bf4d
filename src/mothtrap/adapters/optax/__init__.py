"""Optax, on JAX: the kinds of optimizers, their learning rates and other numbers.

The functions that make optimizers are replaced in the module `optax`. What they return is
theirs: a learning rate that is a plain number is a constant of the compiled step, where no
state shows it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final, Literal

import optax
from msgspec import structs

from mothtrap.capture.grouper import ClosedStep
from mothtrap.core.adapters import Environment, Given, Job, SnapshotTaker, Surroundings
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.options import WITHOUT_SNAPSHOTS
from mothtrap.core.replays import ReplayPlan
from mothtrap.core.reports import Reports
from mothtrap.tracing import frames
from mothtrap.tracing.adapter_job import AdapterJob, traced

FRAMEWORK: Final = "optax"
REQUIRES: Final = "optax>=0.2"
ARRAYS: Final = "jax"
STEPS: Final[Literal["own", "base", "none"]] = "base"
REPORTS: Final = Reports(scalars=frozenset({"lr"}), facts=frozenset({OptimizerFacts}))
DECOUPLED: Final = ("adamw", "nadamw", "adamaxw", "lion", "lamb", "adan")
PLAIN: Final = ("sgd", "noisy_sgd", "sign_sgd", "lion", "fromage", "polyak_sgd")
"""Optimizers that do not divide by the root of averaged squares."""


class OptaxHandle:
    """Optax at work.

    Args:
        job: takes what is seen.

    Attributes:
        snapshots: None; none are taken.
    """

    honors = WITHOUT_SNAPSHOTS

    def __init__(self, job: AdapterJob) -> None:
        self._job, self._undo = job, ExitStack()
        self._made: list[tuple[OptimizerFacts, Any]] = []
        self._told: set[str] = set()
        job.observer = self
        for name, function in list(vars(optax).items()):
            if inspect.isfunction(function) and not name.startswith("_"):
                parameters = list(inspect.signature(function).parameters)
                if parameters[:1] == ["learning_rate"] and name not in ("scale_by_learning_rate",):
                    setattr(optax, name, self._noting(name, function))
                    self._undo.callback(setattr, optax, name, function)

    def _noting(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def make(*args: Any, **kwargs: Any) -> Any:
            made = function(*args, **kwargs)
            self._job.contain(self._note, name, function, args, kwargs)
            return made

        return make

    def _note(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        bound = inspect.signature(function).bind(*args, **kwargs)
        bound.apply_defaults()
        values = bound.arguments
        rate = values["learning_rate"]
        if not callable(rate) and not isinstance(rate, int | float):
            return  # traced by `inject_hyperparams`, whose state has it
        fact = OptimizerFacts(
            step=0,
            optimizer=name,
            kind=name,
            learning_rate=None if callable(rate) else float(rate),
            weight_decay=_number(values.get("weight_decay")),
            decoupled=name in DECOUPLED,
            momentum=_number(values.get("momentum")),
            epsilon=_number(values.get("eps")) or None,
            second_moments=name not in PLAIN,
            location=frames.user_location(),
        )
        self._made.append((fact, rate))

    def closing(self, closed: ClosedStep) -> None:
        """Add what made a step to it, where there is one optimizer only."""
        self._job.stood_ready((OptimizerFacts,))
        if len(self._made) != 1 or not closed.optimizers:
            return
        fact, rate = self._made[0]
        label = closed.optimizers[0]  # the function that steps, which owns its losses
        if label not in self._told:
            self._told.add(label)
            self._job.fact(structs.replace(fact, step=closed.step, optimizer=label))
        if not callable(rate):
            self._job.scalar("lr", label, float(rate))
        elif not self._job.recorder.plan.is_light:
            with suppress(Exception):  # a schedule of the user's own
                self._job.scalar("lr", label, float(rate(closed.step)))

    def closed(self, closed: ClosedStep) -> None:
        """Do nothing: the next step begins."""

    def interrupted(self) -> None:
        """Do nothing: no step waits here."""

    @property
    def snapshots(self) -> SnapshotTaker | None:
        """No snapshots are taken of this framework."""
        return None

    def step(self, given: Given) -> None:
        """Do nothing: JAX takes what the user passes."""

    def surroundings(self) -> Surroundings | None:
        """Return None: nothing is read."""
        return None

    def stop(self, _: str) -> bool:
        """Return False: the loop is the script's own."""
        return False

    def detach(self) -> None:
        """Restore everything that was replaced."""
        self._undo.close()

    def abandon(self) -> None:
        """See nothing from here on, in a forked child."""
        self._undo.close()


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def refines() -> str | None:
    """Return `jax`."""
    return "jax"


def accepts(_: object) -> bool:
    """Return False: whole processes are watched."""
    return False


def attach(_: Job, targets: Sequence[object]) -> OptaxHandle:
    """Refuse: there is no object to watch.

    Raises:
        TypeError: always.
    """
    raise TypeError(f"cannot watch a {type(targets[0]).__qualname__}: use `mothtrap run`")


def attach_process(job: Job) -> OptaxHandle:
    """Note every optimizer that this process makes."""
    return OptaxHandle(traced(job))


def attach_replay(_: ReplayPlan) -> None:
    """Do nothing: no snapshots are taken."""


def environment() -> Environment:
    """Return the version: JAX knows the place in the job."""
    return Environment(versions={"optax": optax.__version__})
