"""DAT523: the two views of a contrastive loss are equal."""

from __future__ import annotations

from mothtrap.core.facts.evaluations import EqualViews
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._loss_calls import is_contrastive


@rule(
    "DAT523",
    title="equal views",
    needs=[Need(facts=(EqualViews,)), Need(facts=(LossCall,), optional=True)],
    explains=("too_good_to_be_true", "constant_output", "loss_unchanged"),
)
def equal_views(
    window: Window,
    *,
    steps: int = threshold(8, unit="steps", source="chosen by hand: a random flip may do nothing"),
) -> Found | None:
    """The two views of a contrastive loss are equal.

    What it detects:
        A model that is called twice before each backward pass, or once with two concatenated
        batches, and gets the same values both times, although they are in different tensors. Also
        an anchor that equals its positive in `F.triplet_margin_loss`, and equal pairs of
        embeddings in the other losses with a margin.

    Why it matters:
        A contrastive loss learns what two views of an example have in common. If the views are
        equal, any encoder makes them agree, even one with random weights.

    Fires:
        When both views are equal in each of the first `steps` steps that have two, and the data
        differ between steps: warning if the classes of the loss are the rows of the batch, as in a
        contrastive loss, else info.

    Stays quiet:
        For models with dropout, whose two outputs differ on purpose. When the same tensor is
        passed twice. For recurrent cells, which also get their own state. For integer data such as
        tokens. For data on an accelerator.

    What to do:
        - Draw a new random augmentation for each view: `view_1, view_2 = augment(x), augment(x)`.
        - Check that the augmentation is random, is switched on, and does not change the image in
          place.
        - Pass two different rows of the same class as anchor and positive:
          `triplet(model(anchor), model(positive), model(negative))`.

    Example:
        views = augment(x)
        loss = nt_xent(encoder(views.clone()), encoder(views))

    References:
        Chen et al. 2020, A simple framework for contrastive learning of visual representations,
        https://arxiv.org/abs/2002.05709
    """
    seen = [
        one
        for one in window.seen(EqualViews, steps=steps)
        if one.steps >= steps and not one.dropout
    ]
    if not seen:
        return None
    one = min(seen, key=lambda one: not one.loss)  # the loss shows the cause
    what = "the model got the same values twice, in two tensors: the two views are equal"
    if one.loss:
        what = f"the first two arguments of {one.loss} were equal: it compares rows with themselves"
    is_certain = bool(one.loss) or any(map(is_contrastive, window.seen(LossCall)))
    return Found.of(
        one,
        f"in {one.steps} of {one.steps} steps (limit {steps}), {what}",
        severity="warning" if is_certain else "info",
        step=max(0, one.step - one.steps + 1),
        count=one.steps,
        fixes=(2,) if one.loss else (0, 1),
        evidence={"steps": one.steps, "limit": steps},
    )
