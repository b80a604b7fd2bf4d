"""Everything that is reported about a TensorFlow loop without a Keras optimizer."""

from __future__ import annotations

from typing import Final

from mothtrap.core.facts.compiling import ValueReadOnce
from mothtrap.core.facts.functions import FunctionTraced
from mothtrap.core.facts.losses import LossCall, LossSeries
from mothtrap.core.facts.optimizers import UpdateDirection
from mothtrap.core.reports import Reports
from mothtrap.core.steps import Mode

EVERY_STEP: Final = (LossSeries, FunctionTraced, UpdateDirection, ValueReadOnce)

REPORTS: Final = Reports(
    kinds=frozenset({"weight", "bias", "gradient"}),
    scalars=frozenset({"loss"}),
    facts=frozenset({*EVERY_STEP, LossCall}),
    modes=frozenset({Mode.TRAIN}),
)
