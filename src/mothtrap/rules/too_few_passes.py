"""EST951: a fit ends before it has converged."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.estimators import EstimatorFitted
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._estimators import has_stood_still


@rule("EST951", needs=[Need(facts=(EstimatorFitted,))])
def too_few_passes(
    window: Window,
    *,
    falling: float = threshold(0.05, unit="of the earlier loss", source="chosen by hand"),
    late: int = threshold(10, unit="passes", source="chosen by hand, like n_iter_no_change"),
) -> Found | None:
    """A fit ends before it has converged.

    What it detects:
        A scikit-learn estimator that has used up all of its passes over the rows while its training
        loss was still falling.

    Why it matters:
        The library only prints a warning, so the model is used although more passes would improve
        it.

    Fires:
        Warning when all passes are used up and the training loss fell by more than `falling` in the
        last `late` passes; info when it hardly fell, or when no loss is known. Warning when a
        network stops although its training loss has hardly fallen since the first pass.

    Stays quiet:
        Fits that stopped on their own. `partial_fit`, where the script decides. `tol=None`.

    What to do:
        - Allow more passes: `max_iter=1000`.
        - Scale the columns first: `make_pipeline(StandardScaler(), model)`. Unscaled columns slow
          down convergence.
        - Raise `learning_rate_init` if the loss falls slowly and smoothly.
        - Raise `learning_rate_init` (0.001 for Adam) if the loss does not fall at all.

    Example:
        MLPClassifier(max_iter=20).fit(x, y)
        MLPClassifier(max_iter=1000, early_stopping=True).fit(x, y)

    References:
        https://scikit-learn.org/stable/modules/neural_networks_supervised.html#tips-on-practical-use
    """
    seen = [one for one in window.seen(EstimatorFitted) if one.call == "fit"]
    if not seen:
        raise NotEnoughData("no fit has ended")
    if not any(one.max_iterations for one in seen):
        raise NotApplicable("no estimator makes several passes over its rows")
    for one in seen:
        if has_stood_still(one):
            return Found.of(
                one,
                f"{one.estimator} stopped after {one.iterations} passes, and its training loss "
                f"hardly changed: {one.loss_curve[0]:.4g} at first, {one.loss_curve[-1]:.4g} at "
                "the end",
                evidence={"passes": one.iterations, "fit": one.fit},
                fixes=(3,),
            )
        if one.exhausted:
            curve = one.loss_curve
            back = min(late, len(curve) // 2)
            fell = (curve[-1 - back] - curve[-1]) / abs(curve[-1 - back]) if back else 0.0
            words = f": the training loss fell by {fell:.1%} in the last {back}" if back else ""
            return Found.of(
                one,
                f"{one.estimator} used all of its {one.max_iterations} passes{words}",
                severity="warning" if fell > falling else "info",
                evidence={
                    "value": fell,
                    "limit": falling,
                    "passes": one.iterations,
                    "fit": one.fit,
                },
            )
    return None
