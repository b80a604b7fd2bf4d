"""Every error that mothtrap raises on purpose.

    MothtrapError
    ├── ConfigError (ValueError)            a key, value or file of the configuration
    ├── UnknownNameError (KeyError)         a rule, adapter, statistic or tensor that does not exist
    ├── RunNotFoundError (FileNotFoundError)
    ├── RunExistsError (FileExistsError)
    ├── OutputExistsError (FileExistsError) something lies where a file or folder is to be made
    ├── DamagedDataError (ValueError)       bytes that do not match their checksum or format
    │   └── DamagedSnapshotError            those of a snapshot
    ├── StateMismatchError (ValueError)     a recorded state does not fit the objects that are there
    ├── StepUnavailableError (LookupError)  a step at which nothing of what was asked was captured
    │   └── StepNotYetError                 the job has not come to it
    ├── ControlError                        a running job does not do what it is asked
    ├── ReplayError                         a recorded step cannot be replayed here
    ├── QueryError (ValueError)             a query that cannot be answered
    ├── PluginError (ImportError)           an installed plugin cannot be used
    ├── MissingExtraError (ImportError)     an optional dependency that is not installed
    ├── StoreError (OSError)                an object store failed; trying again may help
    │   ├── StoreRefusedError               credentials, permissions or bucket are wrong
    │   ├── OddKeyError                     a key among others that cannot be requested
    │   ├── ObjectExistsError (FileExistsError)
    │   └── ObjectNotFoundError (FileNotFoundError)
    ├── ActionError                         a reaction to an event cannot be carried out
    │   └── DeliveryError                   it failed; trying again later may help
    ├── NonFiniteStepError (FloatingPointError) a step that the guard refuses to apply
    └── CannotJudge                         how a rule says that it has no verdict
        ├── NotEnoughData
        └── NotApplicable

A message says what failed, what was found, what was expected, and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class MothtrapError(Exception):
    """Base of every error that mothtrap raises on purpose."""


class ConfigError(MothtrapError, ValueError):
    """A configuration key, value or file cannot be used."""


class UnknownNameError(MothtrapError, KeyError):
    """A name was asked for that does not exist."""

    def __str__(self) -> str:  # KeyError would print the repr of its argument
        return str(self.args[0]) if self.args else ""


class RunNotFoundError(MothtrapError, FileNotFoundError):
    """No run lies where one was asked for."""


class RunExistsError(MothtrapError, FileExistsError):
    """A run of that name exists already."""


class OutputExistsError(MothtrapError, FileExistsError):
    """Something lies where a file or folder is to be made."""


class DamagedDataError(MothtrapError, ValueError):
    """Stored bytes do not match their checksum or their format."""


class DamagedSnapshotError(DamagedDataError):
    """A file of a snapshot is torn, changed, or missing: nothing of that snapshot is used."""


class StateMismatchError(MothtrapError, ValueError):
    """A recorded state does not fit the objects of this process."""


class StepUnavailableError(MothtrapError, LookupError):
    """The requested value was not captured at that step, and never will be."""


class StepNotYetError(StepUnavailableError):
    """The job has not come to that step; it may."""


class QueryError(MothtrapError, ValueError):
    """A query over a run cannot be answered."""


class PluginError(MothtrapError, ImportError):
    """A part that another distribution brought cannot be used: `what` it is, and `reason`."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{what} cannot be used: {reason}; update or uninstall it")
        self.what = what
        self.reason = reason


class MissingExtraError(MothtrapError, ImportError):
    """Something needs a package that is not installed."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs the package {package!r}, which is not installed; "
            f"pip install 'mothtrap[{extra}]'"
        )


class StoreError(MothtrapError, OSError):
    """An object store did not do what it was asked; trying again may help."""


class StoreRefusedError(StoreError):
    """Credentials, permissions or the bucket are wrong; trying again does not help by itself."""


class OddKeyError(StoreError):
    """A place cannot be listed, since a key in it has a part such as `..`."""


class ObjectExistsError(StoreError, FileExistsError):
    """An object of that key exists."""


class ObjectNotFoundError(StoreError, FileNotFoundError):
    """No object has that key."""


class ControlError(MothtrapError):
    """A running job cannot do what it is asked to, or does not answer."""


class ActionError(MothtrapError):
    """A reaction to an event cannot be carried out; the message never holds a secret."""


class DeliveryError(ActionError):
    """A reaction failed for now; trying again later may help."""


class NonFiniteStepError(MothtrapError, FloatingPointError):
    """A step was not applied: its loss or gradients are not finite, or too large.

    Attributes:
        step: its number.
        loss: its loss; None where none was seen.
        parameters: names of those whose gradients are concerned, nearest to the loss first.
        location: `file:line` of the loss, where known.
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


class ReplayError(MothtrapError):
    """A recorded step cannot be replayed: its script did not start, or never came to it."""


class CannotJudge(MothtrapError):
    """Raised by a rule's `check` when it has no verdict; the text is the reason."""


class NotEnoughData(CannotJudge):
    """The rule applies, but the window does not hold enough to judge."""


class NotApplicable(CannotJudge):
    """The rule does not apply to this training."""


SLIP = 0.8
"""Likeness, as `difflib` has it, of a word and one with a slip in it; chosen by hand."""
LEAST_PART = 3
"""Letters that are enough to be a part of a name rather than a chance; chosen by hand."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint that names the other known word closest to `name`, or ''.

    What differs in a letter or two is a slip; else a word that begins with `name` is nearer
    than one that ends with it, and that nearer than one that is only spelled alike.
    """
    others = [word for word in known if word != name]
    close = difflib.get_close_matches(name, others, n=1, cutoff=SLIP)
    if not close and len(name) >= LEAST_PART:
        begin = [word for word in others if word.startswith(name)]
        close = begin or [word for word in others if word.endswith(name)]
    close = close or difflib.get_close_matches(name, others, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""
