"""The Trainer of Hugging Face: phases, settings, and logged values; it trains on PyTorch.

Methods of its classes are replaced, and no callback is added to a trainer. The steps themselves are
observed by PyTorch's adapter.
"""

from __future__ import annotations

import dis
import inspect
import weakref
from collections.abc import Mapping
from types import CodeType
from typing import Any, Final

import numpy as np
import transformers
from transformers import trainer, trainer_callback
from transformers.data import data_collator

from mothtrap.core.facts.data import RowsShared
from mothtrap.core.facts.epochs import EpochMetrics, MetricWatched
from mothtrap.core.facts.trainers import (
    LabelsReplaced,
    TrainerSettings,
    TrainingPhase,
    UndividedLoss,
)
from mothtrap.core.metrics import sense_by_name
from mothtrap.core.replays import ReplayPlan
from mothtrap.core.reports import Reports
from mothtrap.tracing.handle import AdapterSpec
from mothtrap.tracing.replacements import Function, Replacements, drop_own_frame
from mothtrap.tracing.source import frames
from mothtrap.tracing.trainers.trainer_handle import REPORTS, Phase, TrainerHandle, count, limit
from mothtrap.tracing.trainers.trainers_at_work import TrainerAtWork


class TransformersHandle(TrainerHandle):
    """Handle for the Hugging Face Trainer."""

    facts = (
        *(TrainerSettings, TrainingPhase, UndividedLoss, EpochMetrics, MetricWatched, RowsShared),
        LabelsReplaced,
    )

    def install(self, replacements: Replacements) -> None:
        """Replace the function that handles all events, and the start of phases."""
        self._trainer: weakref.ref[Any] | None = None
        self._control: weakref.ref[Any] | None = None
        self._evaluations = -1
        self._train_loss: float | None = None
        _followed(replacements)
        handler = trainer_callback.CallbackHandler
        replacements.replace(handler, "call_event", self._around_event)
        self._judged: weakref.ref[Any] | None = None
        self._collated: list[tuple[int, int]] = []
        collator = data_collator.DataCollatorForLanguageModeling
        replacements.around(collator, "torch_call", None, self._around_collator)
        replacements.replace(trainer.Trainer, "get_batch_samples", self._around_batches)
        for name, phase in PHASES.items():
            replacements.replace(trainer.Trainer, name, self._around_phase(phase))

    def _around_phase(self, phase: Phase) -> Any:
        handle = self

        def make(original: Function) -> Function:
            def method(self: Any, *args: Any, **kwargs: Any) -> Any:
                before = handle.job.contain(handle._began, self, phase)
                try:
                    return original(self, *args, **kwargs)
                except BaseException as err:
                    drop_own_frame(err)
                    raise
                finally:
                    handle.job.contain(handle._ended, before)

            return method

        return make

    def _began(self, one: Any, phase: Phase) -> tuple[Phase, int | None] | None:
        if not self.watches(one.model):
            return None
        before = self.phase, self.epoch
        if phase == "train":
            self._trainer = weakref.ref(one)
        else:
            self.enter(phase, self.epoch)
        return before

    def _ended(self, before: tuple[Phase, int | None] | None) -> None:
        if before is None:
            return
        phase, epoch = before
        if phase:
            self.enter(phase, epoch)
        else:
            self.leave()

    def _around_batches(self, original: Function) -> Function:
        handle = self

        def get_batch_samples(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                batches = original(self, *args, **kwargs)
            except BaseException as err:
                drop_own_frame(err)
                raise
            handle.job.contain(handle._counted, self, batches)
            return batches

        return get_batch_samples

    def _counted(self, one: Any, batches: Any) -> None:
        """Handle the loaded and counted micro-batches of a step."""
        if self._judged is not None and self._judged() is one:
            return
        self._judged = weakref.ref(one)
        micro_batches = int(one.args.gradient_accumulation_steps)
        counted = isinstance(batches, tuple) and len(batches) == 2 and batches[1] is not None
        if micro_batches < 2 or not counted or not self.watches(one.model):
            return
        function = _undivided(one)
        if function is not None:
            self.job.fact(
                UndividedLoss(
                    step=self.job.now.step,
                    trainer=type(one).__name__,
                    micro_batches=micro_batches,
                    location=frames.returned_at(function),
                )
            )

    def _around_collator(
        self, one: Any, batch: Any, args: tuple[Any, ...], kwargs: dict[str, Any], _: object
    ) -> None:
        """Compare the labels of the first batches with the labels of their rows."""
        if len(self._collated) >= COLLATED or one.mlm or self.phase != "train":
            return
        given_RL = _labels_of(args[0] if args else kwargs.get("examples"))
        self._collated.append(_replaced(given_RL, _numbers(batch["labels"])))
        ignored, counted = (sum(numbers) for numbers in zip(*self._collated, strict=True))
        if len(self._collated) == COLLATED and counted:
            self.job.fact(
                LabelsReplaced(
                    step=self.job.now.step,
                    collator=type(one).__name__,
                    calls=COLLATED,
                    ignored=ignored,
                    counted=counted,
                    location=frames.user_location(),
                )
            )

    def _around_event(self, original: Function) -> Function:
        handle = self

        def call_event(
            self: Any, event: str, args: Any, state: Any, control: Any, **kwargs: Any
        ) -> Any:
            handle.job.contain(handle._event, self, event, args, state, control, kwargs)
            try:
                return original(self, event, args, state, control, **kwargs)
            except BaseException as err:
                drop_own_frame(err)
                raise

        return call_event

    def _event(
        self, handler: Any, event: str, args: Any, state: Any, control: Any, given: dict[str, Any]
    ) -> None:
        if event not in EVENTS:
            return
        if not self.watches(_unwrapped(handler.model)):
            return
        if event == "on_log":
            logs = given.get("logs") or {}
            self.job.log(logs)
            self._train_loss = _number(logs.get("loss")) or self._train_loss
        elif event == "on_train_end":
            self._evaluations = -1
        elif event == "on_evaluate":
            self._evaluated(given.get("metrics") or {})
        elif event == "on_train_begin":
            self._control, self._evaluations = weakref.ref(control), 0
            self._train_began(args, count(state.max_steps))
        else:
            self.enter("train", int(state.epoch or 0))

    def _train_began(self, args: Any, total: int | None) -> None:
        one = self._trainer() if self._trainer is not None else None
        if one is None:
            return
        self.job.loss_computed_at(_loss_place(one))
        self.settings(
            TrainerSettings(
                step=self.job.now.step,
                trainer=f"{type(one).__name__} of Hugging Face",
                model=type(one.model).__name__,
                accumulates=int(args.gradient_accumulation_steps),
                clips=limit(args.max_grad_norm),
                precision="bf16" if args.bf16 else "fp16" if args.fp16 else "float32",
                strategy=str(getattr(one.accelerator, "distributed_type", "")).rpartition(".")[2],
                processes=int(args.world_size),
                epochs=count(args.num_train_epochs) if args.max_steps <= 0 else None,
                steps=count(args.max_steps),
                batches=_batches(one, args),
                total_steps=total,
                warm_up=None if total is None else count(args.get_warmup_steps(total)),
                replaces_nonfinite=bool(args.logging_nan_inf_filter),
                location=frames.user_location(),
            )
        )

        self._report_watched(one, args)
        self._report_rows(one)

    def _report_rows(self, one: Any) -> None:
        """Report an evaluation dataset that is the training dataset itself."""
        if one.eval_dataset is None or one.eval_dataset is not one.train_dataset:
            return
        rows = len(one.train_dataset)
        self.job.fact(
            RowsShared(
                step=self.job.now.step,
                module=type(one.model).__name__,
                argument="its rows",
                source="eval_dataset",
                train_rows=rows,
                eval_rows=rows,
                shared=rows,
                own_dataset=True,
                location=frames.user_location(),
            )
        )

    def _report_watched(self, one: Any, args: Any) -> None:
        """Report the metric by which the best weights are chosen."""
        monitor = args.metric_for_best_model
        if not args.load_best_model_at_end or not isinstance(monitor, str):
            return
        self.job.fact(
            MetricWatched(
                step=self.job.now.step,
                fit=f"train of {type(one).__name__}",
                callback=type(one).__name__,
                monitor=monitor,
                metric=monitor.removeprefix(HELD_OUT),
                direction="max" if args.greater_is_better else "min",
                held_out=True,
                restores=True,
                location=frames.user_location(),
            )
        )

    def _evaluated(self, metrics: dict[str, Any]) -> None:
        """Report the metrics of an evaluation during training."""
        one = self._trainer() if self._trainer is not None else None
        if one is None or self._evaluations < 0:
            return
        held_out = {
            name.removeprefix(HELD_OUT): value
            for name, value in metrics.items()
            if name.startswith(HELD_OUT)
            and not name.endswith(SPEEDS)
            and _number(value) is not None
        }
        rising = {name: sense_by_name(name) for name in held_out}
        function = getattr(one, "compute_metrics", None)
        self.job.fact(
            EpochMetrics(
                step=self.job.steps_applied,
                fit=f"train of {type(one).__name__}",
                epoch=self._evaluations,
                loss="loss",
                values={"loss": self._train_loss} if self._train_loss is not None else {},
                held_out={name: float(value) for name, value in held_out.items()},
                higher_is_better=tuple(sorted(name for name in rising if rising[name])),
                lower_is_better=tuple(sorted(name for name in rising if rising[name] is False)),
                location=frames.returned_at(function) if callable(function) else None,
            )
        )
        self._evaluations += 1

    def stop(self, _: str) -> bool:
        """End `train` after the step in progress."""
        control = self._control() if self._control is not None else None
        if control is None or self.phase != "train":
            return False
        control.should_training_stop = True
        return True


PHASES: Final[dict[str, Phase]] = {
    "train": "train",
    "evaluate": "validation",
    "predict": "predict",
}
"""Phases, by the Trainer method that begins them."""


COLLATED: Final = 2
"""Number of first batches whose labels are compared with the labels of their rows."""
EVENTS: Final = ("on_train_begin", "on_epoch_begin", "on_log", "on_evaluate", "on_train_end")
HELD_OUT: Final = "eval_"
"""Beginning of the names of the metrics that `evaluate` returns."""
SPEEDS: Final = ("runtime", "_per_second", "model_preparation_time")
"""Ends of the names of the other numbers that it returns."""
IGNORED: Final = -100
"""The label that losses ignore."""
ITEMS = "num_items_in_batch"
"""The argument by which the Trainer passes the number of items to a loss."""


def _batches(one: Any, args: Any) -> int | None:
    """Return the number of batches in a pass over the training data; None if unknown."""
    try:
        rows = len(one.train_dataset)
    except TypeError:
        return None
    size = int(args.per_device_train_batch_size) * max(1, int(args.world_size))
    return count(-(-rows // size))


def _number(value: Any) -> float | None:
    """Return a number that a Trainer logs, perhaps as a text; None for anything else."""
    return float(value) if isinstance(value, int | float | np.number) else None


def _unwrapped(model: Any) -> Any:
    """Return a model without the wrappers that a trainer added."""
    while hasattr(model, "module"):
        model = model.module
    return model


def _loss_place(one: Any) -> str | None:
    """Return the user's line that computes the loss: of the trainer, a function, or the model."""
    given = getattr(one, "compute_loss_func", None)
    for function in (type(one).compute_loss, given, type(one.model).forward):
        place = frames.returned_at(function) if callable(function) else None
        if place is not None:
            return place
    return None


def _undivided(one: Any) -> Any:
    """Return the user's loss that ignores the item count if the Trainer does not divide.

    Since 4.46 the Trainer divides a loss by the number of micro-batches only if the model takes no
    keyword arguments (`model_accepts_loss_kwargs`) and no `compute_loss_func` is given. It passes
    the number of items instead. The same tests decide in its method `training_step`.
    """
    # since 5.0, the library reports it itself
    if getattr(one, "loss_is_scaled_for_ga", None) is False:
        return None
    function = getattr(one, "compute_loss_func", None)
    if function is None and getattr(one, "model_accepts_loss_kwargs", False):
        function = type(one).compute_loss
    if function is None or function is trainer.Trainer.compute_loss:
        return None
    code = getattr(inspect.unwrap(function), "__code__", None)
    return function if code is not None and _ignores(code, ITEMS) else None


def _ignores(code: CodeType, name: str) -> bool:
    """Return whether a function has a keyword argument that it never reads."""
    taken = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if name not in taken:
        if not code.co_flags & inspect.CO_VARKEYWORDS:
            return False
        place = len(taken) + bool(code.co_flags & inspect.CO_VARARGS)
        name = code.co_varnames[place]
    for one in dis.get_instructions(code):
        named = one.argval if isinstance(one.argval, tuple) else (one.argval,)
        if one.opname.startswith("LOAD") and name in named:
            return False
    return True


def _labels_of(rows: Any) -> Any:
    """Return the labels of the rows of a batch; None if some row has none, or other lengths."""
    labels = [row["labels"] for row in rows or () if isinstance(row, Mapping) and "labels" in row]
    if len(labels) < len(rows or ()) or len({np.shape(one) for one in labels}) != 1:
        return None
    return np.array([_numbers(one) for one in labels])


def _numbers(labels: Any) -> Any:
    """Return the labels of a list, an array, or a tensor, which is not marked as shared."""
    return np.array(labels.tolist() if hasattr(labels, "tolist") else labels)


def _replaced(given_RL: Any, labels_RL: Any) -> tuple[int, int]:
    """Return the number of ignored labels of the rows, and how many of them count in the batch."""
    if given_RL is None or given_RL.shape != labels_RL.shape:
        return 0, 0
    ignored_RL = given_RL == IGNORED
    return int(ignored_RL.sum()), int((ignored_RL & (labels_RL != IGNORED)).sum())


def _followed(replacements: Replacements) -> None:
    """Return the Trainer that began most recently."""
    work = TrainerAtWork(lambda one: iter([("trainer", one), ("state", one.state)]))
    replacements.around(trainer.Trainer, "train", work.began, None)
    replacements.on_undo(work.leave)


def _replay(_: ReplayPlan) -> None:
    """Follow the counters of trainers; PyTorch replays the step, and restores them."""
    _followed(Replacements())


ADAPTER: Final = AdapterSpec(
    framework="transformers",
    handle=TransformersHandle,
    requires="transformers>=4.46",
    arrays="torch",
    reports=Reports(
        facts=REPORTS.facts
        | {UndividedLoss, EpochMetrics, MetricWatched, RowsShared, LabelsReplaced}
    ),
    watched=(transformers.PreTrainedModel,),
    refines="torch",
    steps="base",
    replay=_replay,
)
