"""STR725: the attention softmax runs over the batch or the heads."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.layers import AttentionAxis
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED


@frozen
class AttentionOverBatch(Rule):
    """The attention softmax runs over the batch or the heads.

    What it detects:
        Attention weights that are multiplied by values and summed over positions, but that add up
        to 1 over axis 0 (the rows of the batch) or over axis 1 of 4 axes (the heads).

    Why it matters:
        The rows of a batch compete for attention, but the positions within a row do not. The
        weights of a row do not sum to 1, and its prediction depends on the other rows. The loss
        still falls, so the run looks normal.

    Fires:
        Warning when, in `looks` sampled backward passes, the result of a softmax over axis 0, or
        over axis 1 of 4 axes, is used in a matrix product, or in a product that is summed over
        another axis.

    Stays quiet:
        If an axis is moved between the softmax and the product. For weights that are summed over
        axis 0, such as the weights of experts, or of sequences whose first axis is time. If
        axis 0 is not the batch (capsule networks), or axis 1 holds the classes of pixels.

    What to do:
        - PyTorch: Apply the softmax over the keys: `scores.softmax(dim=-1)`.
        - PyTorch: Pass `dim` to each softmax. Without it, PyTorch picks an axis by the number of
          axes.

    Example:
        weights = torch.softmax(scores, dim=0)      # scores have shape (batch, length)
        weights = torch.softmax(scores, dim=-1)

    References:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softmax.html
    """

    code = "STR725"
    title = "attention over the batch"
    needs = (Need(facts=(AttentionAxis,)),)
    explains = (*UNLEARNED, "attention_collapse", "labels_unrelated", "overfit")

    looks: int = threshold(3, unit="backward passes", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Report attention whose softmax runs over a wrong axis."""
        if window.total_steps < self.looks:
            raise NotEnoughData(f"needs {self.looks} steps, saw {window.total_steps}")
        seen = list(window.seen(AttentionAxis))
        if len(seen) < self.looks:
            return []
        first, last = seen[0], seen[-1]
        axis = "the heads" if first.axis else "the rows of the batch"
        return [
            self.finding(
                window,
                severity=Severity.WARNING,
                title="attention over the heads" if first.axis else "",
                step=first.step,
                last_step=last.step,
                count=len(seen),
                message=(
                    f"the softmax of the attention scores of shape {last.shape} runs over axis "
                    f"{first.axis}, {axis}, and not over the positions whose values are summed"
                ),
                evidence={"shape": list(last.shape), "axis": first.axis, "looks": len(seen)},
                location=first.location,
            )
        ]
