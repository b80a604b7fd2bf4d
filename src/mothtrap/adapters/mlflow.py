"""MLflow: what a script gives to `log_metric` and the like is also a number of the step.

The logger itself gets what it always got.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import mlflow
from mlflow.tracking import client

from mothtrap.core.adapters import Environment, Job
from mothtrap.core.replays import ReplayPlan
from mothtrap.core.reports import Reports
from mothtrap.tracing.logger_handle import LoggerHandle, given

FRAMEWORK: Final = "mlflow"
REQUIRES: Final = "mlflow-skinny>=2.10"
ARRAYS: Final = "numpy"
STEPS: Final[Literal["own", "base", "none"]] = "none"
REPORTS: Final = Reports()
"""Numbers of the user's only."""


class MlflowHandle(LoggerHandle):
    """MLflow at work."""

    def install(self) -> None:
        """Replace the methods of its client through which all metrics pass."""
        kind = client.MlflowClient
        self.replacements.around(kind, "log_metric", None, self._logged)
        self.replacements.around(kind, "log_batch", None, self._logged_batch)

    def _logged(
        self, _: object, __: object, args: tuple[Any, ...], kwargs: dict[str, Any], ___: object
    ) -> None:
        _, key, value = given(args, kwargs, "run_id", "key", "value")
        self.numbers.add({str(key): value})

    def _logged_batch(
        self, _: object, __: object, args: tuple[Any, ...], kwargs: dict[str, Any], ___: object
    ) -> None:
        _, metrics = given(args, kwargs, "run_id", "metrics")
        self.numbers.add({metric.key: metric.value for metric in metrics or ()})


def refines() -> str | None:
    """Return None: it stands on nothing that trains."""
    return None


def accepts(_: object) -> bool:
    """Return False: whole processes are watched."""
    return False


def attach(_: Job, targets: Sequence[object]) -> MlflowHandle:
    """Refuse: there is no object to watch.

    Raises:
        TypeError: always.
    """
    raise TypeError(f"cannot watch a {type(targets[0]).__qualname__}: use `mothtrap run`")


def attach_process(job: Job) -> MlflowHandle:
    """Take what this process logs."""
    return MlflowHandle(job)


def attach_replay(_: ReplayPlan) -> None:
    """Do nothing: in a replay nothing is recorded."""


def environment() -> Environment:
    """Return the version."""
    return Environment(versions={"mlflow": mlflow.__version__})
