"""STR719: batch norms are evaluated with averages that have hardly left their first values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import Evaluation, NormAverages, TrainingMode
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._evaluations import LEARNED, SETTLED, Evaluated, evaluated, initial_shares
from mothtrap.rules._losses import has_players


@dataclass(frozen=True)
class BatchnormAveragesLag(Rule):
    """Batch norms are evaluated with averages that have hardly left their first values.

    What it detects:
        Evaluations that are much worse than training while the running averages of batch
        norms still consist of what they were made with.

    Why it matters:
        In evaluation a batch norm subtracts a running mean and divides by a running deviation.
        So long as these are 0 and 1 for the most part, the model that is evaluated is not the
        one that was trained: its loss says nothing, and neither do early stopping and saved
        best weights that go by it.

    Fires:
        Warning when, in the last `evaluations` evaluations at least, more than `left` of the
        averages was their first value, the loss of evaluation exceeded that of training by more
        than `ratio` of it, and none was below `learned` of the first one, or of that of guessing.

    Stays quiet:
        Where evaluations are as good as training anyhow, or were good at first: that is overfit.
        Averages that were loaded; games.

    What to do:
        - Keras: Let the averages follow faster: `BatchNormalization(momentum=0.9)`. The default,
          0.99, takes some 500 steps.
        - PyTorch: Let the averages follow faster: `nn.BatchNorm2d(..., momentum=0.1)`, the
          default. There it is the weight of the new batch, in Keras that of the old ones.
        - Make more steps before the first evaluation counts.

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

    evaluations: int = threshold(3, unit="evaluations running", source="chosen by hand")
    left: float = threshold(SETTLED, unit="of the averages", source="chosen by hand")
    learned: float = threshold(LEARNED, unit="of the first loss", source="chosen by hand")
    ratio: float = threshold(0.5, unit="of the training loss", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Judge every call site that evaluates a loss, by the slowest batch norm."""
        slow = list(window.seen(NormAverages))
        if not slow:
            modes = list(window.seen(TrainingMode))
            if modes and not any(mode.norms for mode in modes):
                raise NotApplicable("no model that is trained has batch norms")
            raise NotEnoughData("no evaluation of a model with new batch norms was seen")
        if has_players(window):
            raise NotApplicable("several losses play against each other")
        every = evaluated(window)
        if all(len(one.value_E) < self.evaluations for one in every):
            raise NotEnoughData(f"no loss was evaluated {self.evaluations} times")
        slowest = min(slow, key=lambda norm: norm.momentum)
        found = [finding for one in every if (finding := self._judge(window, one, slowest))]
        return found[:1]

    def _judge(self, window: Window, one: Evaluated, norm: NormAverages) -> Finding | None:
        left_E = initial_shares(window, one.step_E)
        is_worse_E = one.value_E - one.train_E > self.ratio * np.abs(one.train_E)
        good = np.flatnonzero(~(is_worse_E & (left_E > self.left)))
        first = int(good[-1]) + 1 if len(good) else 0
        count = len(left_E) - first
        if count < self.evaluations or one.last.best < self.learned * one.start:
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
                f"the running averages of {norm.module} are still {left:.0%} their initial value, "
                f"since each batch counts for {norm.momentum:.2g}; the loss of evaluation is "
                f"{value:.3g}, that of training {train:.3g}"
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
