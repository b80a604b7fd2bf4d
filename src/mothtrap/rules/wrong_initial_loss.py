"""LOS408: the first losses are far above the loss from guessing."""

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
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Series, Window
from mothtrap.rules._loss_calls import class_calls, have_partners
from mothtrap.rules._losses import Judgment, finite_part, judge_series

WARMER = (
    "Raise the temperature that divides the similarities: 0.05 to 0.5 is usual for normalized "
    "vectors."
)
NORMALIZED = "Normalize both vectors before their product: `F.normalize(z, dim=-1)`."
PRODUCT = "linear"
"""Name of a matrix product in the chain of a loss."""
TOO_COLD = (
    "The scores are the similarities divided by the temperature. If the temperature is too low, "
    "the softmax is nearly 1 for one wrong row, and only the most similar rows get a gradient."
)


@frozen
class WrongInitialLoss(Rule):
    """The first losses are far above the loss from guessing.

    What it detects:
        A class loss that begins far above the logarithm of the number of classes, the loss of a
        model that predicts all classes with equal probability.

    Why it matters:
        The model starts out confident and wrong: its scores are too large. The cause is unscaled
        inputs, weights that are too large, or labels that do not match the outputs. The first steps
        only undo this, with gradients that are far too large.

    Fires:
        Warning when the first loss and the median of the first `steps` losses are above the larger
        of two limits: `ratio` times the logarithm of the number of classes, and that logarithm plus
        `margin`.

    Stays quiet:
        Losses that begin low, as with pretrained weights. Summed losses. Losses with several terms,
        except the two directions of a contrastive loss, whose limit is twice as high. Soft targets.
        A run that resumes from a checkpoint.

    What to do:
        - Scale the inputs to mean 0 and standard deviation 1.
        - Use the library's default initialization, or scale down the weights of the last layer.
        - Check that labels and outputs have the same order and number of classes.

    Example:
        nn.init.normal_(model[-1].weight)                    # scores of 10 and more
        nn.init.normal_(model[-1].weight, std=0.01)

    References:
        Karpathy 2019, A recipe for training neural networks ("verify loss @ init"),
        https://karpathy.github.io/2019/04/25/recipe/
    """

    code = "LOS408"
    needs = (Need(facts=(LossCall,), scalars=("loss",)),)
    proof = Proof(title="Loss", scalars=("loss",), reference=("guessing",))

    steps: int = threshold(5, unit="losses from the first", source="chosen by hand")
    ratio: float = threshold(
        2.0, unit="times the logarithm of the classes", source="chosen by hand"
    )
    margin: float = threshold(
        3.0, unit="nats", source="chosen by hand: a confident guess is wrong by e^3 = 20 to 1"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check the first losses of every series of a class loss."""
        calls = class_calls(window)

        def judge(series: Series) -> Judgment | None:
            own = [call for call in calls if call.series == series.of]
            if not own:
                raise NotApplicable("this loss series is not a class loss")
            return self._judge(series, own)

        return judge_series(self, window, judge)

    def _judge(self, series: Series, calls: list[LossCall]) -> Judgment | None:
        at_once = [call for call in calls if call.step == calls[0].step]
        both_ways = _compares_both_ways(at_once)
        if not both_ways and (len(at_once) > 1 or calls[0].alone is False):
            raise NotApplicable("the loss has several terms")
        if any(call.reduction != "mean" for call in calls) or calls[0].label_counts is None:
            raise NotApplicable("the loss is not a mean over hard labels")
        steps_S, loss_S = finite_part(series)
        if series.total > len(series) or (len(steps_S) and steps_S[0] > 0):
            raise NotApplicable("the first losses of the run are not in the window")
        if len(loss_S) < self.steps:
            raise NotEnoughData(f"needs {self.steps} losses, saw {len(loss_S)}")
        chance = math.log(max(2, calls[0].classes or 2))
        highest = chance * len(at_once)  # the directions may be added instead of averaged
        limit = max(self.ratio * highest, highest + self.margin)
        begin = loss_S[: self.steps]
        partners = have_partners([call for call in calls if call.label_counts is not None])
        if min(float(begin[0]), float(np.median(begin))) <= limit:
            return None
        return Judgment(
            severity=Severity.WARNING,
            step=int(steps_S[0]),
            last_step=int(steps_S[self.steps - 1]),
            count=self.steps,
            message=(
                f"the first loss is {begin[0]:.4g}; a model that guesses among "
                f"{max(2, calls[0].classes or 2)} classes has a loss of {chance:.3g} (limit "
                f"{limit:.3g})"
            ),
            evidence={
                "value": float(begin[0]),
                "guessing": chance,
                "limit": limit,
                "classes": calls[0].classes,
            },
            fixes=_of_partners(calls[0]) if partners else None,
            why=TOO_COLD if partners else None,
        )


def _compares_both_ways(calls: list[LossCall]) -> bool:
    """Return whether a loss finds the partner of each row in both directions, as in CLIP."""
    alike = len({(call.classes, call.prediction_shape) for call in calls}) == 1
    whole = all(call.complete and not call.negated for call in calls)
    return len(calls) == 2 and alike and whole and have_partners(calls)


def _of_partners(call: LossCall) -> tuple[str, ...]:
    """Return the fixes for a loss whose classes are the rows of the batch.

    A product of vectors that were divided by their norms needs a higher temperature.
    """
    chain = call.chain
    behind = chain[chain.index(PRODUCT) + 1 :][:1] if PRODUCT in chain else ()
    unnormalized = bool(behind) and behind != ("div",)
    return (NORMALIZED, WARMER) if unnormalized else (WARMER, NORMALIZED)
