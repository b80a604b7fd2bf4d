"""LOS427: a network predicts noise that its input does not contain, or gets no timestep."""

from __future__ import annotations

import math

from mothtrap.core.facts.targets import NoisePrediction
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED

DEVIATIONS = 4.0
"""Number of standard errors that are added to a correlation before it is compared; by hand."""
NOISE, TIMESTEP = (0, 1), (2, 3)
"""Index of the fix for missing noise, and of the fix for a constant timestep."""


@rule(
    "LOS427",
    title="noise cannot be predicted",
    needs=[Need(facts=(NoisePrediction,))],
    explains=(
        *UNLEARNED,
        "learning_rate_too_low",
        "loss_oscillating",
        "nothing_learned",
        "vanishing_gradient",
    ),
)
def blind_denoiser(
    window: Window,
    *,
    looks: int = threshold(5, unit="backward passes", source="chosen by hand"),
    correlation: float = threshold(
        0.05, unit="correlation", source="chosen by hand: diffusion models have 0.3 or more"
    ),
) -> Found | None:
    """A network predicts noise that its input does not contain, or gets no timestep.

    What it detects:
        A loss that compares predictions with standard normal noise, as in a diffusion model,
        although the input of the network does not contain this noise. Also a network whose timestep
        is the same for all rows of all batches.

    Why it matters:
        Noise that is not in the input cannot be predicted: the best prediction is 0, and the loss
        stays at the variance of the noise. With one timestep, the network learns a single noise
        level. In both cases samples drawn from the model are noise.

    Fires:
        Warning after `looks` inspected backward passes of a line, when the correlation of noise and
        input, plus four standard errors, is below `correlation`. Also when every other input of the
        network, such as the timestep, had the same value in all rows of these passes.

    Stays quiet:
        When the input is itself standard normal noise, as in scripts with random data. When a part
        of the input has another shape than the noise, and could contain it. For a missing timestep,
        when the network gets only the noisy data. For rows of fewer than 16 values, and for targets
        that combine noise and data.

    What to do:
        - Give the network the noisy data: `model(x_t, t)`, with `x_t = a_t * x + b_t * noise`.
        - Compare its output with the noise that was added, not with newly drawn noise.
        - PyTorch: Draw a timestep for each row: `t = torch.randint(0, timesteps, (len(x),))`.
        - Keras, JAX: Draw a timestep for each row.

    Example:
        loss = F.mse_loss(model(x, t), noise)                      # x is the clean image
        loss = F.mse_loss(model(a_t * x + b_t * noise, t), noise)

    References:
        Ho et al. 2020, Denoising diffusion probabilistic models, algorithm 1,
        https://arxiv.org/abs/2006.11239
    """
    for one in window.latest(NoisePrediction, by="location"):
        if one.looks < looks:
            continue
        if one.constant_condition:
            message = (
                "the network should predict standard normal noise, but every other input, such as "
                f"the timestep, had the same value in all rows of {one.looks} batches (limit "
                f"{looks}): the network learns a single noise level"
            )
        elif one.correlation is not None and _is_small(one.correlation, one.values, correlation):
            message = (
                "the network should predict standard normal noise, but its input does not contain "
                f"this noise: the correlation over {one.values:,} values is {one.correlation:.2g} "
                f"(limit {correlation:g})"
            )
        else:
            continue
        return Found.of(
            one,
            message,
            step=0,
            last_step=window.last_step,
            count=one.looks,
            evidence={
                "correlation": one.correlation,
                "values": one.values,
                "looks": one.looks,
                "limit": correlation,
            },
            fixes=TIMESTEP if one.constant_condition else NOISE,
        )
    return None


def _is_small(correlation: float, values: int, limit: float) -> bool:
    """Return whether a correlation is certainly below a limit."""
    return abs(correlation) + DEVIATIONS / math.sqrt(values) < limit
