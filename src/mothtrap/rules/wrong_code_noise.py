"""LOS426: the latent noise of a variational autoencoder does not match its KL divergence."""

from __future__ import annotations

from mothtrap.core.facts.loss_terms import CodeNoise
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.window import Window

ADD_DIVERGENCE = (
    "Add the KL divergence to the loss: "
    "`loss = reconstruction - 0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum()`."
)
NO_RELU = "Remove the ReLU after the layers that compute the mean and the log variance."


@rule(
    "LOS426",
    title="wrong latent noise",
    needs=[Need(facts=(CodeNoise,))],
    explains=("constant_output", "posterior_collapse", "dead_units"),
)
def wrong_code_noise(window: Window) -> Found | None:
    """The latent noise of a variational autoencoder does not match its KL divergence.

    What it detects:
        A loss with the KL divergence between the distribution of the latent code and a standard
        normal distribution, computed from a log variance `v`. But the noise of the latent code is
        multiplied by `exp(v)` or by `v` instead of the standard deviation `exp(v / 2)`. Also a loss
        without a divergence: the variance of the latent code only scales the noise. Also a mean or
        a log variance that is the output of a ReLU.

    Why it matters:
        The KL divergence describes another distribution than the one from which latent codes are
        drawn. The loss is then not a bound of the likelihood, and codes from the prior do not look
        like the codes on which the decoder was trained. Without a divergence, the variance shrinks
        to 0, and codes from the prior mean nothing to the decoder. Behind a ReLU, the log variance
        is never negative, so the noise is never smaller than that of the prior, and hides the code.

    Fires:
        Warning when every inspected loss of a line has this fault.

    Stays quiet:
        Models that output the standard deviation or its logarithm, and use it in both places. A
        missing divergence is not reported if backward passes start at several lines, if another
        term of the loss uses the latent code (such as a distance between distributions), or if the
        noise is added to the output of the model, as for uncertain predictions.

    What to do:
        - PyTorch: Multiply the noise by the standard deviation: `std = torch.exp(0.5 * logvar)`.
        - Keras: Multiply the noise by the standard deviation: `std = tf.exp(0.5 * log_var)`.
        - JAX: Multiply the noise by the standard deviation: `std = jnp.exp(0.5 * logvar)`.

    Example:
        z = mu + torch.randn_like(mu) * torch.exp(logvar)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)

    References:
        Kingma, Welling 2014, Auto-encoding variational Bayes, appendix B,
        https://arxiv.org/abs/1312.6114
    """
    one = next(iter(window.seen(CodeNoise, steps=1)), None)
    if one is None:
        return None
    if one.clipped and not one.factor:
        return _of_clipped(one, window)
    if not one.factor:
        return Found.of(
            one,
            "the loss has no KL divergence for the latent code: in all of its "
            f"{one.looks} inspected backward passes, the variance only scales the noise",
            title="KL divergence is missing",
            step=0,
            last_step=window.last_step,
            count=one.looks,
            evidence={"factor": "", "looks": one.looks},
            fixes=(ADD_DIVERGENCE,),
        )
    return Found.of(
        one,
        f"the noise of the latent code is multiplied by its {one.factor}, but the KL divergence in "
        "the loss assumes the standard deviation, exp(0.5 * log variance)",
        step=0,
        last_step=window.last_step,
        count=one.looks,
        evidence={"factor": one.factor, "looks": one.looks},
    )


def _of_clipped(one: CodeNoise, window: Window) -> Found:
    """Report a latent code whose parts cannot be negative."""
    effect = "a code of the prior is negative half of the time"
    if "log variance" in one.clipped:
        effect = "the noise is never smaller than that of the prior"
    verb = "are" if len(one.clipped) > 1 else "is"
    return Found.of(
        one,
        f"the {' and the '.join(one.clipped)} of the latent code {verb} the output of a ReLU: "
        f"{effect}",
        title="clipped latent code",
        step=0,
        last_step=window.last_step,
        count=one.looks,
        evidence={"factor": "", "looks": one.looks},
        fixes=(NO_RELU,),
    )
