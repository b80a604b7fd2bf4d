"""Every error that mothtrap raises on purpose.

    MothtrapError
    ├── ConfigError (ValueError)            a key, value or file of the configuration
    ├── UnknownNameError (KeyError)         a rule, adapter, statistic or tensor that does not exist
    ├── RunNotFoundError (FileNotFoundError)
    ├── RunExistsError (FileExistsError)
    ├── OutputExistsError (FileExistsError) the output file or folder exists already
    ├── DamagedDataError (ValueError)       bytes that do not match their checksum or format
    │   └── DamagedSnapshotError            a damaged file of a snapshot
    ├── StateMismatchError (ValueError)     a recorded state does not fit this process's objects
    ├── StepUnavailableError (LookupError)  the requested data was not captured at that step
    │   └── StepNotYetError                 the job has not reached that step
    ├── ControlError                        a running job does not carry out a request
    ├── ReplayError                         a recorded step cannot be replayed here
    ├── QueryError (ValueError)             a query that cannot be answered
    ├── PluginError (ImportError)           an installed plugin cannot be used
    ├── MissingExtraError (ImportError)     an optional dependency is not installed
    ├── StoreError (OSError)                an object store failed; trying again may help
    │   ├── StoreRefusedError               credentials, permissions or bucket are wrong
    │   ├── OddKeyError                     a key that cannot be requested, such as one with `..`
    │   ├── ObjectExistsError (FileExistsError)
    │   └── ObjectNotFoundError (FileNotFoundError)
    ├── ActionError                         an action cannot be carried out
    │   └── DeliveryError                   an action failed; trying again later may help
    ├── NonFiniteStepError (FloatingPointError) the guard refuses to apply a step
    ├── AssertionFailedError (AssertionError) a prediction breaks an assertion
    └── CannotJudge                         a rule cannot be evaluated
        ├── NotEnoughData
        └── NotApplicable

Each message states what failed, what was found, what was expected, and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from mothtrap.core.extras import install_command


class MothtrapError(Exception):
    """Base of every error that mothtrap raises on purpose."""


class ConfigError(MothtrapError, ValueError):
    """A configuration key, value or file cannot be used."""


class UnknownNameError(MothtrapError, KeyError):
    """The requested name does not exist."""

    def __str__(self) -> str:  # KeyError would print the repr of its argument
        return str(self.args[0]) if self.args else ""


class RunNotFoundError(MothtrapError, FileNotFoundError):
    """There is no run at the given path."""


class RunExistsError(MothtrapError, FileExistsError):
    """A run with that name already exists."""


class OutputExistsError(MothtrapError, FileExistsError):
    """The output file or folder already exists."""


class DamagedDataError(MothtrapError, ValueError):
    """Stored bytes do not match their checksum or their format."""


class DamagedSnapshotError(DamagedDataError):
    """A file of a snapshot is incomplete, changed, or missing; the snapshot is not used."""


class StateMismatchError(MothtrapError, ValueError):
    """A recorded state does not fit the objects of this process."""


class StepUnavailableError(MothtrapError, LookupError):
    """The requested value was not captured at that step, and never will be."""


class StepNotYetError(StepUnavailableError):
    """The job has not reached that step yet."""


class QueryError(MothtrapError, ValueError):
    """A query over a run cannot be answered."""


class PluginError(MothtrapError, ImportError):
    """A plugin from another package cannot be used."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{what} cannot be used: {reason}; update or uninstall it")
        self.what = what
        self.reason = reason


class MissingExtraError(MothtrapError, ImportError):
    """A feature needs an optional package that is not installed."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs the package {package!r}, which is not installed; "
            f"{install_command(extra)}"
        )


class StoreError(MothtrapError, OSError):
    """A request to an object store failed; trying again may help."""


class StoreRefusedError(StoreError):
    """Credentials, permissions or the bucket are wrong; trying again does not help."""


class OddKeyError(StoreError):
    """A location in an object store cannot be listed because a key has a part such as `..`."""


class ObjectExistsError(StoreError, FileExistsError):
    """An object with that key already exists."""


class ObjectNotFoundError(StoreError, FileNotFoundError):
    """There is no object with that key."""


class ControlError(MothtrapError):
    """A running job cannot carry out a request, or does not respond."""


class ActionError(MothtrapError):
    """An action cannot be carried out; the message contains no secrets."""


class DeliveryError(ActionError):
    """An action failed; trying again later may help."""


class NonFiniteStepError(MothtrapError, FloatingPointError):
    """A step was not applied: its loss or gradients are not finite, or too large.

    Attributes:
        step: number of the step.
        loss: loss of the step; None if no loss was observed.
        parameters: names of the parameters with such gradients, nearest to the loss first.
        location: `file:line` of the loss, if known.
    """

    def __init__(
        self,
        message: str,
        *,
        step: int = 0,
        loss: float | None = None,
        parameters: tuple[str, ...] = (),
        location: str | None = None,
    ) -> None:
        super().__init__(message)
        self.step, self.loss = step, loss
        self.parameters, self.location = parameters, location


class AssertionFailedError(MothtrapError, AssertionError):
    """A prediction breaks an assertion, and the user asked for an error."""


class ReplayError(MothtrapError):
    """A recorded step cannot be replayed: its script did not start, or did not reach the step."""


class CannotJudge(MothtrapError):
    """Raised by a rule's `check` if the rule cannot be evaluated; the message is the reason."""


class NotEnoughData(CannotJudge):
    """The rule applies, but the window has too little data to evaluate it."""


class NotApplicable(CannotJudge):
    """The rule does not apply to this training run."""


SLIP = 0.8
"""Smallest `difflib` ratio of a word and its misspelling; chosen by hand."""
LEAST_PART = 3
"""Shortest input that is matched as the start or end of a name; chosen by hand."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint that suggests the known word closest to `name`, or ''.

    A word that differs in one or two letters comes first, then a word that starts with `name`, a
    word that ends with it, and last a word with similar spelling.
    """
    others = [word for word in known if word != name]
    close = difflib.get_close_matches(name, others, n=1, cutoff=SLIP)
    if not close and len(name) >= LEAST_PART:
        begin = [word for word in others if word.startswith(name)]
        close = begin or [word for word in others if word.endswith(name)]
    close = close or difflib.get_close_matches(name, others, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""
