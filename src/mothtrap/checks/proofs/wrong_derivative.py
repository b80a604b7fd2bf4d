"""PRE108: the backward pass of the model does not compute the derivative of its forward pass."""

from __future__ import annotations

from collections.abc import Iterable

from mothtrap.checks.check import Check
from mothtrap.checks.subject import Subject
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold


@frozen
class WrongDerivative(Check):
    """The model's backward pass does not compute the derivative of its forward pass.

    What it detects:
        A model whose gradient, computed by the backward pass in float64, differs from finite
        differences of its forward pass along random directions.

    Why it matters:
        The optimizer moves in the wrong direction. The loss may still fall slowly, to a worse
        value, and nothing looks broken.

    Fires:
        When the gradient differs from the finite difference by more than `limit` along two of three
        directions, while the finite differences at two step widths `agree`. A warning if the model
        applies a custom `autograd.Function`. A note if it applies none, or only functions with a
        few different output values, such as a sign: then values are detached, or a straight-through
        estimator is used, usually on purpose.

    Stays quiet:
        Directions that cross a kink, at which the finite differences disagree; models that cannot
        compute in float64.

    What to do:
        - PyTorch: Test each custom `backward` with `torch.autograd.gradcheck`.
        - Look for values that are changed in place, or detached, inside the forward pass.

    Example:
        return grad_output * 2 * x   # the forward is x ** 3

    References:
        https://pytorch.org/docs/stable/generated/torch.autograd.gradcheck.gradcheck.html
    """

    code = "PRE108"
    title = "the backward pass computes a wrong derivative"
    uses = ("step",)
    passed = "the backward pass computes the right derivative"
    costs = 2
    limit: float = threshold(1e-2, unit="relative", source="chosen by hand")
    agree: float = threshold(1e-3, unit="relative", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Report a wrong derivative."""
        wrong, smooth, worst = 0, 0, 0.0
        for seed in range(3):
            try:
                wide, narrow, slope = subject.forward.directional(seed)
            except (RuntimeError, TypeError, ValueError) as err:
                raise NotApplicable("the model does not compute in float64") from err
            scale = max(abs(narrow), abs(slope), 1e-12)
            if abs(wide - narrow) > self.agree * scale:
                continue
            smooth += 1
            error = abs(narrow - slope) / scale
            wrong += error > self.limit
            worst = max(worst, error)
        if smooth < 2:
            raise NotEnoughData("the model is not smooth along the directions that were tried")
        if wrong >= 2:
            own = [name for name, estimates in subject.forward.own_backwards().items()
                   if not estimates]  # fmt: skip
            why = (
                f"the backward pass of {' or '.join(own)} is wrong"
                if own
                else "the forward pass detaches values, or uses a straight-through estimator"
            )
            yield Found(
                step=0,
                severity="warning" if own else "info",
                message=f"the gradient of {subject.forward.model} differs by {worst:.2g} from the "
                f"change of its outputs: {why}",
                location=subject.forward.location,
                evidence={"error": worst},
            )
