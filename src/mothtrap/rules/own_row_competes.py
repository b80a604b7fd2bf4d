"""LOS428: in a contrastive loss, each row competes with itself."""

from __future__ import annotations

from mothtrap.core.facts.pairs import OwnRowCompetes
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED


@rule(
    "LOS428",
    title="rows compete with themselves",
    needs=[Need(facts=(OwnRowCompetes,))],
    explains=(*UNLEARNED, "wrong_initial_loss"),
)
def own_row_competes(
    window: Window,
    *,
    looks: int = threshold(4, unit="backward passes", source="chosen by hand"),
) -> Found | None:
    """In a contrastive loss, each row competes with itself.

    What it detects:
        A contrastive loss, such as NT-Xent, in which the similarity of each row with itself is one
        of the scores among which the row must find its partner.

    Why it matters:
        No partner can be more similar to a row than the row itself. So the loss cannot become
        small, and with a low temperature the row itself takes nearly all of the probability, and
        the other rows get almost no gradient.

    Fires:
        Warning when, in at least `looks` inspected backward passes of a line, a softmax or a sum of
        exponentials is over a symmetric matrix of similarities whose diagonal is the largest value
        of each row, and no label points to the diagonal.

    Stays quiet:
        For a masked diagonal, and if something is subtracted from the sum. For similarities between
        two different sets of rows, as in CLIP, whose partners are on the diagonal.

    What to do:
        - PyTorch: Mask the diagonal before the loss: `similarity.masked_fill(torch.eye(n,
          dtype=torch.bool), float("-inf"))`.
        - Keras, JAX: Set the diagonal of the similarities to -inf before the loss.

    Example:
        similarity = z @ z.T / temperature
        similarity = similarity.masked_fill(torch.eye(len(z), dtype=torch.bool), float("-inf"))

    References:
        Chen, Kornblith, Norouzi, Hinton 2020, SimCLR, equation 1,
        https://arxiv.org/abs/2002.05709
    """
    for one in window.seen(OwnRowCompetes, steps=looks):
        if one.found < looks:
            continue
        return Found.of(
            one,
            f"each of {one.rows} rows is compared with itself in {one.found} of {one.looks} "
            f"inspected backward passes (limit {looks}): its similarity with itself is the largest "
            "of its scores, and counts as a wrong partner",
            step=0,
            count=one.found,
            evidence={"looks": one.looks, "found": one.found, "limit": looks},
        )
    return None
