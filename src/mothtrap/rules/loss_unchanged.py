"""LOS414: the training loss is exactly the same in every step."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Series, Window

ONE_OUTPUT = (
    "Use two outputs or more, one per class, or use a binary loss with one output: in PyTorch "
    "`binary_cross_entropy_with_logits`, in Keras `BinaryCrossentropy(from_logits=True)`, in JAX "
    "`optax.sigmoid_binary_cross_entropy`."
)


@frozen
class LossUnchanged(Rule):
    """The training loss is exactly the same in every step.

    What it detects:
        A loss that is bit-for-bit equal in all steps from the first. Also a class loss over one
        output, which is 0 for every prediction.

    Why it matters:
        New weights or new rows change the loss at least in its last digit. If it stays equal,
        either the loss does not depend on the weights or the weights do not change. The model
        learns nothing.

    Fires:
        Error when a class loss has one class and the loss is 0 in `few_steps` steps. Warning when
        all losses of the run, at least `num_steps`, are equal; error from `many_steps` on.

    Stays quiet:
        For a loss that changed in any step, skipped steps, and the first steps.

    What to do:
        - Trace the loss back to the weights: it must be computed from the model's output, and
          not from constants, rounded values, or detached tensors.
        - Check that the optimizer has the parameters of this model and a learning rate above 0.
        - If a triplet or margin loss equals its margin, all distances are equal. Check that
          anchor, positive, and negative are different rows of the right classes, and that the
          embeddings differ from each other.

    Example:
        loss = F.cross_entropy(nn.Linear(64, 1)(x), y)      # one class: always 0
        loss = F.binary_cross_entropy_with_logits(nn.Linear(64, 1)(x).squeeze(1), y)

    References:
        Goodfellow, Bengio, Courville 2016, Deep learning, section 6.2.2
    """

    code = "LOS414"
    needs = (Need(scalars=("loss",)), Need(facts=(LossCall,), optional=True))
    proof = Proof(title="Loss", scalars=("loss",), reference=("value",))
    explains = (
        "loss_not_decreasing",
        "stuck_at_chance",
        "overtraining",
        "nothing_learned",
        "evaluation_unchanged",
        "gradient_missing",
        "target_ignored",
    )

    few_steps: int = threshold(5, unit="steps", source="chosen by hand: one class is proof enough")
    num_steps: int = threshold(
        30,
        unit="steps",
        source="chosen by hand: in half precision a loss can repeat for some steps",
    )

    many_steps: int = threshold(
        200, unit="steps", source="chosen by hand: 200 steps without learning"
    )

    def check(self, window: Window) -> list[Finding]:
        """Compare the losses of each series."""
        every = [s for s in window.scalars("loss") if s.mode is Mode.TRAIN and len(s)]
        if not every:
            raise NotEnoughData("no loss was recorded")
        if all(s.total < self.few_steps for s in every):
            raise NotEnoughData(f"fewer than {self.few_steps} losses were recorded")
        return [found for s in every if (found := self._judge(window, s))][:1]

    def _judge(self, window: Window, series: Series) -> Finding | None:
        used_S = ~np.isin(series.steps_S, window.steps_S[window.skipped_S])
        loss_S = series.values_S[used_S]
        value = float(loss_S[-1]) if len(loss_S) else float("nan")
        if not np.isfinite(value) or (loss_S != value).any() or (series.early_S != value).any():
            return None
        single = next((c for c in _calls(window, series) if c.classes == 1), None)
        if single is not None and not value and len(loss_S) >= self.few_steps:
            what = (
                f"the loss is 0 in all {series.total} steps: {single.operation} has only one "
                "class, whose probability is always 1"
            )
            return self._finding(window, series, Severity.ERROR, what, (ONE_OUTPUT,))
        if series.total < self.num_steps or len(loss_S) < self.num_steps:
            return None
        what = f"the loss is exactly {value:.6g} in all {series.total} steps"
        trace, optimizer, margin = self.fixes(window)
        fixes: tuple[str, ...] = trace, optimizer
        if _calls(window, series) == [] and value > 0:
            fixes = margin, trace, optimizer
        severity = Severity.ERROR if series.total >= self.many_steps else Severity.WARNING
        return self._finding(window, series, severity, what, fixes)

    def _finding(
        self,
        window: Window,
        series: Series,
        severity: Severity,
        message: str,
        fixes: tuple[str, ...],
    ) -> Finding:
        return self.finding(
            window,
            severity=severity,
            step=0,
            last_step=int(series.steps_S[-1]),
            count=series.total,
            message=message,
            evidence={"value": float(series.values_S[-1]), "steps": series.total},
            fixes=fixes,
            location=series.location,
        )


def _calls(window: Window, series: Series) -> list[LossCall]:
    """Return the loss calls of a series."""
    return [
        call
        for call in window.seen(LossCall)
        if call.mode is Mode.TRAIN
        and (call.series == series.of or (call.series is None and call.location == series.location))
    ]
