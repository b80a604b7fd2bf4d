"""TensorBoard: values that a script passes to a `SummaryWriter` are also recorded.

TensorBoard itself still receives them.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from mothtrap.core.adapters import Environment
from mothtrap.tracing.replacements import Replacements
from mothtrap.tracing.trainers.logger_handle import LoggerHandle, given, logger

WRITERS: Final = ("torch.utils.tensorboard", "tensorboardX")


class TensorboardHandle(LoggerHandle):
    """Handle for TensorBoard writers."""

    def install(self, replacements: Replacements) -> None:
        """Replace the methods that write numbers."""
        for name in WRITERS:
            if name in sys.modules:
                writer = sys.modules[name].SummaryWriter
                replacements.around(writer, "add_scalar", None, self._scalar)
                replacements.around(writer, "add_scalars", None, self._scalars)

    def _scalar(
        self, _: object, __: object, args: tuple[Any, ...], kwargs: dict[str, Any], ___: object
    ) -> None:
        tag, value = given(args, kwargs, "tag", "scalar_value")
        self.job.log({str(tag): value})

    def _scalars(
        self, _: object, __: object, args: tuple[Any, ...], kwargs: dict[str, Any], ___: object
    ) -> None:
        tag, values = given(args, kwargs, "main_tag", "tag_scalar_dict")
        self.job.log({str(tag): values or {}})


def _place() -> Environment:
    written = [sys.modules[name.partition(".")[0]] for name in WRITERS if name in sys.modules]
    version = str(getattr(written[0], "__version__", "")) if written else ""
    return Environment(versions={"tensorboard": version})


ADAPTER: Final = logger("tensorboard", TensorboardHandle, "tensorboard>=2.16", _place)
