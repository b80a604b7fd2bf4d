"""LOS422: a loss with a margin stays at its margin."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.pairs import MarginLoss
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED

OWN = "the loss"
"""Name of a loss that was read from its graph; a ranking loss of PyTorch may have no margin."""


@rule(
    "LOS422",
    title="loss stays at its margin",
    needs=[Need(facts=(MarginLoss,))],
    explains=(
        *UNLEARNED,
        *("constant_output", "labels_unrelated", "vanishing_gradient", "exploding_gradient"),
        *("gradient_spike", "loss_spike", "loss_diverging"),
    ),
)
def stuck_at_margin(
    window: Window,
    *,
    calls: int = threshold(200, unit="calls to the loss", source="chosen by hand"),
    worthless_calls: int = threshold(
        600,
        unit="calls to the loss",
        source="chosen by hand: slow training has left the margin by then",
    ),
    below: float = threshold(0.98, unit="of the margin", source="chosen by hand"),
    above: float = threshold(1.1, unit="of the margin", source="chosen by hand: batches vary"),
    above_pairs: float = threshold(
        1.5,
        unit="of the value for equal distances, for pairs",
        source="chosen by hand: equal and different pairs pull in opposite directions",
    ),
) -> Found | None:
    """A loss with a margin stays at its margin.

    What it detects:
        A triplet, ranking, or contrastive loss whose mean, from the first steps on, is the value it
        would have if all distances were equal. For a triplet loss this is its margin. Functions
        such as `F.triplet_margin_loss`, modules with an attribute `margin`, and PyTorch code such
        as `relu(near - far + margin)` are recognized. Also a triplet loss written by hand whose
        margin is 0.

    Why it matters:
        The loss has this value when rows are as far from rows of their own class as from other
        rows. The embedding does not separate anything. Often all embeddings have become equal. With
        a margin of 0, equal embeddings have the best possible loss.

    Fires:
        Warning when, over `calls` calls, the means of the sampled values in the first and in the
        second half are between `below` and `above` times this value. For pairs, the mean of the
        second half may be up to `above_pairs` times the value, and the first half has no upper
        limit. Error after `worthless_calls`. Warning also when, over twice as many calls, the mean
        of the first half is above this range, and that of the second half is within it. Warning
        also when the margin is 0, after `calls` calls.

    Stays quiet:
        For losses that fall below this value, and in the first `calls` calls. For pairs that all
        have the same label.

    What to do:
        - Check the order of the arguments, and the classes of the rows: the positive belongs to the
          class of the anchor, the negative to another one.
          `TripletMarginLoss()(anchor, positive, negative)`.
        - Train on random or semi-hard negatives first: with the hardest negatives, all embeddings
          often become equal.
        - Check which label means that the rows of a pair belong together: 1 in
          `cosine_embedding_loss`, 0 in `(1 - y) * distance**2 + y * relu(margin - distance)**2`.
        - Change the learning rate: it may be so high that all embeddings became equal, or so low
          that nothing is learned yet.
        - Set a positive margin, such as 1.0, or 0.2 for normalized embeddings.

    Example:
        loss = triplet(anchor, negative, positive)      # positive and negative are swapped
        loss = triplet(anchor, positive, negative)

    References:
        Schroff, Kalenichenko, Philbin 2015, FaceNet, section 3.2, https://arxiv.org/abs/1503.03832
    """
    seen: dict[tuple[str, float, str | None], list[MarginLoss]] = {}
    for one in window.seen(MarginLoss):
        if _level(one) > 0:
            seen.setdefault((one.loss, one.margin, one.location), []).append(one)
    without = [one for one in window.seen(MarginLoss) if one.loss == OWN and one.margin == 0]
    if without:
        return _of_no_margin(without)
    if not seen:
        raise NotApplicable("no value of a loss with a margin was recorded")
    if max(every[-1].calls for every in seen.values()) < calls:
        raise NotEnoughData(f"needs {calls} calls to a loss with a margin")
    for every in seen.values():
        last = every[-1]
        shares = np.concatenate([np.array(one.values) / _level(one) for one in every])
        pairs = _level(last) != last.margin
        first, second = (float(half.mean()) for half in np.array_split(shares, 2))
        # distances of pairs may be large at first, and a loss may fall to its margin
        fell = not pairs and first > above and last.calls >= 2 * calls
        largest = second if pairs or fell else max(first, second)
        stays = min(first, second) >= below and largest <= (above_pairs if pairs else above)
        if last.calls < calls or not stays:
            continue
        value = float(np.mean([value for one in every for value in one.values]))
        why = "rows are as far from rows of their own class as from other rows"
        if last.equal == len(last.values):
            why = "all embeddings have become equal"
        verb, over = ("fell only to", "in") if fell else ("has stayed at", "for")
        level = f"its margin of {last.margin:g}"
        if pairs:
            level = f"{_level(last):.3g}, its value for equal distances (margin {last.margin:g}),"
        return Found.of(
            last,
            f"{last.loss} {verb} {level} {over} {last.calls} calls (mean {value:.3g}): {why}",
            severity="error" if last.calls >= worthless_calls and not fell else "warning",
            step=0,
            count=last.calls,
            evidence={
                "value": value,
                "margin": last.margin,
                "calls": last.calls,
                "limit": below * _level(last),
            },
            fixes=(2, 1, 3) if pairs else (0, 1, 3),
        )
    return None


def _of_no_margin(every: list[MarginLoss]) -> Found:
    """Report a triplet loss without a margin."""
    last = every[-1]
    value = float(np.mean(last.values))
    return Found.of(
        last,
        f"the margin of the triplet loss is 0 in {last.calls} calls (mean {value:.3g}): it is "
        "smallest when all embeddings are equal",
        title="triplet loss without a margin",
        step=0,
        count=last.calls,
        evidence={"value": value, "margin": 0.0, "calls": last.calls},
        fixes=(4,),
    )


def _level(one: MarginLoss) -> float:
    """Return the value of a loss if all distances were equal."""
    return one.margin if one.level is None else one.level
