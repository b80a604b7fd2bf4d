"""DAT523: the two views of a contrastive loss are equal."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.evaluations import EqualViews
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._loss_calls import CLASS_LOSSES


@frozen
class EqualViewsOfStep(Rule):
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

    code = "DAT523"
    title = "equal views"
    needs = (Need(facts=(EqualViews,)), Need(facts=(LossCall,), optional=True))
    explains = ("too_good_to_be_true", "constant_output", "loss_unchanged")

    steps: int = threshold(8, unit="steps", source="chosen by hand: a random flip may do nothing")

    def check(self, window: Window) -> list[Finding]:
        """Check whether views were equal."""
        if window.total_steps < self.steps:
            raise NotEnoughData(f"needs {self.steps} steps, saw {window.total_steps}")
        seen = [
            one for one in window.seen(EqualViews) if one.steps >= self.steps and not one.dropout
        ]
        seen.sort(key=lambda one: not one.loss)  # the loss shows the cause
        return [self._finding(window, one) for one in seen[:1]]

    def _finding(self, window: Window, one: EqualViews) -> Finding:
        *views, pairs = self.fixes(window)
        what = "the model got the same values twice, in two tensors: the two views are equal"
        if one.loss:
            what = f"the first two arguments of {one.loss} were equal: it compares rows with"
            what += " themselves"
        return self.finding(
            window,
            severity=Severity.WARNING if one.loss or _is_contrastive(window) else Severity.INFO,
            step=max(0, one.step - one.steps + 1),
            last_step=one.step,
            count=one.steps,
            message=f"in {one.steps} of {one.steps} steps (limit {self.steps}), {what}",
            fixes=(pairs,) if one.loss else tuple(views),
            evidence={"steps": one.steps, "limit": self.steps},
            location=one.location,
        )


def _is_contrastive(window: Window) -> bool:
    """Return whether a loss has one class for each row, or for each other row, of the batch."""
    for call in window.seen(LossCall):
        shape = call.prediction_shape or ()
        if call.operation in CLASS_LOSSES and len(shape) == 2 and shape[0] > 2:
            rows, classes = shape
            if classes in (rows, rows - 1):
                return True
    return False
