"""DAT506: the data are sorted by target, and the batches are not shuffled."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mothtrap.core.errors import CannotJudge, NotApplicable, NotEnoughData
from mothtrap.core.facts.data import StatesKept, TargetOrder
from mothtrap.core.facts.evaluations import BootstrappedTargets
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.facts.targets import TrainedTarget
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._loss_calls import targets_move


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sorted:
    """Share of the targets' variation that lies between batches, and the message."""

    share: float
    message: str
    values: bool = False


@frozen
class UnshuffledBatches(Rule):
    """The data are sorted by target, and the batches are not shuffled.

    What it detects:
        Targets that differ far more between the batches of a loss call than within them: most
        batches have one class, or targets that rise from batch to batch.

    Why it matters:
        A step on one class moves the model to predict that class, and the next class moves it back.
        Gradients of these batches do not estimate the gradient of the whole dataset. The model
        forgets as fast as it learns, and ends with the data of its last steps.

    Fires:
        After `blocks` batches (small ones are merged until they have `block_targets` targets), when
        at least `between_share` of the variation of the targets lies between batches, and shuffled
        data would show that with a probability below `chance`. Numeric targets need `value_blocks`
        batches. Error when the loader takes its
        samples in the order of the data, else a warning. Numeric targets give a warning, and must
        rise, or fall, in `monotone_share` of the batches.

    Stays quiet:
        Data whose order has nothing to do with the targets. Rare classes. Batches that are balanced
        on purpose. A call site that always gets one class, or two classes in turn, such as a GAN's
        discriminator. Numbers that the model, or a copy of it, outputs. Actions and flags of
        transitions from which such numbers are computed. Recurrent layers that keep their state
        from batch to batch (`stateful=True` in Keras), which need the rows in order.

    What to do:
        - PyTorch: Shuffle: `DataLoader(..., shuffle=True)`, or a new `torch.randperm` each epoch if
          you slice tensors by hand.
        - Keras: Shuffle: arrays with `fit(..., shuffle=True)`, a `tf.data.Dataset` with
          `dataset.shuffle(rows)` before `batch`, with a buffer as large as the dataset.
        - JAX: Shuffle each epoch: `order = np.random.permutation(len(x))`, and take the batches
          from `x[order]` and `y[order]`.
        - If the order within a sequence matters, shuffle the sequences.
        - Shuffle once before splitting into training and validation data, too. Otherwise they
          contain different classes.

    Example:
        loader = DataLoader(data, batch_size=64)                  # a file grouped by class
        loader = DataLoader(data, batch_size=64, shuffle=True)

    References:
        Bengio 2012, Practical recommendations for gradient-based training of deep
        architectures, section 3.1.1, https://arxiv.org/abs/1206.5533
    """

    code = "DAT506"
    needs = (
        Need(facts=(TargetOrder,)),
        Need(facts=(LossCall, BootstrappedTargets, TrainedTarget, StatesKept), optional=True),
    )
    explains = (
        *UNLEARNED,
        "constant_output",
        "dead_units",
        "exploding_gradient",
        "gradient_spike",
        "labels_unrelated",
        "learning_rate_too_high",
        "learning_rate_too_low",
        "loss_diverging",
        "loss_oscillating",
        "loss_spike",
        "overfit",
        "overtraining",
        "too_good_to_be_true",
        "update_ratio",
        "vanishing_gradient",
    )

    blocks: int = threshold(8, unit="batches, small ones merged", source="chosen by hand")
    block_targets: int = threshold(
        16, unit="targets in a batch", source="chosen by hand: a few targets are often alike"
    )
    value_blocks: int = threshold(
        16,
        unit="batches of numeric targets",
        source="chosen by hand: enough to recognize a model that computes its own targets",
    )
    between_share: float = threshold(
        0.5,
        unit="share of the variation",
        source="measured: 0.0 for shuffled data, 0.6 to 1.0 for sorted data, 0.2 for batches "
        "of 4 out of 10 classes",
    )
    chance: float = threshold(1e-6, unit="probability", source="chosen by hand")
    monotone_share: float = threshold(
        0.7, unit="of the changes between batches", source="chosen by hand: 0.5 by chance"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check the latest, longest record of every call site."""
        latest = {order.site: order for order in window.seen(TargetOrder)}
        if not latest:
            raise NotEnoughData("targets were recorded for too few batches")
        if any(not one.shuffled for one in window.seen(StatesKept)):
            raise NotApplicable("the order matters: layers keep their state from batch to batch")
        moves = targets_move(window) or any(True for _ in window.seen(TrainedTarget))
        findings, reasons = [], []
        for order in latest.values():
            try:
                if moves and (order.loaded or not order.counts):
                    raise NotApplicable("the targets are outputs of the model itself")
                found = self._classes(order) if order.counts else self._values(order)
            except CannotJudge as reason:
                reasons.append(reason)
                continue
            if found:
                findings.append(self._finding(window, order, found))
        if len(reasons) == len(latest):
            raise reasons[-1]
        findings.sort(key=lambda finding: finding.severity.rank)
        return findings[:1]

    def _classes(self, order: TargetOrder) -> _Sorted | None:
        counts_BK = np.array(order.counts, dtype=float)
        blocks_BK = _put_together(counts_BK, counts_BK.sum(axis=1), self.block_targets)
        blocks_BK = blocks_BK[:, blocks_BK.sum(axis=0) > 0]
        batches, classes = blocks_BK.shape
        if batches < self.blocks:
            raise NotEnoughData(f"needs {self.blocks} batches of targets, saw {batches}")
        if classes < 2:
            raise NotApplicable("so far, all targets of a loss belong to one class")
        share, surprise = _between(blocks_BK)
        if share < self.between_share or surprise < _normal_quantile(self.chance):
            return None
        if classes == 2 and _longest_run(blocks_BK.argmax(axis=1)) < 3:
            return None
        single = int((blocks_BK.max(axis=1) >= 0.9 * blocks_BK.sum(axis=1)).sum())
        return _Sorted(
            share=share,
            message=f"{single} of {batches} batches have (nearly) only one of {classes} classes",
        )

    def _values(self, order: TargetOrder) -> _Sorted | None:
        moments_B3 = np.array(order.moments, dtype=float)
        count_B, mean_B, variance_B = moments_B3.T
        if not np.isfinite(moments_B3).all():
            raise NotApplicable("targets are not finite")
        sums_B3 = np.stack([count_B, count_B * mean_B, count_B * (variance_B + mean_B**2)], axis=1)
        count_B, sum_B, square_B = _put_together(sums_B3, count_B, self.block_targets).T
        if len(count_B) < self.value_blocks:
            raise NotEnoughData(f"needs {self.value_blocks} batches of targets, saw {len(count_B)}")
        mean_B = sum_B / count_B
        middle = float(sum_B.sum() / count_B.sum())
        total = float(square_B.sum() - count_B.sum() * middle**2)
        between = float((count_B * (mean_B - middle) ** 2).sum())
        if total <= 1e-12 * float(square_B.sum()):
            raise NotApplicable("all targets of a loss are the same")
        share = float(between / total)
        rising = float((np.diff(mean_B) > 0).mean())
        if share < self.between_share or max(rising, 1 - rising) < self.monotone_share:
            return None
        way = "rise" if rising > 0.5 else "fall"
        return _Sorted(
            share=share,
            message=(
                f"targets {way} from one batch to the next in {max(rising, 1 - rising):.0%} of "
                "cases"
            ),
            values=True,
        )

    def _finding(self, window: Window, order: TargetOrder, found: _Sorted) -> Finding:
        in_order = order.sampler == "sequential"
        where = f"; {order.loader} takes samples in the order of the data" if in_order else ""
        return self.finding(
            window,
            severity=Severity.ERROR if in_order and not found.values else Severity.WARNING,
            step=order.steps[0],
            last_step=order.steps[-1],
            count=len(order.steps),
            message=(
                f"{found.message}: {found.share:.0%} of the targets' variation lies between "
                f"batches (shuffled data: about 0%){where}"
            ),
            evidence={
                "between_share": found.share,
                "limit": self.between_share,
                "batches": len(order.steps),
                "sampler": order.sampler,
            },
            location=order.location,
        )


def _put_together(rows_BF: Floats, size_B: Floats, least: int) -> Floats:
    """Merge consecutive rows until each has `least` targets; an incomplete rest is dropped."""
    sums: list[Floats] = []
    begin, size = 0, 0.0
    for place, own in enumerate(size_B):
        size += own
        if size >= least:
            sums.append(rows_BF[begin : place + 1].sum(axis=0))
            begin, size = place + 1, 0.0
    return np.array(sums).reshape(-1, rows_BF.shape[1])


def _between(counts_BK: Floats) -> tuple[float, float]:
    """Return the share of class variation between batches, and its normal deviate.

    The share is Cramer's V squared of the table of batches and classes, minus its value by
    chance. The normal deviate of its chi-squared follows Wilson and Hilferty (1931).
    """
    total = float(counts_BK.sum())
    expected_BK = counts_BK.sum(axis=1, keepdims=True) * counts_BK.sum(axis=0) / total
    chi2 = float(((counts_BK - expected_BK) ** 2 / expected_BK).sum())
    batches, classes = counts_BK.shape
    freedom = (batches - 1) * (classes - 1)
    most = total * (min(batches, classes) - 1)
    spread = 2 / (9 * freedom)
    surprise = ((chi2 / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    if most <= freedom:
        return 0.0, surprise
    return max(0.0, (chi2 - freedom) / (most - freedom)), surprise


def _normal_quantile(chance: float) -> float:
    """Return the deviate that a normal variable exceeds with a small probability."""
    low, high = 0.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if math.erfc(middle / math.sqrt(2)) / 2 > chance else (low, middle)
        )
    return high


def _longest_run(labels_B: np.ndarray) -> int:
    """Return the largest possible number of equal neighbors."""
    changes = np.flatnonzero(np.diff(labels_B)) + 1
    edges = np.concatenate(([0], changes, [len(labels_B)]))
    return int(np.diff(edges).max())
