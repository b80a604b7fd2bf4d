"""STR717: a dropout layer drops nearly all values."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import Evaluation, TrainingMode
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED


@rule(
    "STR717",
    title="excessive dropout",
    needs=[Need(facts=(TrainingMode,)), Need(facts=(Evaluation,), optional=True)],
    explains=(
        *UNLEARNED,
        "dead_units",
        "gradient_spike",
        "learning_rate_too_low",
        "loss_oscillating",
        "loss_spike",
        "vanishing_gradient",
    ),
)
def excessive_dropout(
    window: Window,
    *,
    rate: float = threshold(
        0.85,
        unit="of the values",
        source="Srivastava et al. 2014: test error rises for rates above 0.8",
    ),
    high_rate: float = threshold(
        0.7, unit="of the values", source="chosen by hand: a network may learn well with 0.6"
    ),
    ratio: float = threshold(
        1.3,
        unit="times the loss without dropout",
        source="measured on a series of rates: 1.3 to 2.1 at 0.7 and 0.8, which cost accuracy",
    ),
    looks: int = threshold(3, unit="consecutive evaluations", source="chosen by hand"),
) -> Found | None:
    """A dropout layer drops nearly all values.

    What it detects:
        Dropout layers in training with a rate so high that hardly any value passes.

    Why it matters:
        The remaining values are scaled up by 1 / (1 - rate). The next layers see a few large
        values that change in each step, so the gradient is mostly noise and the model learns
        slowly or not at all. A rate above 0.8 is often meant as the share to keep, as in early
        TensorFlow and in some papers.

    Fires:
        Warning when a dropout layer in training mode has a rate of at least `rate`. Also when the
        rate is at least `high_rate` and the model underfits: over the last `looks` evaluations, the
        mean loss without dropout is less than 1/`ratio` of the mean training loss.

    Stays quiet:
        For dropout layers in evaluation mode, functional dropout, and noise layers.

    What to do:
        - Pass the share to drop, not the share to keep: 1 - 0.9 = 0.1.
        - Use a rate of 0.1 to 0.5. If the model still overfits, use more data or a smaller model.

    Example:
        nn.Dropout(0.95)      # intended: keep 95 %
        nn.Dropout(0.05)

    References:
        Srivastava et al. 2014, Dropout: a simple way to prevent neural networks from
        overfitting, JMLR 15, figure 9, https://jmlr.org/papers/v15/srivastava14a.html
    """
    latest = window.latest(TrainingMode, by="module", steps=0)
    if not latest:
        raise NotEnoughData("no module was observed in a training step")
    if not any(mode.rates for mode in latest):
        raise NotApplicable("no trained model has dropout")
    limit = high_rate if _underfits(window, looks, ratio) else rate
    for mode in latest:
        awake = [one for one in mode.rates if one.name not in mode.sleeping]
        high = sorted((one for one in awake if one.rate >= limit), key=lambda one: -one.rate)
        if not high or not mode.trains:
            continue
        others = f"; {len(high) - 1} more above the limit" if len(high) > 1 else ""
        if limit < rate:
            others += f". The loss without dropout is less than 1/{ratio:g} of the training loss"
        return Found.of(
            mode,
            f"{high[0].name} drops {100 * high[0].rate:.3g} % of its values (limit {100 * limit:g} "
            f"%){others}",
            last_step=max(mode.step, window.last_step),
            layers=tuple(one.name for one in high),
            evidence={
                "value": high[0].rate,
                "limit": limit,
                "dropouts": [one.name for one in high],
            },
            location=high[0].location or mode.location,
        )
    return None


def _underfits(window: Window, looks: int, ratio: float) -> bool:
    """Return whether the training loss is far above evaluation losses, without dropout."""
    by_site: dict[str, list[Evaluation]] = {}
    for one in window.seen(Evaluation):
        by_site.setdefault(one.site, []).append(one)
    return any(
        len(seen) >= looks and _is_far_below(seen[-looks:], ratio) for seen in by_site.values()
    )


def _is_far_below(seen: list[Evaluation], ratio: float) -> bool:
    trained = [loss for one in seen for loss in one.train_losses.values()]
    evaluated = sum(one.value for one in seen)
    return len(trained) == len(seen) and 0 < evaluated < sum(trained) / ratio
