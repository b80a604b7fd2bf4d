"""CatBoost: rounds of boosting as steps, with metrics, trees, importance and data.

Only classes of the library are patched, never objects of the user.
"""

from __future__ import annotations

from typing import Final

import catboost

from mothtrap.adapters.catboost.hooks import CatBoostHandle
from mothtrap.core.facts.trees import GradientsGiven
from mothtrap.core.reports import Reports
from mothtrap.tracing.boosting.rounds import REPORTS
from mothtrap.tracing.handle import AdapterSpec

ADAPTER: Final = AdapterSpec(
    framework="catboost",
    handle=CatBoostHandle,
    requires="catboost>=1.2",
    reports=Reports(
        scalars=REPORTS.scalars, facts=REPORTS.facts - {GradientsGiven}, modes=REPORTS.modes
    ),
    watched=(catboost.CatBoost, catboost.Pool),
)
