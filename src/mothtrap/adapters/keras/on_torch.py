"""Keras on PyTorch: its optimizers, as ones of PyTorch, whose adapter sees all the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import keras
from torch.optim import Optimizer

from mothtrap.adapters.keras import names
from mothtrap.adapters.keras.fitting import Fitting
from mothtrap.core.adapters import Given, Job, SnapshotTaker, Surroundings
from mothtrap.tracing.identity import ByIdentity
from mothtrap.tracing.replacements import Replacements, drop_own_frame

Function = Callable[..., Any]


class StandIn(Optimizer):
    """Stands for an optimizer of Keras: a step of it is a call of that one.

    It does not hold that one, so that both go when the script lets go of it.

    Args:
        settings: of that optimizer.
        variables: that it updates.

    Attributes:
        names_parameters: by the paths of these variables, whatever modules they are in.
    """

    names_parameters = True

    def __init__(self, settings: dict[str, float], variables: Sequence[Any]) -> None:
        self._call: Function = lambda: None
        named = [(str(variable.path), variable.value) for variable in variables]
        super().__init__(named, settings)

    def run(self, call: Function) -> Any:
        """Make a step that consists of a call; return what that returns."""
        self._call = call
        return self.step()

    def step(self, closure: Any = None) -> Any:  # noqa: ARG002
        """Let the optimizer of Keras make its step."""
        call, self._call = self._call, lambda: None
        return call()


class StandIns:
    """Makes each update by an optimizer of Keras a step of PyTorch.

    Args:
        replacements: in classes of Keras.
    """

    def __init__(self, replacements: Replacements) -> None:
        self._contain = replacements.contain
        self._made: ByIdentity[Any, StandIn] = ByIdentity()
        self._here = _Thread()
        for kind in names.optimizer_types():
            replacements.replace(kind, "apply", self._around_apply)
        replacements.around(names.optimizer_types()[-1], "build", None, self._built)

    def _around_apply(self, original: Function) -> Function:
        contain, find, here = self._contain, self._of, self._here

        def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
            if here.applying:
                return original(self, grads, trainable_variables)
            if trainable_variables is not None:
                trainable_variables = list(trainable_variables)
            stand_in = contain(find, self, trainable_variables)
            here.applying = True
            try:
                if stand_in is None:
                    return original(self, grads, trainable_variables)
                return stand_in.run(lambda: original(self, grads, trainable_variables))
            except BaseException as err:
                drop_own_frame(err)
                raise
            finally:
                here.applying = False

        return apply

    def _of(self, optimizer: Any, variables: Sequence[Any] | None) -> StandIn | None:
        """Return what makes the step; None where the call only adds up gradients."""
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        if names.adds_up(inner):
            return None
        found = self._made.get(inner)
        if found is None:
            return self._make(inner, variables)
        found.param_groups[0].update(_settings(inner))
        return found

    def _built(self, optimizer: Any, _: Any, args: Sequence[Any], kwargs: Any, __: Any) -> None:
        """Make one before the first step, whose state a replay restores."""
        if optimizer not in self._made:
            self._make(optimizer, args[0] if args else kwargs.get("variables"))

    def _make(self, optimizer: Any, variables: Sequence[Any] | None) -> StandIn | None:
        given = variables or getattr(optimizer, "_trainable_variables", ())
        if not given:
            return None
        kind = type(type(optimizer).__name__, (StandIn,), {})
        made: StandIn = kind(_settings(optimizer), given)
        self._made[optimizer] = made
        return made


class KerasOnTorchHandle(Fitting):
    """Keras at work on PyTorch, whose adapter sees steps and evaluations; epochs are seen here.

    Args:
        job: takes what is seen.
    """

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        try:
            self._install_fits()
            StandIns(self._replacements)
        except BaseException:
            self._replacements.undo()
            raise

    @property
    def snapshots(self) -> SnapshotTaker | None:
        """Return None: PyTorch takes them."""
        return None

    def step(self, given: Given) -> None:
        """Add numbers of the user's to the step in progress."""
        for name, value in given.numbers.items():
            self._job.number(name, value)

    def surroundings(self) -> Surroundings | None:
        """Return None: PyTorch reads them."""
        return None

    def detach(self) -> None:
        """Restore what was replaced."""
        self._replacements.undo()

    def abandon(self) -> None:
        """Restore what was replaced, in a forked child."""
        self._replacements.undo()


class _Thread(threading.local):
    """The place of a thread: within `apply`; one that scales losses calls that of another."""

    applying = False


def _settings(optimizer: Any) -> dict[str, float]:
    """Return the settings of an optimizer of Keras by the names that PyTorch has for them."""
    found = {"lr": float(keras.ops.convert_to_numpy(optimizer.learning_rate))}
    for name, theirs in (("weight_decay",) * 2, ("momentum",) * 2, ("eps", "epsilon")):
        found[name] = float(getattr(optimizer, theirs, None) or 0.0)
    return found
