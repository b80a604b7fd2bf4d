"""XGBoost: rounds of boosting as steps, with metrics, trees, importance and data.

Only classes of the library are patched, never objects of the user. So models pickle and clone
unchanged, and no callback is added. Without evaluation data, nothing is predicted.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import xgboost

from mothtrap.adapters.xgboost.hooks import XGBoostHandle
from mothtrap.adapters.xgboost.values import KINDS
from mothtrap.core.adapters import Environment
from mothtrap.core.reports import Reports
from mothtrap.tracing.adapter_parts import CheckParts
from mothtrap.tracing.boosting.rounds import REPORTS
from mothtrap.tracing.handle import AdapterSpec


def _place() -> Environment:
    """Return the position of this process among the workers of a distributed training run."""
    from xgboost import collective

    versions = {"xgboost": xgboost.__version__}
    if collective.is_distributed():
        rank, size = collective.get_rank(), collective.get_world_size()
        return Environment(rank=rank, size=size, versions=versions)
    rank_text = os.environ.get("RANK", "")
    return Environment(rank=int(rank_text) if rank_text.isdigit() else None, versions=versions)


if TYPE_CHECKING:
    from mothtrap.checks.fitted_tables import FittedTable


def _tables(take: Callable[[FittedTable], None]) -> None:
    """Report tables for `mothtrap check`."""
    from mothtrap.adapters.xgboost.tables import collect

    collect(take)


ADAPTER: Final = AdapterSpec(
    framework="xgboost",
    handle=XGBoostHandle,
    requires="xgboost>=2",
    reports=Reports(
        kinds=frozenset(KINDS),
        scalars=REPORTS.scalars,
        facts=REPORTS.facts,
        modes=REPORTS.modes,
    ),
    watched=(xgboost.Booster, xgboost.DMatrix, xgboost.XGBModel),
    place=_place,
    checks=CheckParts(tables=_tables),
)
