"""STR729: position vectors are added along the batch instead of the sequence."""

from __future__ import annotations

from mothtrap.core.facts.layers import PositionAxis
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.window import Window


@rule("STR729", needs=[Need(facts=(PositionAxis,))])
def positions_over_batch(window: Window) -> Found | None:
    """Position vectors are added along the batch instead of the sequence.

    What it detects:
        A module that adds stored vectors to its input of shape (batch, sequence, features). The
        vectors differ between the rows of the batch, but are equal at all positions of a row.

    Why it matters:
        The model gets the number of the row in the batch instead of the position of the token, so
        it cannot know the order of the tokens.

    Fires:
        Warning when an inspected input shows this, and axis 0 is known to be the batch: the
        recurrent or attention modules of the model have `batch_first=True`, or the loader drew as
        many samples as axis 0 has entries.

    Stays quiet:
        Models with the sequence on axis 0. Vectors that differ along both axes.

    What to do:
        - Take as many vectors as the sequence has positions: `x + self.pe[:, :x.size(1)]`, where
          `pe` has the shape (1, length, features).
        - Or pass the sequence on axis 0, and use `batch_first=False` everywhere.

    Example:
        return x + self.pe[:x.size(0)]           # pe: (length, 1, features)
        return x + self.pe[:x.size(1), 0]

    References:
        Vaswani et al. 2017, Attention is all you need, section 3.5,
        https://arxiv.org/abs/1706.03762
    """
    one = next(iter(window.seen(PositionAxis, steps=1)), None)
    if one is None:
        return None
    batch, length, _ = one.shape
    return Found.of(
        one,
        f"{one.module} adds a different vector to each of the {batch} rows of the batch, and the "
        f"same vector to all {length} positions of a row",
        last_step=window.last_step,
        layers=(one.module,),
        evidence={"rows": batch, "positions": length},
    )
