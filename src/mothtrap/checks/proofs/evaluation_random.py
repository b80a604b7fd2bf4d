"""PRE109: the same input gives different outputs in evaluation mode."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mothtrap.checks.check import Check
from mothtrap.checks.step import relative_change
from mothtrap.checks.subject import Subject
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold


@frozen
class EvaluationRandom(Check):
    """The same input gives different outputs in evaluation mode.

    What it detects:
        A model in evaluation mode whose outputs depend on the state of the random generators.

    Why it matters:
        Evaluation scores jump, the best checkpoint is chosen by luck, and predictions cannot be
        reproduced.

    Fires:
        Warning when two calls in evaluation mode differ by more than `least` with different random
        states, but not with equal states. The message names the first layer whose output differs.

    Stays quiet:
        Models that draw noise, such as variational autoencoders, get a note. Only values that are
        dropped at random give a warning.

    What to do:
        - PyTorch: `F.dropout(x, p)` also drops values in evaluation: pass `training=self.training`,
          or use `nn.Dropout`.
        - PyTorch: Draw noise only `if self.training`.
        - Keras: Drop values and draw noise only if `call` gets `training=True`.

    Example:
        x = F.dropout(x, 0.5)

    References:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.dropout.html
    """

    code = "PRE109"
    title = "evaluation is random"
    uses = ("step",)
    passed = "evaluation gives the same output twice"
    costs = 1
    least: float = threshold(1e-4, unit="standard deviations", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Report a model that is random in evaluation mode."""
        forward = subject.forward
        usual, again = forward.outputs(), forward.outputs()
        if not usual:
            raise NotApplicable("the model has no floating-point output")
        if not all(np.isfinite(one).all() for one in usual):
            raise NotEnoughData("an output of the model is not finite")
        noise = max(relative_change(a, b) for a, b in zip(usual, again, strict=True))
        other = forward.outputs(seed=1)
        if any(a.shape != b.shape for a, b in zip(usual, other, strict=True)):
            raise NotApplicable("the shape of the output is random")
        size = max(relative_change(a, b) for a, b in zip(usual, other, strict=True))
        if size <= max(self.least, 10 * noise):
            return
        where = _first_random(subject)
        yield Found(
            step=0,
            severity="warning" if forward.drops() else "info",
            message=f"{forward.model} in evaluation mode returns different outputs for the same "
            f"input: they differ by {size:.2g} standard deviations"
            + (f"; the first layer that differs is {where}" if where else ""),
            layers=(where,) if where else (),
            location=forward.location,
            mode="eval",
            evidence={"change": size},
        )


def _first_random(subject: Subject) -> str:
    usual, other = subject.forward.parts(), subject.forward.parts(seed=1)
    for (name, before), (_, after) in zip(usual, other, strict=False):
        if before.shape != after.shape or relative_change(before, after) > 1e-6:
            return name
    return ""
