"""LOS424: a loss only makes two outputs agree, and trains both of them."""

from __future__ import annotations

from mothtrap.core.facts.pairs import SimilarityLoss
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "LOS424",
    title="nothing prevents a constant output",
    needs=[Need(facts=(SimilarityLoss,))],
    explains=("constant_output", "loss_not_decreasing", "too_good_to_be_true"),
)
def similarity_alone(
    window: Window,
    *,
    looks: int = threshold(4, unit="backward passes", source="chosen by hand"),
) -> Found | None:
    """A loss only asks that two outputs agree, and trains both of them.

    What it detects:
        A loss that consists only of similarities between outputs of the same network, such as
        the two views of an image, when both outputs carry a gradient.

    Why it matters:
        A network that returns the same vector for all inputs minimizes this loss. BYOL and SimSiam
        prevent this by not training one of the sides; contrastive losses by pushing the outputs of
        other rows apart.

    Fires:
        Warning when, in at least `looks` inspected backward passes at one line, all terms of the
        loss are cosine similarities, or squared differences of normalized vectors, and the
        optimizer steps weights that both sides of a term share.

    Stays quiet:
        If one side has no gradient, or comes from another network. If the loss has any other term,
        such as the other rows of the batch, variances, or labels that weight the similarities.

    What to do:
        - PyTorch: Train one side only: `-F.cosine_similarity(p, z.detach()).mean()`.
        - PyTorch: Or compute the target with an averaged copy of the network, inside
          `torch.no_grad()`.
        - Keras, JAX: Train one side only: apply `stop_gradient` to the other.
        - Or add a term that pushes the outputs of other rows apart.

    Example:
        loss = -F.cosine_similarity(predictor(z1), z2).mean()
        loss = -F.cosine_similarity(predictor(z1), z2.detach()).mean()

    References:
        Chen, He 2021, Exploring simple siamese representation learning,
        https://arxiv.org/abs/2011.10566
    """
    for one in window.seen(SimilarityLoss, steps=looks):
        if one.both < looks:
            continue
        return Found.of(
            one,
            "the loss only asks that two outputs of the same network agree, and both carry a "
            f"gradient in {one.both} of {one.looks} inspected backward passes: a constant output "
            "minimizes it",
            step=0,
            count=one.both,
            evidence={"passes": one.both, "looks": one.looks, "limit": looks},
        )
    return None
