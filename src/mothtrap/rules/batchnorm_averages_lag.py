"""STR719: batch norms evaluate with running averages that are still near their initial values."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import Evaluation, NormAverages, TrainingMode
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._evaluations import LEARNED, SETTLED, Evaluated, evaluated, initial_shares
from mothtrap.rules._losses import has_players

RISEN = 1.2
"""Times the best loss above which an evaluation has become worse; chosen by hand."""


@frozen
class BatchnormAveragesLag(Rule):
    """Batch norms evaluate with running averages that are still near their initial values.

    What it detects:
        Evaluations that are much worse than training while the running averages of batch norms
        are still mostly their initial values.

    Why it matters:
        In evaluation a batch norm uses a running mean and a running standard deviation. While
        these are still close to 0 and 1, evaluation measures a different model than training.
        Its loss is meaningless, and so are early stopping and best checkpoints that use it.

    Fires:
        Warning when, in at least the last `evaluations` evaluations, more than `left` of the
        averages is their initial value and the evaluation loss exceeds the training loss by more
        than `ratio` of the training loss. No evaluation loss may be below `learned` of the first
        one, or of the loss from guessing, unless more than `mostly` of the averages is their
        initial value (`partly` if each batch has a weight below `tiny`) and the latest loss is
        about the best.

    Stays quiet:
        If evaluation is as good as training, or was good at first (see `overfit`). For averages
        loaded from a checkpoint. For GANs.

    What to do:
        - Keras: Update the averages faster: `BatchNormalization(momentum=0.9)`. The default,
          0.99, takes about 500 steps.
        - PyTorch: Update the averages faster: `nn.BatchNorm2d(..., momentum=0.1)`, the default.
          In PyTorch `momentum` is the weight of the new batch, in Keras of the old average.
        - Train for more steps before you rely on evaluations.

    Example:
        keras.layers.BatchNormalization(momentum=0.9999)
        keras.layers.BatchNormalization(momentum=0.9)

    References:
        Ioffe, Szegedy 2015, Batch normalization, https://arxiv.org/abs/1502.03167, section 3.1
    """

    code = "STR719"
    title = "BatchNorm averages lag behind"
    needs = (
        Need(facts=(Evaluation,)),
        Need(facts=(NormAverages,)),
        Need(facts=(TrainingMode,), scalars=("loss",), optional=True),
    )
    explains = ("overfit", "overtraining", "labels_unrelated")
    passes = True

    evaluations: int = threshold(3, unit="consecutive evaluations", source="chosen by hand")
    left: float = threshold(SETTLED, unit="of the averages", source="chosen by hand")
    learned: float = threshold(LEARNED, unit="of the first loss", source="chosen by hand")
    mostly: float = threshold(
        0.5,
        unit="of the averages",
        source="measured on a series of momenta: 0.7 costs a classifier 7 % of its accuracy",
    )
    partly: float = threshold(
        0.3,
        unit="of the averages",
        source="measured on a series of momenta: 0.35 costs a classifier 2 % of its accuracy",
    )
    tiny: float = threshold(
        0.01, unit="weight of a batch", source="the default of Keras; PyTorch has 0.1"
    )
    ratio: float = threshold(0.5, unit="of the training loss", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check every call site that evaluates a loss, using the slowest batch norm."""
        slow = list(window.seen(NormAverages))
        if not slow:
            modes = list(window.seen(TrainingMode))
            if modes and not any(mode.norms for mode in modes):
                raise NotApplicable("no trained model has batch norms")
            raise NotEnoughData(
                "no evaluation of a model with newly initialized batch norms was recorded"
            )
        if has_players(window):
            raise NotApplicable("several losses compete with each other")
        every = evaluated(window)
        if all(len(one.value_E) < self.evaluations for one in every):
            raise NotEnoughData(f"fewer than {self.evaluations} evaluations of one loss ran")
        slowest = min(slow, key=lambda norm: norm.momentum)
        found = [finding for one in every if (finding := self._judge(window, one, slowest))]
        return found[:1]

    def _is_harmless(self, one: Evaluated, left: float, momentum: float) -> bool:
        """Return whether an evaluation shows that the model has learned."""
        if one.last.best >= self.learned * one.start:
            return False
        rises = one.value_E[-1] > RISEN * one.last.best
        most = self.partly if momentum < self.tiny else self.mostly
        return left <= most or bool(rises)

    def _judge(self, window: Window, one: Evaluated, norm: NormAverages) -> Finding | None:
        left_E = initial_shares(window, one.step_E)
        is_worse_E = one.value_E - one.train_E > self.ratio * np.abs(one.train_E)
        good = np.flatnonzero(~(is_worse_E & (left_E > self.left)))
        first = int(good[-1]) + 1 if len(good) else 0
        count = len(left_E) - first
        if count < self.evaluations or self._is_harmless(one, float(left_E[-1]), norm.momentum):
            return None
        value, train, left = (float(array[-1]) for array in (one.value_E, one.train_E, left_E))
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=int(one.step_E[first]),
            last_step=int(one.step_E[-1]),
            count=count,
            mode=Mode.EVAL.value,
            layers=(norm.module,),
            message=(
                f"the running averages of {norm.module} are still {left:.0%} initial values "
                f"(limit {self.left:.0%}), because each batch has a weight of "
                f"{norm.momentum:.2g}; the evaluation loss is {value:.3g}, the training loss "
                f"{train:.3g}"
            ),
            evidence={
                "value": value,
                "train": train,
                "left": left,
                "limit": self.left,
                "momentum": norm.momentum,
                "site": one.last.site,
            },
            location=norm.location,
        )
