"""MLflow: values that a script passes to `log_metric` and similar functions are also recorded.

MLflow itself still receives them.
"""

from __future__ import annotations

from typing import Any, Final

from mlflow.tracking import client

from mothtrap.tracing.replacements import Replacements
from mothtrap.tracing.trainers.logger_handle import LoggerHandle, given, logger


class MlflowHandle(LoggerHandle):
    """Handle for MLflow."""

    def install(self, replacements: Replacements) -> None:
        """Replace the client methods through which all metrics pass."""
        kind = client.MlflowClient
        replacements.around(kind, "log_metric", None, self._logged)
        replacements.around(kind, "log_batch", None, self._logged_batch)

    def _logged(
        self, _: object, __: object, args: tuple[Any, ...], kwargs: dict[str, Any], ___: object
    ) -> None:
        _, key, value = given(args, kwargs, "run_id", "key", "value")
        self.job.log({str(key): value})

    def _logged_batch(
        self, _: object, __: object, args: tuple[Any, ...], kwargs: dict[str, Any], ___: object
    ) -> None:
        _, metrics = given(args, kwargs, "run_id", "metrics")
        self.job.log({metric.key: metric.value for metric in metrics or ()})


ADAPTER: Final = logger("mlflow", MlflowHandle, "mlflow-skinny>=2.10")
