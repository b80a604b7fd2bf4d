"""TRE914: a custom objective returns wrong gradients."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.trees import BoostingBegan, GradientsGiven
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each


@rule(
    "TRE914",
    severity="error",
    needs=[Need(facts=(BoostingBegan, GradientsGiven)), OF_BOOSTED],
    explains=(
        "loss_diverging",
        "loss_not_decreasing",
        "nonfinite_loss",
        "stopped_too_late",
        "overtraining",
        "boosting_rate_too_high",
        "nothing_learned",
        "tree_not_growing",
        "boosting_rate_too_low",
        "boosting_starts_far_off",
    ),
)
def wrong_objective_gradient(
    window: Window,
    *,
    correlation: float = threshold(
        0.1, unit="correlation with the labels", source="chosen by hand"
    ),
    share: float = threshold(0.01, unit="of the hessians", source="chosen by hand"),
) -> list[Found]:
    """A custom objective returns wrong gradients.

    What it detects:
        Gradients with the wrong sign, hessians that are not positive, and values that are not
        finite, returned by a custom objective in the first round.

    Why it matters:
        The library subtracts the gradient. If the objective returns label minus prediction, each
        tree moves away from the labels. If the hessian is 0 or negative, leaf values are undefined
        or have the wrong sign.

    Fires:
        Error when gradients and labels correlate by more than `correlation` (the gradients of a
        loss fall as the label grows), when more than `share` of the hessians are not positive, or
        when any value is not finite.

    Stays quiet:
        Built-in objectives. Labels that are all the same.

    What to do:
        - Return the derivative of the loss with respect to the prediction, not its negative:
          prediction minus label for a squared error, `sigmoid(margin) - label` for two classes.
        - Return a positive hessian: `numpy.maximum(hessian, 1e-6)`.
        - Compute the hessian from probabilities. The library passes margins, so apply the sigmoid
          first: `p = 1 / (1 + exp(-margin))`. The hessian is `p * (1 - p)`.

    Example:
        def objective(predicted, train): return train.get_label() - predicted, ones
        def objective(predicted, train): return predicted - train.get_label(), ones

    References:
        https://xgboost.readthedocs.io/en/stable/tutorials/custom_metric_obj.html
    """

    def judge(one: Boosted) -> Found | None:
        seen = one.gradients
        if seen is None:
            raise NotEnoughData("no gradients were recorded")
        if seen.nonfinite:
            value, limit = float(seen.nonfinite), 0.0
            words = f"{seen.nonfinite} gradients or hessians of {seen.rows} rows are not finite"
        elif seen.against is not None and seen.against > correlation:
            value, limit = seen.against, correlation
            words = (
                f"gradients grow with the labels (correlation {seen.against:.2f}, limit "
                f"{correlation:g}): their sign is wrong"
            )
        elif seen.hessians_below > share:
            value, limit = seen.hessians_below, share
            words = f"{value:.1%} of the hessians are not positive (limit {limit:.0%})"
        else:
            return None
        return Found.of(
            one.began,
            f"the custom objective is wrong in the first round: {words}",
            evidence={"value": value, "limit": limit, "rows": seen.rows, "fit": one.began.fit},
            fixes=(1, 2) if seen.hessians_below > share and not seen.nonfinite else (0, 1),
        )

    return judge_each(window, judge)
