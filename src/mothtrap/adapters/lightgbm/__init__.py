"""LightGBM: rounds of boosting as steps, with metrics, trees, importance and data.

Only classes and functions of the library are patched, never objects of the user.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import lightgbm

from mothtrap.adapters.lightgbm.hooks import LightGBMHandle
from mothtrap.tracing.adapter_parts import CheckParts
from mothtrap.tracing.boosting.rounds import REPORTS
from mothtrap.tracing.handle import AdapterSpec

if TYPE_CHECKING:
    from mothtrap.checks.fitted_tables import FittedTable


def _tables(take: Callable[[FittedTable], None]) -> None:
    """Report tables for `mothtrap check`."""
    from mothtrap.adapters.lightgbm.tables import collect

    collect(take)


ADAPTER: Final = AdapterSpec(
    framework="lightgbm",
    handle=LightGBMHandle,
    requires="lightgbm>=4",
    reports=REPORTS,
    watched=(lightgbm.Booster, lightgbm.Dataset, lightgbm.LGBMModel),
    checks=CheckParts(tables=_tables),
)
