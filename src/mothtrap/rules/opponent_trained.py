"""OPT616: one optimizer undoes the steps of another one on the same weights."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.optimizers import OpposedOptimizers
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@frozen
class OpponentTrained(Rule):
    """One optimizer undoes the steps of another one on the same weights.

    What it detects:
        Two optimizers that step in turn, of which one holds all parameters of the other and more,
        while their gradients for the shared parameters point in opposite directions.

    Why it matters:
        In a GAN, the loss of the generator falls fastest if the discriminator gets worse. If the
        generator's optimizer also holds the discriminator's weights, it spoils the discriminator
        instead of training the generator, and the generated data stay bad although the loss falls.

    Fires:
        Warning when the cosine between the gradients is negative in each of `looks` or more pairs
        of steps, and -`mean` or less on average. The shared parameters must be the last ones of the
        larger optimizer, behind its others.

    Stays quiet:
        For optimizers that share only a part of their parameters, such as an encoder with two
        heads. For optimizers of equal parameters. If the shared parameters come first, such as an
        encoder that is also trained for its prior. For losses that agree.

    What to do:
        - Let the generator's loss train only the generator: set `discriminator.trainable = False`
          before you build and compile the joint model, or take gradients for
          `generator.trainable_variables` in a `GradientTape` loop.

    Example:
        gan = keras.Model(noise, discriminator(generator(noise)))      # trains both
        discriminator.trainable = False
        gan = keras.Model(noise, discriminator(generator(noise)))      # trains the generator

    References:
        Goodfellow et al. 2014, Generative adversarial nets, algorithm 1,
        https://arxiv.org/abs/1406.2661
    """

    code = "OPT616"
    title = "an optimizer trains its opponent"
    needs = (Need(facts=(OpposedOptimizers,)),)
    explains = ("loss_not_decreasing", "loss_oscillating", "loss_diverging")

    looks: int = threshold(16, unit="pairs of steps", source="chosen by hand")
    mean: float = threshold(
        0.05, unit="cosine", source="measured: half of the cosine in a small GAN"
    )

    def check(self, window: Window) -> list[Finding]:
        """Compare the gradients of optimizers that share parameters."""
        newest = {(one.wide, one.narrow): one for one in window.seen(OpposedOptimizers)}
        if not newest:
            raise NotApplicable("no optimizer has all parameters of another optimizer")
        found = [one for one in newest.values() if self._opposes(one)]
        return [self._finding(window, one) for one in found[:1]]

    def _opposes(self, one: OpposedOptimizers) -> bool:
        return one.looks >= self.looks and one.mean <= -self.mean and one.cosine < 0

    def _finding(self, window: Window, one: OpposedOptimizers) -> Finding:
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=0,
            last_step=one.step,
            count=one.looks,
            message=(
                f"{one.wide} holds the {one.shared} parameters of {one.narrow} and "
                f"{one.parameters - one.shared} others, and its gradients for the shared "
                f"parameters oppose the gradients of {one.narrow} in all {one.looks} inspected "
                f"pairs of steps (mean cosine {one.mean:.2f}): each optimizer undoes the steps of "
                "the other"
            ),
            evidence={
                "cosine": one.mean,
                "limit": -self.mean,
                "looks": one.looks,
                "shared": one.shared,
            },
            location=one.location,
        )
