"""LOS423: the losses of two opponents ask for the same answer."""

from __future__ import annotations

from mothtrap.core.facts.loss_terms import AgreeingLosses
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "LOS423",
    title="opponents agree",
    needs=[Need(facts=(AgreeingLosses,))],
    explains=(
        "constant_output",
        "loss_not_decreasing",
        "loss_unchanged",
        "opponent_trained",
        "too_good_to_be_true",
    ),
)
def opponents_agree(
    window: Window, *, looks: int = threshold(8, unit="inspected steps", source="chosen by hand")
) -> Found | None:
    """The losses of two opponents ask for the same answer.

    What it detects:
        Two losses of a discriminator on generated examples, for two optimizers, with equal labels:
        all 0 or all 1. Without labels, as in a Wasserstein GAN, two losses that both raise or both
        lower the discriminator's score. Also two binary losses of the same outputs with opposite
        labels, if one is never differentiated, so that both optimizers get the gradients of the
        other loss.

    Why it matters:
        In a GAN, the discriminator learns to call generated examples 0, and the generator learns
        to make it answer 1. If both want the same answer, nothing drives the generator toward the
        data. Its loss falls to almost 0, and the generated examples stay noise.

    Fires:
        Warning when this is true in `looks` inspected steps.

    Stays quiet:
        For losses whose labels differ within the batch, as in a classifier. For flipped labels, if
        the discriminator also learns that generated examples are 1. When the discriminator gets
        the generated examples in another form, such as joined with labels, or from a replay buffer.
        Keras: for losses of different outputs, as when the discriminator is called again for the
        generator.

    What to do:
        - PyTorch: Give generated examples the label 0 in the discriminator's loss, and the label 1
          in the generator's loss: `g_loss = criterion(D(fake), torch.ones_like(labels))`. Without
          labels, subtract the score: `g_loss = -D(fake).mean()`.
        - Keras: Give generated examples the label 0 in the discriminator's loss, and the label 1 in
          the generator's loss: `cross_entropy(tf.ones_like(fake_output), fake_output)`.
        - Compute the generator's gradient from the generator's own loss:
          `gen_tape.gradient(gen_loss, generator.trainable_variables)`.

    Example:
        gen_loss = cross_entropy(tf.zeros_like(fake_output), fake_output)   # helps the opponent
        gen_loss = cross_entropy(tf.ones_like(fake_output), fake_output)

    References:
        Goodfellow et al. 2014, Generative adversarial nets, algorithm 1,
        https://arxiv.org/abs/1406.2661
    """
    for one in window.seen(AgreeingLosses, steps=looks):
        if one.looks >= looks:
            what = (
                f"two losses for two optimizers ({one.location} and {one.other}) both ask for the "
                f"label {one.label} on generated examples: generator and discriminator have the "
                "same goal"
            )
            if one.unused:
                what = (
                    f"two losses give opposite labels to the same outputs ({one.location} and "
                    f"{one.other}), but only one of them is differentiated: both optimizers get "
                    "the gradient of that loss"
                )
            return Found.of(
                one,
                f"in {one.looks} of {one.looks} inspected steps (limit {looks}), {what}",
                step=0,
                count=one.looks,
                evidence={"looks": one.looks, "limit": looks},
                fixes=(2,) if one.unused else (0, 1),
            )
    return None
