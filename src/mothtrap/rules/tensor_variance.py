"""NUM011: the variance of named tensors leaves its bounds."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._configured import named_columns, needs_of

NO_BOUND = -1.0
LAYERS_NAMED = 10
"""Maximum number of tensors that a finding names."""


@frozen
class TensorVariance(Rule):
    """The variance of named tensors is out of bounds.

    What it detects:
        Among the tensors that the user names, those with more or less variance than the user
        allows.

    Why it matters:
        If the variance of activations or gradients grows or shrinks from layer to layer, units
        saturate or signals vanish. A model whose output does not vary has collapsed.

    Fires:
        Warning when, at a captured step, the variance of a tensor that matches `tensors` is above
        `max_threshold` or below `min_threshold`.

    Stays quiet:
        Unless `tensors` names some and a bound is set (the default of both is -1: no bound).
        `tensors` takes the same patterns as collections, such as `activations:encoder.*`. The
        tensors are captured once every `every_steps` steps.

    What to do:
        - Too large: scale the inputs, add a normalization layer, or lower the learning rate.
        - Too small: check the layer's initialization, and check its inputs for a constant.
        - Adjust the bounds to the values of healthy runs.

    Example:
        [tool.mothtrap.rules.NUM011]
        tensors = "activations:*"
        max_threshold = 10.0

    References:
        AWS, Amazon SageMaker Debugger built-in rules, TensorVariance,
        https://docs.aws.amazon.com/sagemaker/latest/dg/debugger-built-in-rules.html
    """

    code = "NUM011"

    tensors: str = threshold("", unit="patterns of tensors", source="named by the user")
    max_threshold: float = threshold(
        NO_BOUND, unit="variance", source="the TensorVariance rule of SageMaker Debugger has none"
    )
    min_threshold: float = threshold(
        NO_BOUND, unit="variance", source="the TensorVariance rule of SageMaker Debugger has none"
    )
    every_steps: int = threshold(50, unit="steps", source="chosen by hand")

    def __post_init__(self) -> None:
        """Request the named tensors."""
        needs = needs_of(self.code, self.tensors, ("std",), self.every_steps)
        object.__setattr__(self, "needs", needs)

    def check(self, window: Window) -> list[Finding]:
        """Check the variance of every named tensor at every captured step."""
        if self.max_threshold == NO_BOUND and self.min_threshold == NO_BOUND:
            raise NotApplicable("no bound is set: set max_threshold or min_threshold")
        outside = []
        for matrix, column in named_columns(window, self.tensors, "std"):
            variance_S = np.square(matrix.values_ST[:, column])
            out_S = np.zeros(len(variance_S), np.bool_)
            if self.max_threshold != NO_BOUND:
                out_S |= variance_S > self.max_threshold
            if self.min_threshold != NO_BOUND:
                out_S |= variance_S < self.min_threshold
            if out_S.any():
                outside.append((int(np.argmax(out_S)), out_S, variance_S, matrix, column))
        if not outside:
            return []
        outside.sort(key=lambda entry: int(entry[3].steps_S[entry[0]]))
        onset, out_S, variance_S, matrix, column = outside[0]
        value = float(variance_S[onset])
        above = self.max_threshold != NO_BOUND and value > self.max_threshold
        limit = self.max_threshold if above else self.min_threshold
        tensor = matrix.tensors[column]
        more = f" and {len(outside) - 1} more are outside their bounds" if len(outside) > 1 else ""
        found = self.finding(
            window,
            severity=Severity.WARNING,
            step=int(matrix.steps_S[onset]),
            last_step=int(matrix.steps_S[np.flatnonzero(out_S)[-1]]),
            count=int(out_S.sum()),
            layers=tuple(entry[3].tensors[entry[4]].name for entry in outside[:LAYERS_NAMED]),
            message=(
                f"the variance of {tensor.identity} is {value:.3g} (limit {limit:g}, "
                f"{'above' if above else 'below'}){more}"
            ),
            evidence={"value": value, "limit": limit},
            location=tensor.location,
        )
        return [found]
