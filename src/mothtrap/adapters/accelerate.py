"""Accelerate: settings of an Accelerator, and logged values; the loop belongs to the script.

The steps themselves are observed by PyTorch's adapter.
"""

from __future__ import annotations

import sys
import weakref
from types import FrameType
from typing import Any, Final

import accelerate
from accelerate import data_loader
from msgspec import structs

from mothtrap.core.facts.trainers import TrainerSettings
from mothtrap.core.replays import ReplayPlan
from mothtrap.core.reports import Reports
from mothtrap.tracing.handle import AdapterSpec
from mothtrap.tracing.replacements import Replacements
from mothtrap.tracing.source import frames
from mothtrap.tracing.steps import read_ahead
from mothtrap.tracing.trainers.trainer_handle import TrainerHandle
from mothtrap.tracing.trainers.trainers_at_work import TrainerAtWork


class AccelerateHandle(TrainerHandle):
    """Handle for Accelerate."""

    facts = (TrainerSettings,)

    def install(self, replacements: Replacements) -> None:
        """Replace the methods that create an Accelerator, prepare objects, and log."""
        kind = accelerate.Accelerator
        self._made: weakref.WeakKeyDictionary[Any, TrainerSettings] = weakref.WeakKeyDictionary()
        _followed(replacements)
        replacements.replace(data_loader.DataLoaderShard, "__iter__", read_ahead.observed)
        replacements.around(kind, "__init__", None, self._constructed)
        replacements.around(kind, "prepare", None, self._prepared)
        replacements.around(kind, "log", None, self._logged)

    def _constructed(self, one: Any, *_: object) -> None:
        if _is_called_by_a_trainer():
            return
        self._made[one] = TrainerSettings(
            step=self.job.now.step,
            trainer=type(one).__name__,
            model="",
            accumulates=int(one.gradient_accumulation_steps),
            precision=str(one.mixed_precision),
            strategy=str(one.distributed_type).rpartition(".")[2],
            processes=int(one.num_processes),
            location=frames.user_location(),
        )

    def _prepared(self, one: Any, _: object, args: tuple[Any, ...], *__: object) -> None:
        models = [each for each in args if hasattr(each, "named_parameters")]
        if one in self._made and models:
            known = {"step": self.job.now.step, "model": type(models[0]).__name__}
            accumulates = int(one.gradient_accumulation_steps)  # scripts may set it later
            self.settings(structs.replace(self._made[one], accumulates=accumulates, **known))

    def _logged(
        self, _: object, __: object, args: tuple[Any, ...], kwargs: dict[str, Any], ___: object
    ) -> None:
        self.job.log(args[0] if args else kwargs.get("values") or {})


def _is_called_by_a_trainer() -> bool:
    """Return whether the Trainer of another library creates the Accelerator, with its settings."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith("transformers."):
            return True
        frame = frame.f_back
    return False


def _replay(_: ReplayPlan) -> None:
    """Follow the counters of Accelerators; PyTorch replays the step, and restores them."""
    replacements = Replacements()
    _followed(replacements)
    replacements.replace(data_loader.DataLoaderShard, "__iter__", read_ahead.replayed)


def _followed(replacements: Replacements) -> None:
    """Return the most recently created Accelerator."""
    work = TrainerAtWork(
        lambda one: iter([("accelerator", one), ("gradient_state", one.gradient_state)])
    )
    replacements.around(accelerate.Accelerator, "__init__", None, work.began)
    replacements.on_undo(work.leave)


ADAPTER: Final = AdapterSpec(
    framework="accelerate",
    handle=AccelerateHandle,
    requires="accelerate>=1",
    arrays="torch",
    reports=Reports(facts=frozenset({TrainerSettings})),  # unlike numbers of the user
    refines="torch",
    steps="base",
    replay=_replay,
)
