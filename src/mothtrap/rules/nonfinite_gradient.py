"""NUM002: an applied gradient contains NaN or infinite values."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.nonfinite import FirstBadOperation
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.operation_advice import advice_on
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.window import Bools, Ints, Matrix, Window
from mothtrap.rules._operation_advice import (
    REPLAY_NAMES_IT,
    operation_at,
    operation_in_words,
)


@frozen
class NonfiniteGradient(Rule):
    """An applied gradient contains NaN or infinite values.

    What it detects:
        NaN or infinite elements in a gradient that an optimizer step uses.

    Why it matters:
        The step writes them into the weights. From then on the outputs are NaN, and only a
        checkpoint brings the model back.

    Fires:
        Error at the first applied step with a non-finite element in any gradient. The layer nearest
        to the loss is named first, because backward runs from the loss to the inputs.

    Stays quiet:
        Steps that a gradient scaler skips: an overflow of scaled fp16 gradients is
        how dynamic loss scaling finds its scale.

    What to do:
        - Near the first layer named, find the operation whose derivative is infinite or undefined:
          square root or norm at 0, division by a small number, `where` with a NaN in the branch not
          taken.
        - Add an epsilon inside the square root or norm, or clamp its input. With `where`, guard the
          operation's input, not its output.
        - PyTorch: With fp16, step through a gradient scaler (`torch.amp.GradScaler`), or use bf16.
        - Keras: With `mixed_float16`, scale the loss (`keras.optimizers.LossScaleOptimizer`), or
          use `mixed_bfloat16`.
        - JAX: Use bfloat16 instead of float16, or scale the loss.

    Example:
        distance = (a - b).norm(dim=1)                       # derivative at 0 is NaN
        distance = ((a - b).square().sum(dim=1) + 1e-12).sqrt()

    References:
        Micikevicius et al. 2018, Mixed precision training, https://arxiv.org/abs/1710.03740
    """

    code = "NUM002"
    needs = (
        Need(kinds=("gradient",), statistics=("nan", "inf")),
        Need(facts=(FirstBadOperation,), optional=True),
    )
    proof = Proof(title="NaN elements of the gradient", statistic="gradient.nan")
    explains = (
        "nonfinite_loss",
        "nonfinite_weight",
        "updates_all_skipped",
    )

    def check(self, window: Window) -> list[Finding]:
        """Search for the first applied step with a non-finite gradient."""
        nan, inf = window.matrix("gradient", "nan"), window.matrix("gradient", "inf")
        if nan is None or inf is None or not len(nan):
            raise NotEnoughData("no gradient was recorded")
        # Absent values are NaN and so never above 0.
        bad_ST = ((nan.values_ST > 0) | (inf.values_ST > 0)) & ~nan.skipped_S[:, None]
        bad_S = bad_ST.any(axis=1)
        if not bad_S.any():
            return []
        rows = np.flatnonzero(bad_S)
        return [self._judge(window, nan, inf, bad_ST[rows[0]], rows)]

    def _judge(self, window: Window, nan: Matrix, inf: Matrix, bad_T: Bools, rows: Ints) -> Finding:
        first = int(rows[0])
        # Backward runs from the loss to the inputs, and tensors are known in forward order.
        columns = [int(t) for t in reversed(np.flatnonzero(bad_T))]
        tensors = [nan.tensors[t] for t in columns]
        present = int(nan.present_ST[first].sum())
        worst = columns[0]
        step = int(nan.steps_S[first])
        seen = operation_at(window, step, backward=True)
        if seen is None:  # the gradient of the step before was not recorded
            seen = operation_at(window, step - 1, backward=True)
        fixes = (advice_on(seen),) if seen is not None else (REPLAY_NAMES_IT, *self.fixes(window))
        cause = f"; {operation_in_words(seen)}" if seen is not None else ""
        place = next((t.location for t in tensors if t.location), None)
        return self.finding(
            window,
            severity=Severity.ERROR,
            step=step,
            last_step=int(nan.steps_S[rows[-1]]),
            count=len(rows),
            layers=tuple(tensor.name for tensor in tensors),
            message=(
                f"{len(columns)} of {present} gradients contain NaN or infinite values; the "
                f"gradient nearest to the loss is {tensors[0].name}{cause}"
            ),
            evidence={
                "nan": float(nan.values_ST[first, worst]),
                "inf": float(inf.values_ST[first, worst]),
                "gradients": len(columns),
                "of": present,
            },
            location=(seen.location if seen is not None else None) or place,
            fixes=fixes,
        )
