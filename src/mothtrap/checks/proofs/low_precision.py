"""PRE110: outputs or gradients differ from their float64 values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from mothtrap.checks.check import Check
from mothtrap.checks.step import Array, relative_change
from mothtrap.checks.subject import Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

NEGLIGIBLE = 1e-4
"""A gradient whose norm is below this share of the largest norm is noise: the gradient of a bias
before a batch normalization is 0 except for rounding. Chosen by hand."""


@frozen
class LowPrecision(Check):
    """The gradient of a layer points in a different direction than in float64.

    What it detects:
        A layer whose gradient, in the precision of the script, has a different direction than the
        gradient in float64, and outputs of the model that differ from the float64 outputs.

    Why it matters:
        Rounding errors are larger than the signal: sums of many small terms, differences of large
        numbers, or a softmax in half precision.

    Fires:
        Warning when the cosine between the two gradients of a layer is below `cosine`, or when an
        output in evaluation mode differs by more than `outputs`. Error when the gradient is not
        finite in the script's precision, but finite in float64.

    Stays quiet:
        Gradients that are zero, or negligible compared with those of other layers; models that draw
        random numbers in evaluation mode, or cannot compute in float64.

    What to do:
        - PyTorch: Leave the layer out of autocast, or compute its sums in float32.

    Example:
        variance = (x ** 2).mean() - x.mean() ** 2   # for values around 10,000

    References:
        https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html
    """

    code = "PRE110"
    title = "the precision is too low"
    uses = ("step",)
    passed = "the gradient agrees with float64"
    costs = 2
    outputs: float = threshold(
        0.1, unit="standard deviations", source="chosen by hand: bfloat16 rounds to 0.01"
    )
    cosine: float = threshold(0.9, unit="cosine", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Report layers whose gradient is rounded away."""
        usual, other = subject.forward.outputs(), subject.forward.outputs(seed=1)
        if any(not np.array_equal(a, b) for a, b in zip(usual, other, strict=True)):
            raise NotApplicable("the model draws random numbers")
        try:
            exact = subject.forward.gradients(double=True)
            outputs = subject.forward.exact_outputs()
        except (RuntimeError, TypeError, ValueError) as err:
            raise NotApplicable("the model does not compute in float64") from err
        own = subject.forward.gradients(double=False)
        pairs = [pair for pair in zip(outputs, usual, strict=False) if _are_comparable(*pair)]
        rounded = max((relative_change(one, other) for one, other in pairs), default=0.0)
        cosines = dict(_cosines(own, exact))
        if not cosines:
            raise NotApplicable("no parameter has a nonzero gradient")
        subject.figures["least cosine"] = min(cosines.values())
        broken = [name for name, value in cosines.items() if np.isnan(value)]
        low = sorted((value, name) for name, value in cosines.items() if value < self.cosine)
        if broken:
            yield Found(
                step=0,
                severity="error",
                message=f"the gradient of {broken[0]} is not finite in the script's precision, but "
                "finite in float64",
                layers=tuple(broken),
                location=subject.forward.location,
            )
        elif low:
            yield Found(
                step=0,
                severity="warning",
                message=f"the gradient of {low[0][1]} has a cosine of {low[0][0]:.2f} with the "
                f"gradient in float64 (limit {self.cosine:g})",
                layers=tuple(name for _, name in low),
                location=subject.forward.location,
                evidence={"cosine": low[0][0]},
            )
        elif rounded > self.outputs:
            yield Found(
                step=0,
                severity="warning",
                message=f"the outputs of {subject.forward.model} differ by {rounded:.2g} standard "
                f"deviations from the float64 outputs (limit {self.outputs:g})",
                location=subject.forward.location,
                evidence={"change": rounded},
            )


def _are_comparable(exact: Array, usual: Array) -> bool:
    return exact.shape == usual.shape and exact.size > 1 and bool(np.isfinite(exact).all())


def _cosines(own: Mapping[str, Array], exact: Mapping[str, Array]) -> Iterable[tuple[str, float]]:
    """Yield the cosine of each gradient with the exact one; NaN if it is not finite."""
    lengths = {name: float(np.linalg.norm(true)) for name, true in exact.items()}
    longest = max(filter(np.isfinite, lengths.values()), default=0.0)
    for name, true in exact.items():
        length = lengths[name]
        if name in own and np.isfinite(length) and length > NEGLIGIBLE * longest:
            found = own[name].astype(float)
            product = float(np.linalg.norm(found)) * length
            yield name, float((found * true).sum()) / product if product else 0.0
