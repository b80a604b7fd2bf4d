"""WGT306: weights grow without bound."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._weights import WEIGHTS, weight_sizes


@frozen
class WeightGrowth(Rule):
    """Weights grow without bound.

    What it detects:
        A norm, of all weights or of one layer, that is many times its first value and still rising
        at the last sample.

    Why it matters:
        Activations grow with the weights. Units saturate, logits leave the range in which softmax
        has a gradient, and small number types overflow.

    Fires:
        Warning when the norm of all weights together is `growth_ratio` times its first captured
        value and rose by `still_rising` since the middle of the run, over `samples` samples or more
        and at least `steps` steps.

    Stays quiet:
        Weights that grow at first and then settle. Weights that started at 0. Vectors. The slow
        growth of a classifier on separable data.

    What to do:
        - Lower the learning rate, or clip the gradient norm.
        - Add a little weight decay: 1e-4 with SGD, 0.01 with AdamW.
        - Check the sign of the loss, and of penalties on the weights.

    Example:
        penalty = -1e-2 * sum(p.pow(2).sum() for p in model.parameters())    # rewards size
        penalty = 1e-2 * sum(p.pow(2).sum() for p in model.parameters())

    References:
        Krogh, Hertz 1991, A simple weight decay can improve generalization, NIPS 4,
        https://proceedings.neurips.cc/paper/1991/hash/8eefcfdf5990e441f0fb6f3fad709e21-Abstract.html
    """

    code = "WGT306"
    needs = WEIGHTS
    proof = Proof(
        title="Norm of all weights",
        statistic="weight.l2",
        joint=True,
        reference=("first", "limit"),
        scale="log",
    )
    explains = ("activation_growth", "overflow_risk", "saturated_activation")

    growth_ratio: float = threshold(20.0, unit="times the first norm", source="chosen by hand")
    still_rising: float = threshold(
        1.5, unit="times the norm in the middle", source="chosen by hand: log growth stays below"
    )
    samples: int = threshold(5, unit="captured steps", source="chosen by hand")
    steps: int = threshold(100, unit="steps", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Compare the norms of weights with the first norms and the norms in the middle."""
        sizes = weight_sizes(window)
        if sizes is None or len(sizes.steps_S) < self.samples:
            raise NotEnoughData(f"fewer than {self.samples} samples of the weights")
        steps_S, joint_S = sizes.steps_S, sizes.joint()
        if steps_S[-1] - steps_S[0] < self.steps:
            raise NotEnoughData(f"fewer than {self.steps} steps lie between the samples")
        half = int(np.searchsorted(steps_S, (steps_S[0] + steps_S[-1]) / 2))
        ratio = float(joint_S[-1] / joint_S[0])
        if ratio < self.growth_ratio or joint_S[-1] < self.still_rising * joint_S[half]:
            return []
        share_T = sizes.values_ST[-1] / sizes.values_ST[0]
        order = np.argsort(-share_T)[:10]
        onset = int(np.argmax(joint_S >= 2 * joint_S[0]))
        found = self.finding(
            window,
            severity=Severity.WARNING,
            step=int(steps_S[onset]),
            last_step=int(steps_S[-1]),
            count=len(steps_S) - onset,
            layers=tuple(sizes.tensors[i].name for i in order),
            message=(
                f"the norm of all weights is {ratio:.3g}x its value at step {steps_S[0]} "
                f"(limit {self.growth_ratio:g}x) and still rising"
            ),
            evidence={
                "value": float(joint_S[-1]),
                "first": float(joint_S[0]),
                "ratio": ratio,
                "limit": self.growth_ratio,
            },
            location=sizes.tensors[order[0]].location,
        )
        return [found]
