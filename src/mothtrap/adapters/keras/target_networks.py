"""Target networks: untrained copies of a model from which a custom loop computes its targets."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

import tensorflow as tf

from mothtrap.adapters.keras import layers
from mothtrap.adapters.keras.weights import value_of
from mothtrap.core.adapters import Job
from mothtrap.core.facts.evaluations import EvaluatedCopy
from mothtrap.tracing.describe import episode_ends
from mothtrap.tracing.describe.array_digests import digest_of
from mothtrap.tracing.source import frames

READ_AT: Final = 4
"""Step of a custom loop at which the source of the script is read."""
MOST_NETWORKS: Final = 4
MOST_TRACED: Final = 8
"""Maximum number of models, including trained models, whose calls in programs are recorded."""


@dataclass(slots=True)
class _Network:
    location: str | None
    looks: int = 0


class TargetNetworks:
    """Reports how the source computes targets, and digests of the weights of target networks.

    Args:
        job: receives the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._steps = 0
        self._networks: weakref.WeakKeyDictionary[Any, _Network] = weakref.WeakKeyDictionary()
        self._called: weakref.WeakSet[Any] = weakref.WeakSet()
        self._traced: weakref.WeakSet[Any] = weakref.WeakSet()
        self.are_wanted = False

    def called(self, model: Any) -> None:
        """Record a call of a model; cheap if no targets are computed.

        A call in a program is recorded once, while the program is traced.
        """
        if not tf.executing_eagerly():
            self._called_by_program(model)
            return
        if not self.are_wanted or model in self._called:
            return
        self._called.add(model)
        if model not in self._networks and len(self._networks) < MOST_NETWORKS:
            self._networks[model] = _Network(frames.user_location())

    def _called_by_program(self, model: Any) -> None:
        if model in self._traced or len(self._traced) >= MOST_TRACED:
            return
        self._traced.add(model)
        if model not in self._networks:
            self._networks[model] = _Network(frames.user_location())

    def stepped(self, given: Callable[[], Collection[int]], full: bool) -> None:
        """Process a step of a custom loop.

        Args:
            given: returns the identities of the variables in optimizers.
            full: the step is inspected in full.
        """
        self._steps += 1
        if self._steps == READ_AT:
            self._read()
        if not self.are_wanted or not full:
            return
        held = given()
        for model, network in list(self._networks.items()):
            if model in self._called or self._is_traced_copy(model, held):
                self._report(model, network, held)
        self._called.clear()

    def _is_traced_copy(self, model: Any, given: Collection[int]) -> bool:
        """Return whether a program calls a model with the weight shapes of a trained model."""
        if model not in self._traced:
            return False
        shapes = _shapes(model)
        others = [one for one in self._traced if one is not model and _shapes(one) == shapes]
        return any(all(id(v) in given for v in one.trainable_variables) for one in others)

    def _read(self) -> None:
        step = self._job.now.step
        moves = episode_ends.bootstrapped(step, self._steps)
        trained = episode_ends.trained_target(step, self._steps)
        for fact in (episode_ends.of_running_files(step), moves, trained):
            if fact is not None:
                self._job.fact(fact)
        self.are_wanted = moves is not None

    def _report(self, model: Any, network: _Network, given: Collection[int]) -> None:
        variables = model.trainable_variables
        if not variables or any(id(one) in given for one in variables):
            return
        network.looks += 1
        self._job.fact(
            EvaluatedCopy(
                step=self._job.now.step,
                module=layers.name_of(model),
                digest=digest_of(map(value_of, variables)),
                apart=network.looks,
                location=network.location,
            )
        )


def _shapes(model: Any) -> list[tuple[int, ...]]:
    return [tuple(variable.shape) for variable in model.trainable_variables]
