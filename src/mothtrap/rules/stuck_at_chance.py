"""LOS407: a classification loss stays at the level of guessing."""

from __future__ import annotations

import math

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Series, Window
from mothtrap.rules._confusions import confusion
from mothtrap.rules._loss_calls import have_partners
from mothtrap.rules._losses import (
    Judgment,
    finite_part,
    has_players,
    judge_series,
    learning_rates,
)
from mothtrap.rules._stretches import block_medians

BLOCK_STEPS = 20
"""Losses per median; chosen by hand: smooths batches without hiding a trend."""

MIN_SPREADS = 3
"""Sampled predictions that must agree before they are called constant; by hand."""

IDENTICAL_SPREAD = 1e-5
"""Relative spread of predictions that are equal except for float32 rounding."""

GROWING_RATIO = 1.1
"""Growth of the spread on a plateau that training is about to leave; measured on deep sigmoid
networks that leave the plateau after 600 steps: 1.2 at 500 steps, 1.0 if stuck."""

ACCURATE, MIN_LABELS = 1.5, 100
"""Right predictions, as a multiple of the labels of the most frequent class, from which a model has
learned, and the minimum number of labels; chosen by hand. Its loss may be that high because of
label smoothing."""

PARTNERS = (
    "Check that both views of a row come from the same example: keep the rows of both batches in "
    "the same order, without `flip` or a shuffle between them.",
    "Check the labels: the label of row i is the index of its other view, not of row i itself.",
    "Check the temperature that divides the similarities, and the learning rate.",
)
"""Fixes for losses whose classes are the rows of the batch."""


