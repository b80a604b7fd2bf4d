"""LOS423: the losses of two opponents ask for the same answer."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.losses import AgreeingLosses
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@frozen
class OpponentsAgree(Rule):
    """The losses of two opponents ask for the same answer.

    What it detects:
        Two binary losses of the same outputs, trained by two optimizers in one step, whose labels
        are equal: all 0 or all 1. Also two such losses with opposite labels, if one is never
        differentiated, so that both optimizers get the gradients of the other loss.

    Why it matters:
        In a GAN, the discriminator learns to call generated examples 0, and the generator learns
        to make it answer 1. If both want the same answer, nothing drives the generator toward the
        data. Its loss falls to almost 0, and the generated examples stay noise.

    Fires:
        Warning when this is true in `looks` inspected steps.

    Stays quiet:
        For losses whose labels differ within the batch, as in a classifier. For losses of different
        outputs, as when the discriminator is called again for the generator.

    What to do:
        - Give generated examples the label 0 in the discriminator's loss, and the label 1 in the
          generator's loss: `cross_entropy(tf.ones_like(fake_output), fake_output)`.
        - Compute the generator's gradient from the generator's own loss:
          `gen_tape.gradient(gen_loss, generator.trainable_variables)`.

    Example:
        gen_loss = cross_entropy(tf.zeros_like(fake_output), fake_output)   # helps the opponent
        gen_loss = cross_entropy(tf.ones_like(fake_output), fake_output)

    References:
        Goodfellow et al. 2014, Generative adversarial nets, algorithm 1,
        https://arxiv.org/abs/1406.2661
    """

    code = "LOS423"
    title = "opponents agree"
    needs = (Need(facts=(AgreeingLosses,)),)
    explains = ("too_good_to_be_true", "loss_unchanged", "loss_not_decreasing", "constant_output")

    looks: int = threshold(8, unit="inspected steps", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check the losses of the same outputs."""
        if window.total_steps < self.looks:
            raise NotEnoughData(f"needs {self.looks} steps, saw {window.total_steps}")
        seen = [one for one in window.seen(AgreeingLosses) if one.looks >= self.looks]
        return [self._finding(window, one) for one in seen[:1]]

    def _finding(self, window: Window, one: AgreeingLosses) -> Finding:
        labels, unused = self.fixes(window)
        what = (
            f"two losses give the label {one.label} to the same outputs, for two optimizers "
            f"({one.location} and {one.other}): generator and discriminator have the same goal"
        )
        if one.unused:
            what = (
                f"two losses give opposite labels to the same outputs ({one.location} and "
                f"{one.other}), but only one of them is "
                "differentiated: both optimizers get the gradient of that loss"
            )
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=0,
            last_step=one.step,
            count=one.looks,
            message=f"in {one.looks} of {one.looks} inspected steps, {what}",
            evidence={"looks": one.looks, "limit": self.looks},
            location=one.location,
            fixes=(unused,) if one.unused else (labels,),
        )
