"""LOS426: the noise of a variational autoencoder has another variance than its divergence."""

from __future__ import annotations

from mothtrap.core.facts.losses import CodeNoise
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.window import Window


@rule("LOS426", needs=[Need(facts=(CodeNoise,))])
def wrong_code_noise(window: Window) -> Found | None:
    """The noise of a variational autoencoder has another variance than its divergence.

    What it detects:
        A loss with the divergence of a normal code from a standard normal, which contains a log
        variance `v` and `exp(v)`. The sample of the code multiplies noise by `exp(v)` or by `v`
        instead of the standard deviation `exp(v / 2)`.

    Why it matters:
        The divergence belongs to another distribution than the one from which codes are drawn. So
        the loss is no bound of the likelihood, and codes drawn from the prior do not look like the
        codes on which the decoder was trained.

    Fires:
        Warning when all inspected losses of a line show this.

    Stays quiet:
        Models that output the standard deviation or its logarithm, and use it in both places.

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
    return Found.of(
        one,
        f"the noise of the code is multiplied by its {one.factor}, but the divergence in the loss "
        "assumes that it is multiplied by the standard deviation, exp(0.5 * log variance)",
        step=0,
        last_step=window.last_step,
        count=one.looks,
        evidence={"factor": one.factor, "looks": one.looks},
    )
