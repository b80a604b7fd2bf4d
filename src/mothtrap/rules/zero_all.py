"""NUM010: named tensors are all zero."""

from __future__ import annotations

import numpy as np

from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Window
from mothtrap.rules._configured import Column, named_columns, needs_of

LAYERS_NAMED = 10
"""Maximum number of tensors that a finding names."""


@frozen
class ZeroAll(Rule):
    """Named tensors are all zero.

    What it detects:
        Among the tensors that the user names, those whose values are all 0, or at least the given
        percentage of them.

    Why it matters:
        A zero gradient trains nothing, a zero weight passes no signal, and a zero input was never
        filled.

    Fires:
        Warning when, at a captured step, at least `percent` of the values of a tensor that matches
        `tensors` are 0.

    Stays quiet:
        Unless `tensors` names some tensors, with the same patterns as collections, such as
        `gradients:blocks.*, activations:*relu`. The tensors are captured once every `every_steps`
        steps.

    What to do:
        - Gradients: look for an operation between the loss and the tensor whose derivative is 0,
          such as a rounding, an argmax, or a dead ReLU.
        - Weights: check the initialization, pruning masks and the weight decay.
        - Inputs: check the output of the data loader.

    Example:
        [tool.mothtrap.rules.NUM010]
        tensors = "gradients:*"

    References:
        AWS, Amazon SageMaker Debugger built-in rules, AllZero,
        https://docs.aws.amazon.com/sagemaker/latest/dg/debugger-built-in-rules.html
    """

    code = "NUM010"
    title = "tensor of zeros"

    tensors: str = threshold("", unit="patterns of tensors", source="named by the user")
    percent: float = threshold(
        100.0, unit="% of the values", source="default of the AllZero rule of SageMaker Debugger"
    )
    every_steps: int = threshold(50, unit="steps", source="chosen by hand")

    def __post_init__(self) -> None:
        """Request the named tensors."""
        needs = needs_of(self.code, self.tensors, ("count", "zero"), self.every_steps)
        object.__setattr__(self, "needs", needs)

    def check(self, window: Window) -> list[Finding]:
        """Check the share of zeros of every named tensor at every captured step."""
        columns = named_columns(window, self.tensors, "zero")
        shares = [(column, _share(window, column)) for column in columns]
        empty = [
            (share_S >= self.percent / 100, share_S, column)
            for column, share_S in shares
            if (share_S >= self.percent / 100).any()
        ]
        if not empty:
            return []
        empty.sort(key=lambda entry: int(np.argmax(entry[0])))
        zero_S, share_S, (matrix, column) = empty[0]
        onset = int(np.argmax(zero_S))
        tensor = matrix.tensors[column]
        more = f" and {len(empty) - 1} more" if len(empty) > 1 else ""
        found = self.finding(
            window,
            severity=Severity.WARNING,
            step=int(matrix.steps_S[onset]),
            last_step=int(matrix.steps_S[np.flatnonzero(zero_S)[-1]]),
            count=int(zero_S.sum()),
            layers=tuple(m.tensors[c].name for _, _, (m, c) in empty[:LAYERS_NAMED]),
            message=f"{100 * share_S[onset]:.4g} % of the values of {tensor.identity}{more} are 0",
            evidence={"value": 100 * float(share_S[onset]), "limit": self.percent},
            location=tensor.location,
        )
        return [found]


def _share(window: Window, place: Column) -> Floats:
    """Return the share of zeros at each step, NaN if it was not captured."""
    matrix, column = place
    size_of: dict[int, float] = {}
    for counts in window.matrices:
        if (counts.kind, counts.statistic, counts.mode) == (matrix.kind, "count", matrix.mode):
            for own, tensor in enumerate(counts.tensors):
                if tensor.identity == matrix.tensors[column].identity:
                    sizes = counts.values_ST[:, own].tolist()
                    size_of.update(zip(counts.steps_S.tolist(), sizes, strict=True))
    size_S = np.array([size_of.get(step, np.nan) for step in matrix.steps_S.tolist()])
    share_S: Floats = matrix.values_ST[:, column] / np.where(size_S > 0, size_S, np.nan)
    return share_S
