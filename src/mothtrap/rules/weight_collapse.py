"""WGT305: weights shrink to almost 0."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._loss_calls import CLASS_LOSSES, entropy, label_counts
from mothtrap.rules._weights import WEIGHTS, loss_level, optimizer_facts, weight_sizes

ALIKE = 0.01
"""Spread of probabilities over rows up to which predictions are the same; chosen by hand."""
LATEST = 16
"""Number of losses whose median is compared with the loss from guessing."""


@frozen
class WeightCollapse(Rule):
    """Weights shrink to almost 0.

    What it detects:
        Weight norms that fall, sample by sample, to a small fraction of their first value, while
        the loss does not fall.

    Why it matters:
        A layer with weights near 0 passes no signal forward or backward: the output is constant,
        and gradients vanish with the weights.

    Fires:
        Error when the norm of all weights together is below `collapsed_share` of its first captured
        value, over `samples` samples or more, and the loss is above `lost_share` of its initial
        value. Also when predictions are the same for all rows and a class loss is above the loss
        of guessing (because penalties in the loss may have fallen). Warning when this is true only
        for single layers.

    Stays quiet:
        Weights that shrink while the loss falls (sparsity, normalized layers in balance with their
        decay). Weights that started at 0. Vectors such as the scales of normalization layers.
        Weights with a single element.

    What to do:
        - PyTorch, JAX: Lower the weight decay: 1e-4 to 1e-2 with SGD and Adam, 0.01 to 0.1 with
          AdamW.
        - Keras: Lower the penalties on weights (`kernel_regularizer=keras.regularizers.L2(1e-4)`)
          and the optimizer's `weight_decay`.
        - Check penalties on weights that the script adds to the loss, and their factor.
        - Check code that scales or clips weights after the step.

    Example:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.5)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=5e-4)

    References:
        Loshchilov, Hutter 2019, Decoupled weight decay regularization,
        https://arxiv.org/abs/1711.05101
    """

    code = "WGT305"
    needs = (
        *WEIGHTS,
        Need(scalars=("loss",)),
        Need(facts=(LossCall, OptimizerFacts), optional=True),
    )
    proof = Proof(title="Norm of the weights", statistic="weight.l2", joint=True, scale="log")
    passes = True
    explains = (
        "constant_output",
        "dead_units",
        "labels_unrelated",
        "loss_not_decreasing",
        "stuck_at_chance",
        "vanishing_gradient",
    )

    collapsed_share: float = threshold(
        0.1, unit="of the first norm", source="chosen by hand: usual decay leaves half or more"
    )
    lost_share: float = threshold(0.8, unit="of the first losses", source="chosen by hand")
    samples: int = threshold(4, unit="captured steps", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Compare the norms of weights with the first captured norms."""
        sizes = weight_sizes(window)
        if sizes is None or len(sizes.steps_S) < self.samples:
            raise NotEnoughData(f"fewer than {self.samples} samples of the weights")
        level = loss_level(window)
        if level is None:
            raise NotEnoughData("the loss history is unknown")
        if level < self.lost_share and not _guesses(window):
            return []
        share_ST = sizes.values_ST / sizes.values_ST[0]
        joint_S = sizes.joint() / sizes.joint()[0]
        fallen = np.flatnonzero(share_ST[-1] <= self.collapsed_share)
        whole = joint_S[-1] <= self.collapsed_share
        if not len(fallen) and not whole:
            return []
        order = fallen[np.argsort(share_ST[-1][fallen])] if len(fallen) else np.arange(0)
        course_S = joint_S if whole else share_ST[:, order[0]]
        onset = _begins(course_S)
        value = float(course_S[-1])
        found = self.finding(
            window,
            severity=Severity.ERROR if whole else Severity.WARNING,
            step=int(sizes.steps_S[onset]),
            last_step=int(sizes.steps_S[-1]),
            count=len(sizes.steps_S) - onset,
            layers=tuple(sizes.tensors[i].name for i in order[:10]),
            message=(
                f"the norm of {'all weights' if whole else sizes.tensors[order[0]].name} has "
                f"fallen to {100 * value:.2g} % of its value at step {sizes.steps_S[0]}"
            ),
            evidence={
                "value": value,
                "limit": self.collapsed_share,
                "layers": len(fallen),
                "loss_level": level,
            },
            location=sizes.tensors[order[0]].location if len(order) else None,
            fixes=self._fixes(window),
        )
        return [found]

    def _fixes(self, window: Window) -> tuple[str, ...]:
        """Return the fixes: without weight decay, a penalty in the loss is the likely cause."""
        fixes = self.fixes(window)
        if not _has_penalty_only(window):
            return fixes
        return tuple(sorted(fixes, key=lambda fix: not fix.startswith("Check penalties")))


def _has_penalty_only(window: Window) -> bool:
    """Return whether the loss has a part besides a known loss, and no optimizer decays weights."""
    calls = [call for call in window.seen(LossCall) if call.mode is Mode.TRAIN]
    known = optimizer_facts(window).values()
    return bool(
        known
        and not any(one.weight_decay for one in known)
        and calls
        and all(call.alone is False for call in calls)
    )


def _guesses(window: Window) -> bool:
    """Return whether a class loss is no better than guessing, although its penalties fell."""
    calls = [call for call in window.seen(LossCall) if call.mode is Mode.TRAIN]
    losses = [series for series in window.scalars("loss") if len(series)]
    spreads = [call.prediction_spread for call in calls if call.prediction_spread is not None]
    if not spreads or spreads[-1] > ALIKE or any(call.reduction == "sum" for call in calls):
        return False
    if len(losses) != 1 or not any(
        call.operation in CLASS_LOSSES or call.operation.startswith("binary") for call in calls
    ):
        return False
    try:
        guess = entropy(label_counts(calls))
    except NotEnoughData:
        return False
    return float(np.median(losses[0].values_S[-LATEST:])) >= guess > 0


def _begins(course_S: np.ndarray) -> int:
    """Return the index of the last sample before the norm left its level."""
    near = np.flatnonzero(course_S >= 0.9 * course_S.max())
    return int(near[-1])
