"""Replaced functions of Gluon, and the handle that restores them."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from mxnet import autograd, gluon
from mxnet.ndarray import NDArray

from mothtrap.adapters.mxnet.forward import Forward, LayerCall
from mothtrap.adapters.mxnet.layers import OF_LAYERS, Looks, weight_of
from mothtrap.adapters.mxnet.losses import called, series_of
from mothtrap.adapters.mxnet.optimizers import Parameters
from mothtrap.core.adapters import Job, Losses
from mothtrap.core.facts.evaluations import Evaluation, EvaluationMetrics, TrainingMode
from mothtrap.core.facts.layers import InitialWeights
from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.steps import Mode
from mothtrap.tracing.describe.loop_evaluations import LoopEvaluations
from mothtrap.tracing.handle import BaseHandle
from mothtrap.tracing.replacements import Replacements, drop_own_frame
from mothtrap.tracing.source import frames

EACH_STEP: Final = (LossSeries, OptimizerFacts, Evaluation, EvaluationMetrics, TrainingMode)
SAMPLED: Final = (*OF_LAYERS, InitialWeights)
MAX_LAYERS: Final = 256


class GluonHandle(BaseHandle):
    """Handle for Gluon.

    Args:
        job: receives the observations.
        targets: watched blocks and trainers; empty = the whole process.
    """

    def __init__(self, job: Job, targets: Sequence[object] = ()) -> None:
        self._here = Forward()
        self._looks, self._weights = Looks(job), Parameters(job)
        self._evaluations = LoopEvaluations(job)
        self._trained: weakref.WeakSet[Any] = weakref.WeakSet()
        super().__init__(job, targets)

    def install(self, replacements: Replacements) -> None:
        """Replace block calls, backward passes, and trainer steps."""
        replacements.replace(gluon.Block, "__call__", self._around_call)
        replacements.around(autograd, "backward", self._differentiated, None)
        replacements.around(NDArray, "backward", self._differentiated, None)
        for name in ("step", "update"):
            replacements.around(gluon.Trainer, name, self._stepping, self._stepped)

    def end(self) -> None:
        """Report the last evaluation."""
        self._evaluations.report()

    def _around_call(self, original: Any) -> Any:
        here, job = self._here, self.job

        def call(block: Any, *args: Any) -> Any:
            is_loss = isinstance(block, gluon.loss.Loss)
            if not job.live:
                return original(block, *args)
            if not (is_loss or autograd.is_recording()):
                return self._evaluate(original, block, args)
            is_root = not is_loss and here.root is None
            if is_root:
                here.root, here.given, here.trains = block, args, autograd.is_training()
            try:
                result = original(block, *args)
            except BaseException as err:
                drop_own_frame(err)
                raise
            finally:
                if is_root:
                    here.root = None
            job.contain(self._lost if is_loss else self._called, block, args, result)
            if is_root:
                here.latest, here.gave = block, result
            return result

        return call

    def _evaluate(self, original: Any, block: Any, args: tuple[Any, ...]) -> Any:
        """Call a block outside of `autograd.record`; keep its tensors if they are requested."""
        here, job = self._here, self.job
        is_root = here.evaluated is None
        if is_root:
            if block not in self._trained or not job.contain(job.begins_evaluation):
                return original(block, *args)
            here.evaluated = []
        try:
            result = original(block, *args)
        except BaseException as err:
            here.evaluated = None
            drop_own_frame(err)
            raise
        if here.evaluated is not None:
            job.contain(self._hold, here.evaluated, block, args, result, Mode.EVAL)
        if is_root:
            calls, here.evaluated = here.evaluated or [], None
            job.contain(self._take_evaluation, block, args, result, calls)
        return result

    def _take_evaluation(
        self, root: Any, args: tuple[Any, ...], result: Any, calls: list[LayerCall]
    ) -> None:
        with self.job.forward(Mode.EVAL):
            parameters = [p for p in root.collect_params().values() if p.grad_req != "null"]
            self._weights.take_weights(parameters, Mode.EVAL)
            self._looks.tensors.evaluated(root, args, result, calls)

    def _called(self, block: Any, args: tuple[Any, ...], gave: Any) -> None:
        """Keep inputs and outputs of a layer until the end of the step, if needed."""
        self._hold(self._here.calls, block, args, gave, Mode.TRAIN)

    def _hold(
        self, calls: list[LayerCall], block: Any, args: tuple[Any, ...], gave: Any, mode: Mode
    ) -> None:
        is_layer = not block._children or isinstance(
            getattr(block, "weight", None), gluon.Parameter
        )
        if not is_layer or len(calls) >= MAX_LAYERS or not args:
            return
        described = mode is Mode.TRAIN and self._looks.are_due()
        arrays = isinstance(args[0], NDArray) and isinstance(gave, NDArray)
        if arrays and (described or self._looks.tensors.are_due(mode)):
            is_data = any(args[0] is given for given in self._here.given)
            weight = weight_of(block) if described else None
            calls.append(LayerCall(block, args[0], gave, is_data, weight))

    def _lost(self, loss: Any, args: tuple[Any, ...], result: Any) -> None:
        """Record a loss call of training, or of an evaluation, where no graph is recorded."""
        place = frames.user_location()
        if autograd.is_recording():
            self._here.losses.append((loss, args[:2], place))
        elif isinstance(result, NDArray):
            values = result.asnumpy()
            look = partial(called, loss, args[:2])
            self._evaluations.add(place, float(values.mean()), values.size, look)

    def _differentiated(self, heads: Any, *_: object) -> None:
        """Record the starting values of a backward pass, before it runs."""
        heads = heads if isinstance(heads, list | tuple) else [heads]
        value = np.mean([head.asnumpy().mean(dtype=np.float64) for head in heads])
        frame = frames.user_frame()
        made = frames.assigned_at(frame) if frame is not None else None
        if made is None and self._here.losses:
            made = self._here.losses[-1][2]
        self._here.heads.append((float(value), made or frames.location(frame)))

    def _is_watched(self, trainer: Any) -> bool:
        if self.watches(trainer):
            return True
        own = {id(parameter) for parameter in trainer._params}
        blocks = [target for target in self.targets if isinstance(target, gluon.Block)]
        return any(id(each) in own for one in blocks for each in one.collect_params().values())

    def _stepping(self, trainer: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        """Inspect the gradients about to be applied; return whether the trainer is observed."""
        if not self._is_watched(trainer):
            return False
        self._evaluations.report()
        self._weights.before(trainer, trainer._scale / (args[0] if args else kwargs["batch_size"]))
        return True

    def _stepped(self, trainer: Any, *state: Any) -> None:
        """Close the step if the trainer is observed."""
        if not state[-1]:
            return
        here = self._here
        if here.latest is not None:
            self._trained.add(here.latest)
        name = self._weights.after(trainer)
        self._looks.report(here)
        self.job.stood_ready(EACH_STEP)
        if self._looks.are_due():
            self.job.stood_ready(SAMPLED)
        by_place: dict[str | None, list[float]] = {}
        for value, place in here.heads:
            by_place.setdefault(place, []).append(value)  # parts of an accumulated step
        losses = [
            Losses(series=series_of(place), value=float(np.mean(values)), location=place)
            for place, values in by_place.items()
        ]
        here.clear()
        self.job.step(losses, optimizer=name)
