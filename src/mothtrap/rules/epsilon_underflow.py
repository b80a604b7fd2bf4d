"""OPT609: the optimizer's epsilon rounds to 0 in its dtype."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import NOT_FINITE
from mothtrap.rules._weights import optimizer_facts, optimizer_location

SMALLEST = {
    "float16": 2.0**-24,
    "bfloat16": 2.0**-133,
    "float32": 2.0**-149,
    "float8_e4m3fn": 2.0**-9,
    "float8_e5m2": 2.0**-16,
}
"""The smallest number above 0 of each dtype; half of it or less rounds to 0."""


@rule("OPT609", severity="error", needs=[Need(facts=(OptimizerFacts,))], explains=(*NOT_FINITE,))
def epsilon_underflow(
    window: Window,
    *,
    rounds_to_zero: float = threshold(
        0.5, unit="of the smallest number of the dtype", source="rounding to nearest, ties to even"
    ),
) -> Found | None:
    """The optimizer's epsilon rounds to 0 in its dtype.

    What it detects:
        Adam, RMSprop and similar optimizers that keep their averaged squared gradients in a dtype
        in which epsilon rounds to 0. An example is 1e-8 in float16, whose smallest number is
        6e-8.

    Why it matters:
        Epsilon keeps the update finite when the gradient is 0 or its square underflows. If
        epsilon is 0, the update is 0/0 and the weight becomes NaN.

    Fires:
        Error at the first step when epsilon is at most `rounds_to_zero` times the smallest
        number of the dtype of the averaged squares.

    Stays quiet:
        For float32 state, even with 16-bit weights. For bfloat16, which has the exponent range
        of float32. For fused optimizers, which compute in float32, and optimizers without
        epsilon.

    What to do:
        - PyTorch: Keep the weights in float32 and compute under `torch.autocast`; the optimizer
          state is then float32, too.
        - Keras: Keep the weights in float32 with the policy `mixed_bfloat16`; the optimizer state
          is then float32, too.
        - JAX: Keep the weights in float32, and cast them inside the loss function; the optimizer
          state is then float32, too.
        - Give the optimizer a larger epsilon: `eps=1e-4` in float16.
        - Use `bfloat16`, which can represent 1e-8.

    Example:
        optimizer = torch.optim.Adam(model.half().parameters(), eps=1e-8)    # is 0
        optimizer = torch.optim.Adam(model.half().parameters(), eps=1e-4)

    References:
        Micikevicius et al. 2018, Mixed precision training,
        https://arxiv.org/abs/1710.03740
    """
    known = list(optimizer_facts(window).values())
    if not known:
        raise NotEnoughData("no optimizer was recorded")
    dividing = [facts for facts in known if facts.second_moments and facts.epsilon is not None]
    if not dividing:
        raise NotApplicable("no optimizer divides by an average of squared gradients")
    for facts in dividing:
        smallest = SMALLEST.get(facts.state_dtype)
        if facts.fused or smallest is None or facts.epsilon is None:
            continue
        if facts.epsilon <= rounds_to_zero * smallest:
            return Found.of(
                facts,
                f"{facts.optimizer} keeps its averaged squared gradients in {facts.state_dtype}, "
                f"in which its epsilon of {facts.epsilon:g} rounds to 0",
                last_step=max(facts.step, window.last_step),
                evidence={
                    "value": facts.epsilon,
                    "smallest": smallest,
                    "type": facts.state_dtype,
                    "optimizer": facts.optimizer,
                },
                location=optimizer_location(window, facts.optimizer),
            )
    return None
