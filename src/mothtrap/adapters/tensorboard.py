"""TensorBoard: what a script gives to a `SummaryWriter` is also a number of the step.

The logger itself gets what it always got.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final, Literal

from mothtrap.core.adapters import Environment, Job
from mothtrap.core.replays import ReplayPlan
from mothtrap.core.reports import Reports
from mothtrap.tracing.logger_handle import LoggerHandle, given

FRAMEWORK: Final = "tensorboard"
REQUIRES: Final = "tensorboard>=2.16"
ARRAYS: Final = "numpy"
STEPS: Final[Literal["own", "base", "none"]] = "none"
REPORTS: Final = Reports()
"""Numbers of the user's only."""

WRITERS: Final = ("torch.utils.tensorboard", "tensorboardX")


class TensorboardHandle(LoggerHandle):
    """The writers at work."""

    def install(self) -> None:
        """Replace the methods that write numbers."""
        for name in WRITERS:
            if name in sys.modules:
                writer = sys.modules[name].SummaryWriter
                self.replacements.around(writer, "add_scalar", None, self._scalar)
                self.replacements.around(writer, "add_scalars", None, self._scalars)

    def _scalar(
        self, _: object, __: object, args: tuple[Any, ...], kwargs: dict[str, Any], ___: object
    ) -> None:
        tag, value = given(args, kwargs, "tag", "scalar_value")
        self.numbers.add({str(tag): value})

    def _scalars(
        self, _: object, __: object, args: tuple[Any, ...], kwargs: dict[str, Any], ___: object
    ) -> None:
        tag, values = given(args, kwargs, "main_tag", "tag_scalar_dict")
        self.numbers.add({str(tag): values or {}})


def _version() -> str:
    written = [sys.modules[name.partition(".")[0]] for name in WRITERS if name in sys.modules]
    return str(getattr(written[0], "__version__", "")) if written else ""


def refines() -> str | None:
    """Return None: it stands on nothing that trains."""
    return None


def accepts(_: object) -> bool:
    """Return False: whole processes are watched."""
    return False


def attach(_: Job, targets: Sequence[object]) -> TensorboardHandle:
    """Refuse: there is no object to watch.

    Raises:
        TypeError: always.
    """
    raise TypeError(f"cannot watch a {type(targets[0]).__qualname__}: use `mothtrap run`")


def attach_process(job: Job) -> TensorboardHandle:
    """Take what this process logs."""
    return TensorboardHandle(job)


def attach_replay(_: ReplayPlan) -> None:
    """Do nothing: in a replay nothing is recorded."""


def environment() -> Environment:
    """Return the version."""
    return Environment(versions={"tensorboard": _version()})
