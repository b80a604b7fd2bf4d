"""OPT613: the averaged weights at the end of training are still mostly initial weights."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.epochs import EpochMetrics, WeightsAveraged
from mothtrap.core.facts.evaluations import CopyLag, EvaluatedCopy
from mothtrap.core.found import Found
from mothtrap.core.needs import Need, any_of
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window

MIN_LOOKS = 4
"""Fewest inspections of a copy that show that it changes all the time; chosen by hand."""


@rule(
    "OPT613",
    title="averaged weights lag behind",
    needs=[
        *any_of(Need(facts=(WeightsAveraged,)), Need(facts=(CopyLag,))),
        Need(facts=(EpochMetrics, EvaluatedCopy), optional=True),
    ],
    explains=("labels_unrelated", "nothing_learned", "overfit", "overtraining", "stuck_at_chance"),
)
def averaged_weights_lag(
    window: Window,
    *,
    left: float = threshold(0.1, unit="of the average", source="chosen by hand"),
    moved: float = threshold(
        0.005, unit="of the distance that the weights moved", source="chosen by hand"
    ),
    steps: int = threshold(200, unit="steps between looks at a copy", source="chosen by hand"),
    evaluated: float = threshold(
        0.3,
        unit="of the distance that the weights moved, for a copy that is only evaluated",
        source="chosen by hand: the mean of all weights of a steady training is at 0.5",
    ),
    seldom: float = threshold(0.1, unit="of the steps", source="chosen by hand"),
) -> Found | None:
    """The averaged weights at the end of training are still mostly initial weights.

    What it detects:
        An optimizer that replaces the weights by their moving average when `fit` ends, with a
        momentum so close to 1 that the average is still near the initial weights. Also a copy of
        the trained model that is evaluated, and follows its weights much too slowly.

    Why it matters:
        During `fit` the model is evaluated with its current weights, and the metrics look good.
        The saved model has the averaged weights, which have hardly learned anything.

    Fires:
        Warning at the end of `fit` when more than `left` of the average is its initial value.
        Warning at the end of a PyTorch job when a copy of the trained model, over at least `steps`
        steps, moved less than `moved` times as far as the trained weights are away from where the
        copy was. For a copy that changes all the time, but runs in at most `seldom` of the steps,
        the limit is `evaluated`, because such a copy is no slow target of the training.

    Stays quiet:
        For optimizers that replace the weights by the average during training, because
        evaluations then show the problem. For copies that never change (see LOS413), or only now
        and then, such as the best weights so far.

    What to do:
        - Lower the momentum so that it averages over at most a tenth of the steps: 0.99 for
          1,000 steps.
        - Train for longer: an average with a momentum of 0.999 needs about 5,000 steps.

    Example:
        keras.optimizers.Adam(1e-3, use_ema=True, ema_momentum=0.9999)
        keras.optimizers.Adam(1e-3, use_ema=True, ema_momentum=0.99)

    References:
        Polyak, Juditsky 1992, Acceleration of stochastic approximation by averaging,
        https://doi.org/10.1137/0330046
    """
    for one in window.seen(CopyLag):
        limit = evaluated if _is_evaluated_average(window, one, seldom) else moved
        if one.steps >= steps and 0 < one.moved < limit:
            return Found.of(
                one,
                f"{one.module}, a copy of the trained model, moved only {one.moved:.2g} times as "
                f"far as the trained weights in {one.steps} steps (limit {limit:g}): "
                f"{'it still has' if one.moved < moved else 'its weights are still close to'} "
                "the weights of the start",
                step=one.step - one.steps,
                last_step=one.step,
                evidence={"value": one.moved, "limit": limit, "steps": one.steps},
            )
    seen = list(window.seen(WeightsAveraged))
    if not seen and any(window.seen(CopyLag)):
        return None
    if not seen:
        if any(window.seen(EpochMetrics)):
            raise NotApplicable("no optimizer averages the weights")
        raise NotEnoughData("no training run has ended")
    last = seen[-1]
    share = last.momentum**last.updates
    if share <= left:
        return None
    return Found.of(
        last,
        f"at the end of `fit`, {share:.0%} of the averaged weights still comes from the initial "
        f"weights (limit {left:.0%}), after {last.updates} updates with a momentum of "
        f"{last.momentum:g}",
        evidence={"left": share, "limit": left, "momentum": last.momentum},
    )


def _is_evaluated_average(window: Window, lag: CopyLag, seldom: float) -> bool:
    """Return whether a copy of a model changes at each look, but rarely runs."""
    digests = [one.digest for one in window.seen(EvaluatedCopy) if one.module == lag.module]
    changes = len(digests) >= MIN_LOOKS and len(set(digests)) == len(digests)
    return changes and lag.ran is not None and lag.ran <= seldom * lag.steps
