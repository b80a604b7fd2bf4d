"""Optax, on JAX: the kinds of optimizers, their learning rates and other numbers.

The functions that create optimizers are replaced in the module `optax`. Their results are not
changed. A learning rate that is a plain number is a constant of the compiled step, and is not part
of any state.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import optax
from msgspec import structs

from mothtrap.adapters.jax.applied_updates import AppliedUpdates
from mothtrap.adapters.jax.fresh_states import FreshStates
from mothtrap.core.adapters import Given, Job, MadeStep
from mothtrap.core.facts.compiling import UpdateDropped
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.reports import Reports
from mothtrap.tracing.handle import AdapterSpec
from mothtrap.tracing.observing_handle import ObservingHandle
from mothtrap.tracing.replacements import Replacements
from mothtrap.tracing.source import frames

DECOUPLED: Final = ("adamw", "nadamw", "adamaxw", "lion", "lamb", "adan")
PLAIN: Final = ("sgd", "noisy_sgd", "sign_sgd", "lion", "fromage", "polyak_sgd")
"""Optimizers that do not divide by the root of averaged squares."""


class OptaxHandle(ObservingHandle):
    """Handle for Optax."""

    def __init__(self, job: Job, targets: Sequence[object] = ()) -> None:
        self._made: list[tuple[OptimizerFacts, Any]] = []
        self._reported: set[str] = set()
        self._updates, self._states = AppliedUpdates(job), FreshStates(job)
        super().__init__(job, targets)

    def install(self, replacements: Replacements) -> None:
        """Replace the functions that create optimizers."""
        for name, function in list(vars(optax).items()):
            if inspect.isfunction(function) and not name.startswith("_"):
                parameters = list(inspect.signature(function).parameters)
                if parameters[:1] == ["learning_rate"] and name not in ("scale_by_learning_rate",):
                    replacements.replace(optax, name, functools.partial(self._noting, name))

        replacements.around(optax, "apply_updates", None, self._applied)
        trees = getattr(optax, "tree", None)
        if trees is not None and "zeros_like" in vars(trees):  # since optax 0.2.5
            replacements.around(trees, "zeros_like", None, self._zeros)

    def _applied(self, params: Any, updated: Any, *_: Any) -> None:
        self._updates.applied("optax.apply_updates", params)
        self._states.applied(params, updated)

    def _zeros(self, params: Any, *_: Any) -> None:
        self._states.created(params)

    def _noting(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def make(*args: Any, **kwargs: Any) -> Any:
            made = function(*args, **kwargs)
            self.job.contain(self._note, name, function, args, kwargs)
            return made

        return make

    def _note(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        bound = inspect.signature(function).bind(*args, **kwargs)
        bound.apply_defaults()
        values = bound.arguments
        rate = values["learning_rate"]
        if not callable(rate) and not isinstance(rate, int | float):
            return  # traced by `inject_hyperparams`, whose state contains it
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

    def closing(self, closed: MadeStep) -> None:
        """Add the optimizer to a step if there is only one optimizer."""
        self.job.stood_ready((OptimizerFacts,))
        if len(self._made) != 1 or not closed.optimizers:
            return
        fact, rate = self._made[0]
        label = closed.optimizers[0]  # the function that steps, and that owns the losses
        if label not in self._reported:
            self._reported.add(label)
            self.job.fact(structs.replace(fact, step=closed.step, optimizer=label))
        if not callable(rate):
            self.job.scalar("lr", label, float(rate))
        elif self.job.is_full():
            with suppress(Exception):  # a schedule defined by the user
                self.job.scalar("lr", label, float(rate(closed.step)))

    def step(self, _: Given) -> None:
        """Do nothing, because the JAX adapter handles the user's values."""


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


ADAPTER: Final = AdapterSpec(
    framework="optax",
    handle=OptaxHandle,
    requires="optax>=0.2",
    arrays="jax",
    reports=Reports(scalars=frozenset({"lr"}), facts=frozenset({OptimizerFacts, UpdateDropped})),
    refines="jax",
    steps="base",
)
