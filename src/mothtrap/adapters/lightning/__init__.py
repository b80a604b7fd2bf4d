"""Lightning: phases, settings and logged names of its Trainer, which trains on PyTorch.

Functions of the library are replaced. Nothing is added to trainers or modules. The steps themselves
are observed by PyTorch's adapter.
"""

from __future__ import annotations

import sys
from typing import Final

from mothtrap.adapters.lightning.counters import ROOTS, follow_trainers
from mothtrap.adapters.lightning.hooks import LightningHandle
from mothtrap.core.adapters import Environment
from mothtrap.core.facts.epochs import EpochMetrics, MetricWatched
from mothtrap.core.facts.trainers import LossNotReturned, OptimizerNeverStepped
from mothtrap.core.replays import ReplayPlan
from mothtrap.core.reports import Reports
from mothtrap.tracing.handle import AdapterSpec
from mothtrap.tracing.replacements import Replacements
from mothtrap.tracing.trainers.trainer_handle import REPORTS


def _is_module(target: object) -> bool:
    return any(kind.__name__ == "LightningModule" for kind in type(target).__mro__)


def _replay(_: ReplayPlan) -> None:
    """Follow the counters of trainers; PyTorch replays the step, and restores them."""
    follow_trainers(Replacements())


def _place() -> Environment:
    """Return the version; PyTorch's adapter determines the position in the job."""
    found = [sys.modules[root.partition(".")[0]] for root in ROOTS if root in sys.modules]
    return Environment(versions={"lightning": str(found[0].__version__)} if found else {})


ADAPTER: Final = AdapterSpec(
    framework="lightning",
    handle=LightningHandle,
    requires="lightning>=2.2",
    arrays="torch",
    reports=Reports(
        facts=REPORTS.facts | {LossNotReturned, EpochMetrics, MetricWatched, OptimizerNeverStepped}
    ),
    watched=_is_module,
    refines="torch",
    steps="base",
    replay=_replay,
    place=_place,
)
