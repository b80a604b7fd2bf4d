"""Replaced functions of Lightning, and the handle that restores them."""

from __future__ import annotations

import importlib
import sys
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final

from mothtrap.adapters.lightning import left_out, watched_metrics
from mothtrap.adapters.lightning.counters import ROOTS, follow_trainers
from mothtrap.adapters.lightning.manual_steps import ManualSteps
from mothtrap.core.facts.epochs import EpochMetrics, MetricWatched
from mothtrap.core.facts.trainers import (
    LossNotReturned,
    OptimizerNeverStepped,
    TrainerSettings,
    TrainingPhase,
)
from mothtrap.tracing.replacements import Function, Replacements, drop_own_frame
from mothtrap.tracing.source import frames
from mothtrap.tracing.trainers.trainer_handle import Phase, TrainerHandle, count, limit

NOTHING_RETURNED = 20
"""Number of first calls of a step that must all return no loss. Chosen by hand: some steps skip a
bad batch.
"""


class LightningHandle(TrainerHandle):
    """Handle for Lightning."""

    facts = (
        TrainerSettings,
        TrainingPhase,
        LossNotReturned,
        EpochMetrics,
        MetricWatched,
        OptimizerNeverStepped,
    )

    def install(self, replacements: Replacements) -> None:
        """Replace the function that runs all hooks, and `self.log`."""
        self._trainer: weakref.ref[Any] | None = None
        self._names: set[str] = set()
        self._stepped: weakref.ref[Any] | None = None
        self._nothing = 0
        self._manual = ManualSteps()
        self._fit: tuple[str, str | None] = ("", None)
        follow_trainers(replacements)
        for root in ROOTS:
            if root in sys.modules:
                call = importlib.import_module(f"{root}.trainer.call")
                module = importlib.import_module(root).LightningModule
                replacements.replace(call, "_call_callback_hooks", self._around_hooks)
                replacements.around(call, "_call_strategy_hook", None, self._called)
                replacements.around(module, "log", None, self._logged)

    def _around_hooks(self, original: Function) -> Function:
        handle = self

        def _call_callback_hooks(trainer: Any, hook_name: str, *args: Any, **kwargs: Any) -> Any:
            act = HOOKS.get(hook_name)
            if act is not None:
                handle.job.contain(handle._hooked, act, trainer)
            try:
                return original(trainer, hook_name, *args, **kwargs)
            except BaseException as err:
                drop_own_frame(err)
                raise

        return _call_callback_hooks

    def _called(
        self,
        trainer: Any,
        output: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        _: object,
    ) -> None:
        """Count the steps of a training run that return no loss, until one does."""
        if (args[0] if args else kwargs.get("hook_name")) != "training_step":
            return
        module = trainer.lightning_module
        if self.watches(module):
            for found in self._manual.called(trainer, self.job.now.step):
                self.job.fact(found)
        if self._stepped is None or self._stepped() is not module:
            self._stepped, self._nothing = weakref.ref(module), 0
        if output is not None or not module.automatic_optimization:
            self._nothing = -1
        elif self._nothing >= 0 and self.watches(module):
            self._nothing += 1
            if self._nothing == NOTHING_RETURNED:
                self.job.fact(
                    LossNotReturned(
                        step=self.job.now.step,
                        model=type(module).__name__,
                        calls=self._nothing,
                        location=frames.returned_at(type(module).training_step),
                    )
                )

    def _hooked(self, act: Callable[[LightningHandle, Any], None], trainer: Any) -> None:
        if self.watches(trainer.lightning_module):
            act(self, trainer)

    def fit_begins(self, trainer: Any) -> None:
        """Report the settings of a training run that begins."""
        module = trainer.lightning_module
        self._trainer = weakref.ref(trainer)
        if module.automatic_optimization:
            self.job.loss_computed_at(frames.returned_at(type(module).training_step))
        self.settings(
            TrainerSettings(
                step=self.job.now.step,
                trainer=f"{type(trainer).__name__} of Lightning",
                model=type(module).__name__,
                accumulates=int(trainer.accumulate_grad_batches),
                divides_by_all=bool(module.automatic_optimization),
                clips=limit(trainer.gradient_clip_val),
                clips_by=str(trainer.gradient_clip_algorithm or "norm").rpartition(".")[2].lower(),
                precision=str(trainer.precision),
                strategy=type(trainer.strategy).__name__,
                processes=int(trainer.world_size),
                epochs=count(trainer.max_epochs),
                steps=count(trainer.max_steps),
                batches=count(trainer.num_training_batches),
                leaves_out=left_out.setting(trainer),
                share=left_out.share(trainer),
                location=frames.user_location(),
            )
        )
        place = frames.user_location()
        self._fit = f"fit of {type(module).__name__} at {place}", place
        about: dict[str, Any] = {"step": self.job.now.step, "fit": self._fit[0], "place": place}
        for one in watched_metrics.watched(trainer, **about):
            self.job.fact(one)
        self.enter("train", int(trainer.current_epoch))

    def trains(self, trainer: Any) -> None:
        """Record the start or continuation of a training epoch."""
        if self._trainer is None or self._trainer() is not trainer:
            self.fit_begins(trainer)  # this adapter came after the training had begun
        self.enter("train", int(trainer.current_epoch))

    def evaluates(self, trainer: Any) -> None:
        """Record the start of an evaluation."""
        self._names.clear()
        stage: Phase = "test" if trainer.testing else "validation"
        self.enter("sanity_check" if trainer.sanity_checking else stage, self.epoch)

    def evaluated(self, trainer: Any) -> None:
        """Record the results and the end of an evaluation."""
        if not trainer.sanity_checking:
            found = self._take(trainer)
            if trainer.state.fn == "fit":
                self._report_epoch(found, int(trainer.current_epoch))
                self.trains(trainer)
            else:
                self.leave()

    def _report_epoch(self, found: Mapping[str, Any], number: int) -> None:
        fit, place = self._fit
        if found and fit:
            step = self.job.steps_applied
            self.job.fact(
                watched_metrics.epoch(found, step=step, fit=fit, number=number, place=place)
            )

    def predicts(self, _: Any) -> None:
        """Record the start of predictions."""
        self.enter("predict")

    def epoch_ends(self, trainer: Any) -> None:
        """Record the metrics of a training epoch."""
        self._take(trainer, of_epochs=True)

    def ends(self, _: Any) -> None:
        """Record the end of the trainer's current phase."""
        self.leave()

    def _take(self, trainer: Any, *, of_epochs: bool = False) -> Mapping[str, Any]:
        """Record and return the values logged since the phase began, as reduced by the trainer."""
        found = trainer.callback_metrics
        ends = ("_epoch",) if of_epochs else ("", "_epoch", "/dataloader_idx_")
        values = {
            name: value
            for name, value in found.items()
            for logged in self._names
            if any(
                name.startswith(f"{logged}{end}") if end.endswith("_idx_") else name == logged + end
                for end in ends
            )
        }
        self.job.log(values)
        self._names.clear()
        return values

    def _logged(
        self, module: Any, _: object, args: tuple[Any, ...], kwargs: dict[str, Any], __: object
    ) -> None:
        """Record values of `self.log`: immediately in training, else at the end of the phase."""
        name, value = (*args, *(kwargs.get(key) for key in ("name", "value")[len(args) :]))[:2]
        if not self.watches(module):
            return
        self._names.add(str(name))
        if self.phase == "train":
            self.job.log({str(name): value})

    def stop(self, _: str) -> bool:
        """End `fit` after the step in progress."""
        trainer = self._trainer() if self._trainer is not None else None
        if trainer is None or self.phase != "train":
            return False
        trainer.should_stop = True
        return True


HOOKS: Final[dict[str, Callable[[LightningHandle, Any], None]]] = {
    "on_sanity_check_start": LightningHandle.evaluates,
    "on_sanity_check_end": LightningHandle.ends,
    "on_train_start": LightningHandle.fit_begins,
    "on_train_epoch_start": LightningHandle.trains,
    "on_train_epoch_end": LightningHandle.epoch_ends,
    "on_train_end": LightningHandle.ends,
    "on_validation_start": LightningHandle.evaluates,
    "on_validation_end": LightningHandle.evaluated,
    "on_test_start": LightningHandle.evaluates,
    "on_test_end": LightningHandle.evaluated,
    "on_predict_start": LightningHandle.predicts,
    "on_predict_end": LightningHandle.ends,
    "on_exception": LightningHandle.ends,
    "teardown": LightningHandle.ends,
}
"""Method of the handle for each callback hook, called before the callbacks run."""
