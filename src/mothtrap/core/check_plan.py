"""Orders for a process whose script is checked before its training run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from mothtrap.core import jsonable

Part = Literal["data", "model", "loss", "callbacks"]
"""Parts of a script that can be checked alone."""

ASKED = "asked.json"
"""File in the scratch folder that gets the samples for a person."""
CHECK_VARIABLE = "MOTHTRAP_CHECK"
"""Environment variable that holds the path of the plan, in a process that is checked."""


class TrialOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A trial that a restarted script makes once it has reached the recorded step.

    Attributes:
        change: fields of `checks.step.Change`.
        steps: steps of the trial.
        results: file that gets the losses.
        port: of the ranks of a distributed script among themselves; 0 for a script without ranks.
    """

    change: dict[str, Any]
    steps: int
    results: str
    port: int = 0


class ResumeOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Order for a script that is started again: note its state after, or from, a checkpoint.

    Attributes:
        results: file that gets the state of the training.
        resumes: the script goes on from the checkpoint; else it shall write one.
    """

    results: str
    resumes: bool = False


class RepeatOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Order for a script that is started again: note its first steps, then end.

    Attributes:
        results: file that gets the steps.
    """

    results: str


class CheckPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Orders for a process that is checked.

    Attributes:
        steps: turns of the script's loop that are watched before the trials.
        budget_s: seconds for watching and trials together.
        codes: checks to make; empty = all.
        scratch: folder that gets the files that the script writes.
        kept: folders that may be written to: that of the run.
        network: connections to other machines are allowed.
        began_s: Unix time at which the check began.
        restarts: trials start the script again, also where its process could be copied.
        dummy_loss: the mean square of the model's output takes the place of the loss.
        cut: layer at which the network ends; empty = nowhere. It has a dummy loss then.
        part: the one part to check; None = all.
        resume_command: starts the script from its checkpoint; empty if it was not given.
        asks: samples that a person is to predict; 0 = none.
        learns: layers and inputs are learned for a file of invariants.
        trial: for a script that was started again: the trial; None = all checks are made.
        resume: for a script that was started again: what it shall note of its checkpoint.
        repeat: for a script that was started again: where it shall note its first steps.
    """

    steps: int
    budget_s: float
    scratch: str
    kept: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    network: bool = False
    began_s: float = 0.0
    restarts: bool = False
    dummy_loss: bool = False
    cut: str = ""
    part: Part | None = None
    resume_command: str = ""
    asks: int = 0
    learns: bool = False
    trial: TrialOrder | None = None
    resume: ResumeOrder | None = None
    repeat: RepeatOrder | None = None

    @property
    def is_restart(self) -> bool:
        """True if a check has started the script again: then nothing is recorded."""
        return any(order is not None for order in (self.trial, self.resume, self.repeat))


def is_checked(environ: Mapping[str, str]) -> bool:
    """Return whether the process belongs to a script that is checked."""
    return bool(environ.get(CHECK_VARIABLE))


def read_plan(environ: Mapping[str, str]) -> CheckPlan | None:
    """Return the plan that the environment names; None in a process that is not checked."""
    path = environ.get(CHECK_VARIABLE)
    return jsonable.decode(Path(path).read_bytes(), CheckPlan) if path else None


class Files(Protocol):
    """Leads paths to the scratch folder; see `session.protected_files`."""

    def for_writing(self, path: Any, *, keeps: bool) -> Any:
        """Return the path to write to in the place of a path."""

    def for_reading(self, path: Any) -> Any:
        """Return the path to read from in the place of a path."""
