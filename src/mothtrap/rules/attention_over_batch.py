"""STR725: the softmax of an attention runs over the batch or the heads."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.layers import AttentionAxis
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED


@dataclass(frozen=True)
class AttentionOverBatch(Rule):
    """The softmax of an attention runs over the batch or the heads.

    What it detects:
        Attention weights that are multiplied with values and added over positions, but that sum to
        1 over axis 0, the rows of the batch, or over axis 1 of 4, the heads.

    Why it matters:
        The rows of a batch compete for the attention, and the positions of a row do not. The
        weights of a row do not sum to 1, and its prediction depends on the other rows. The loss
        still falls, so the run looks normal.

    Fires:
        Warning in `looks` sampled backward passes in which a softmax over axis 0, or over axis 1 of
        4, goes into a product of matrices, or into a product that is added over another axis.

    Stays quiet:
        If an axis is moved between the softmax and the product. For weights that are added over
        axis 0, as those of experts, or of sequences with the time first. If axis 0 is not the
        batch, as in capsule networks, and if axis 1 has the classes of pixels.

    What to do:
        - PyTorch: Apply the softmax over the keys: `scores.softmax(dim=-1)`.
        - PyTorch: Give `dim` to each softmax: without it, an axis is chosen by the number of axes.

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
                    f"the softmax of an attention with scores of shape {last.shape} runs over axis "
                    f"{first.axis}, {axis}, instead of the positions whose values are added"
                ),
                evidence={"shape": list(last.shape), "axis": first.axis, "looks": len(seen)},
                location=first.location,
            )
        ]