@frozen
class StuckAtChance(Rule):
    """A classification loss stays at the level of guessing.

    What it detects:
        A class loss that stays at the value of a constant guess: the logarithm of the number of
        classes, or the entropy of the label frequencies where that is lower.

    Why it matters:
        The model ignores its inputs. At most it has learned how frequent each class is.

    Fires:
        After `num_steps` steps within `below_ratio` to `above_ratio` of that value without falling;
        after `falling_steps` for a loss that still falls towards it from above. Error when the
        predictions of all examples are the same, or when for `constant_steps` steps they hardly
        differ (their spread is below `constant_spread` of an even guess) and the spread does not
        grow; else a warning.

    Stays quiet:
        Loss calls whose targets all belong to one class within a call (a GAN's real and fake
        batches), except where the classes are the rows of the batch, as in contrastive learning.
        Soft targets. Competing losses (GAN). The first steps. A plateau from which the loss still
        falls below that level. Steps with a learning rate of 0. Predictions that are right far
        more often than guesses, as with strong label smoothing.

    What to do:
        - Look at some rows: does each label belong to its input? Shuffle and split inputs and
          labels together.
        - Check that the inputs differ between examples, and that they are scaled as the model
          expects.
        - Check that gradients reach the first layers. Look for dead units, a detached tensor, or
          parameters that no optimizer holds.
        - Check the learning rate: it may be too large or too small.

    Example:
        for layer in model.modules():
            if isinstance(layer, nn.Linear):
                nn.init.zeros_(layer.weight)   # all units stay equal
                nn.init.kaiming_normal_(layer.weight)

    References:
        Karpathy 2019, A recipe for training neural networks,
        https://karpathy.github.io/2019/04/25/recipe/
    """

    code = "LOS407"
    needs = (
        Need(facts=(LossCall,), scalars=("loss",)),
        Need(scalars=("lr",), optional=True),
    )
    proof = Proof(title="Loss", scalars=("loss",), reference=("guessing",))
    explains = (
        "loss_not_decreasing",
        "overtraining",
    )
    passes = True

    num_steps: int = threshold(150, unit="consecutive steps of the series", source="chosen by hand")
    falling_steps: int = threshold(
        250, unit="steps of a loss that still falls to that level", source="chosen by hand"
    )
    below_ratio: float = threshold(
        0.98, unit="of the loss from guessing", source="chosen by hand: below it, the model learns"
    )
    above_ratio: float = threshold(
        1.10,
        unit="of the loss from guessing",
        source="chosen by hand: the loss from guessing is noisy",
    )
    constant_spread: float = threshold(
        0.02,
        unit="standard deviation over examples, relative to 1/classes",
        source="chosen by hand: fresh networks show 0.05 to 0.5",
    )

    constant_steps: int = threshold(
        500,
        unit="consecutive steps of the series",
        source="measured: deep sigmoid networks leave this plateau after 600 steps, and the "
        "growing spread shows it at 500",
    )

    def check(self, window: Window) -> list[Finding]:
        """Check every class-loss series."""
        calls = [call for call in window.seen(LossCall) if call.mode is Mode.TRAIN]
        if not calls:
            raise NotEnoughData("no loss was traced to its operation")
        if not any(call.classes or call.operation.startswith("binary") for call in calls):
            raise NotApplicable("no class loss was recorded")
        if has_players(window):
            raise NotApplicable("several losses compete with each other")
        return judge_series(self, window, lambda series: self._judge(window, series, calls))

    def _judge(self, window: Window, series: Series, calls: list[LossCall]) -> Judgment | None:
        own = _calls_of(series, calls)
        partners = own if have_partners(own) else []
        guess, classes = _partners(partners) if partners else _guessing(_label_counts(own))
        steps_S, loss_S = _while_learning(window, series)
        if len(loss_S) < self.num_steps:
            raise NotEnoughData(f"needs {self.num_steps} steps, saw {len(loss_S)}")
        begin = self._begin(loss_S, guess)
        if len(loss_S) - begin < self.num_steps:
            return None
        blocks = block_medians(loss_S[begin:], BLOCK_STEPS)
        half = len(blocks) // 2
        late = np.median(blocks[half:])
        falls = bool(late < 0.995 * np.median(blocks[:half]))
        if falls and (late < guess or len(loss_S) - begin < self.falling_steps):
            return None
        step = int(steps_S[begin])
        if _is_accurate([call for call in own if call.step >= step]):
            return None
        spread_N = np.array([c.prediction_spread for c in own if c.step >= step], dtype=float)
        spread_N = classes * spread_N[np.isfinite(spread_N)]
        relative = float(np.median(spread_N)) if len(spread_N) else None
        constant = not partners and self._is_constant(spread_N, len(loss_S) - begin)
        level = float(np.median(loss_S[begin:]))
        words = "; its predictions hardly differ between examples" if constant else ""
        among = f"among {classes} rows" if partners else f"by the frequencies of {classes} classes"
        return Judgment(
            severity=Severity.ERROR if constant else Severity.WARNING,
            step=step,
            last_step=int(steps_S[-1]),
            count=len(loss_S) - begin,
            message=(
                f"the loss has stayed at {level:.4g} for {len(loss_S) - begin} steps; guessing "
                f"{among} gives {guess:.4g}{words}"
            ),
            fixes=PARTNERS if partners else None,
            evidence={
                "value": level,
                "guessing": guess,
                "classes": classes,
                "relative_spread": relative,
                "limit": self.constant_spread,
            },
        )

    def _is_constant(self, spread_N: Floats, steps: int) -> bool:
        """Return whether sampled spreads, in order, belong to predictions that ignore the input."""
        if len(spread_N) < MIN_SPREADS:
            return False
        if float(spread_N.max()) <= IDENTICAL_SPREAD:
            return True
        if steps < self.constant_steps or float(np.median(spread_N)) > self.constant_spread:
            return False
        third = max(1, len(spread_N) // 3)
        early, late = float(np.median(spread_N[:third])), float(np.median(spread_N[-third:]))
        return late < GROWING_RATIO * early

    def _begin(self, loss_S: Floats, guess: float) -> int:
        """Return the start of the final plateau at the level of guessing."""
        begin = len(loss_S)
        for stop in range(len(loss_S), 0, -BLOCK_STEPS):
            start = max(0, stop - BLOCK_STEPS)
            level = float(np.median(loss_S[start:stop]))
            if not self.below_ratio * guess <= level <= self.above_ratio * guess:
                break
            begin = start
        return begin


def _calls_of(series: Series, calls: list[LossCall]) -> list[LossCall]:
    """Return the calls that made a series: by its label, else by the line of the loss."""
    own = [call for call in calls if call.series == series.of]
    if not own:
        own = [c for c in calls if c.series is None and c.location == series.location]
    if not own:
        raise NotApplicable("this loss series is not a class loss")
    return own


def _is_accurate(calls: list[LossCall]) -> bool:
    """Return whether predictions are right far more often than guesses, whatever their loss is."""
    confusion_KK = confusion(calls)
    if confusion_KK is None or confusion_KK.sum() < MIN_LABELS:
        return False
    return bool(np.trace(confusion_KK) > ACCURATE * confusion_KK.sum(axis=1).max())


def _partners(calls: list[LossCall]) -> tuple[float, int]:
    """Return the loss from guessing the partner of a row, and the number of candidates."""
    shape = calls[-1].prediction_shape or ()
    return math.log(shape[-1]), shape[-1]


def _label_counts(calls: list[LossCall]) -> Floats:
    """Return labels per class over all calls, shape (classes,).

    Raises:
        NotEnoughData: no labels were sampled.
        NotApplicable: every call has only one class.
    """
    sampled = [call.label_counts for call in calls if call.label_counts]
    if not sampled:
        raise NotEnoughData("no labels of this loss were recorded")
    size = max(2, max(len(counts) for counts in sampled))
    counts_NK = np.zeros((len(sampled), size))
    for row, counts in enumerate(sampled):
        counts_NK[row, : len(counts)] = counts
    if ((counts_NK > 0).sum(axis=1) <= 1).all() and counts_NK.sum(axis=1).max() > 1:
        raise NotApplicable("all targets of a call belong to one class")
    total_K: Floats = counts_NK.sum(axis=0)
    return total_K


def _guessing(counts_K: Floats) -> tuple[float, int]:
    """Return the loss of the best constant guess, in nats, and the number of classes."""
    share_K = counts_K[counts_K > 0] / counts_K.sum()
    entropy = float(-(share_K * np.log(share_K)).sum())
    if entropy <= 0:
        raise NotApplicable("all targets belong to one class")
    return entropy, len(counts_K)


def _while_learning(window: Window, series: Series) -> tuple[Floats, Floats]:
    """Return steps and finite losses, without the steps whose learning rate was 0."""
    steps_S, loss_S = finite_part(series)
    rate_steps_S, rate_S = learning_rates(window, series)
    idle_S = np.isin(steps_S, rate_steps_S[rate_S == 0])
    return steps_S[~idle_S].astype(np.float64), loss_S[~idle_S]
