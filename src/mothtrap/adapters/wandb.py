"""Weights & Biases: what a script gives to `run.log` is also a number of the step.

The logger itself gets what it always got.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import wandb

from mothtrap.core.adapters import Environment, Job
from mothtrap.core.replays import ReplayPlan
from mothtrap.core.reports import Reports
from mothtrap.tracing.logger_handle import LoggerHandle, given

FRAMEWORK: Final = "wandb"
REQUIRES: Final = "wandb>=0.17"
ARRAYS: Final = "numpy"
STEPS: Final[Literal["own", "base", "none"]] = "none"
REPORTS: Final = Reports()
"""Numbers of the user's only."""


class WandbHandle(LoggerHandle):
    """Weights & Biases at work."""

    def install(self) -> None:
        """Replace the method through which all logging passes."""
        run = wandb.sdk.wandb_run.Run
        self.replacements.around(run, "log", None, self._logged)

    def _logged(
        self, _: object, __: object, args: tuple[Any, ...], kwargs: dict[str, Any], ___: object
    ) -> None:
        (data,) = given(args, kwargs, "data")
        self.numbers.add(data or {})


def refines() -> str | None:
    """Return None: it stands on nothing that trains."""
    return None


def accepts(_: object) -> bool:
    """Return False: whole processes are watched."""
    return False


def attach(_: Job, targets: Sequence[object]) -> WandbHandle:
    """Refuse: there is no object to watch.

    Raises:
        TypeError: always.
    """
    raise TypeError(f"cannot watch a {type(targets[0]).__qualname__}: use `mothtrap run`")


def attach_process(job: Job) -> WandbHandle:
    """Take what this process logs."""
    return WandbHandle(job)


def attach_replay(_: ReplayPlan) -> None:
    """Do nothing: in a replay nothing is recorded."""


def environment() -> Environment:
    """Return the version."""
    return Environment(versions={"wandb": wandb.__version__})
