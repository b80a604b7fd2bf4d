"""LightGBM: rounds of boosting as steps, with metrics, trees, importance and data.

Classes and functions of the library are patched, never objects of the user's.
"""

from __future__ import annotations

from typing import Final

import lightgbm

from mothtrap.adapters.lightgbm.patches import LightGBMHandle
from mothtrap.tracing.boosting.rounds import REPORTS
from mothtrap.tracing.handle import AdapterSpec

ADAPTER: Final = AdapterSpec(
    framework="lightgbm",
    handle=LightGBMHandle,
    requires="lightgbm>=4",
    reports=REPORTS,
    watched=(lightgbm.Booster, lightgbm.Dataset, lightgbm.LGBMModel),
)
