"""Settings and requests for a process whose script is checked before its training run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from mothtrap.core import jsonable

Part = Literal["data", "model", "loss", "callbacks"]
"""Parts of a script that can be checked alone."""

ASKED = "asked.json"
"""File in the scratch folder for the samples that a person is asked to predict."""
CHECK_VARIABLE = "MOTHTRAP_CHECK"
"""Environment variable with the path of the plan, in a process that is checked."""


class TrialOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Order for a restarted script: run a trial after reaching the recorded step.

    Attributes:
        change: fields of `checks.step.Change`.
        steps: steps of the trial.
        results: file for the losses.
        port: port for communication between ranks; 0 for a script without ranks.
    """

    change: dict[str, Any]
    steps: int
    results: str
    port: int = 0


class ResumeOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Order for a restarted script: record its state after writing or loading a checkpoint.

    Attributes:
        results: file for the training state.
        resumes: the script resumes from the checkpoint; otherwise it writes one.
    """

    results: str
    resumes: bool = False


class RepeatOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Order for a restarted script: record its first steps, then end.

    Attributes:
        results: file for the steps.
    """

    results: str


class CheckPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a process that is checked.

    Attributes:
        steps: loop iterations to observe before the trials.
        budget_s: time for observation and trials together, in seconds.
        codes: codes of the checks to run; empty = all.
        scratch: folder for files that the script writes.
        kept: folders that the script may write to, such as the run's folder.
        network: whether connections to other machines are allowed.
        began_s: Unix time at which the check began.
        restarts: trials restart the script even if its process could be copied.
        dummy_loss: replace the loss with the mean square of the model's output.
        cut: last layer of the network, which implies a dummy loss; empty = no cut.
        part: the only part to check; None = all.
        resume_command: command that resumes from the checkpoint; empty if not given.
        asks: number of samples for a person to predict; 0 = none.
        learns: whether to store layers and inputs in an invariants file.
        trial: trial of a restarted script; None = run all checks.
        resume: for a restarted script, the checkpoint state to record.
        repeat: for a restarted script, where to record its first steps.
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
        """True if a check restarted the script; such a process records nothing."""
        return any(order is not None for order in (self.trial, self.resume, self.repeat))


def is_checked(environ: Mapping[str, str]) -> bool:
    """Return whether this process runs a script that is being checked."""
    return bool(environ.get(CHECK_VARIABLE))


def read_plan(environ: Mapping[str, str]) -> CheckPlan | None:
    """Return the plan named in the environment; None if the process is not checked."""
    path = environ.get(CHECK_VARIABLE)
    return jsonable.decode(Path(path).read_bytes(), CheckPlan) if path else None


class Files(Protocol):
    """Redirects paths to the scratch folder; see `session.protected_files`."""

    def for_writing(self, path: Any, *, keeps: bool) -> Any:
        """Return the path to write to instead of the given path."""

    def for_reading(self, path: Any) -> Any:
        """Return the path to read from instead of the given path."""
