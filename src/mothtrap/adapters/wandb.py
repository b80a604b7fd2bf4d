"""Weights & Biases: values that a script passes to `run.log` are also recorded.

Weights & Biases itself still receives them.
"""

from __future__ import annotations

from typing import Any, Final

import wandb

from mothtrap.tracing.replacements import Replacements
from mothtrap.tracing.trainers.logger_handle import LoggerHandle, given, logger


class WandbHandle(LoggerHandle):
    """Handle for Weights & Biases."""

    def install(self, replacements: Replacements) -> None:
        """Replace the method that handles all logging."""
        run = wandb.sdk.wandb_run.Run
        replacements.around(run, "log", None, self._logged)

    def _logged(
        self, _: object, __: object, args: tuple[Any, ...], kwargs: dict[str, Any], ___: object
    ) -> None:
        (data,) = given(args, kwargs, "data")
        self.job.log(data or {})


ADAPTER: Final = logger("wandb", WandbHandle, "wandb>=0.17")
