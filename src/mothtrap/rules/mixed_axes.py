"""STR724: a view changes the order of axes where a transpose was intended."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.losses import LossSeries, MixedAxes
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED


@frozen
class MixedAxesRule(Rule):
    """A view changes the order of axes where a transpose was intended.

    What it detects:
        A `view` or `reshape` under a loss whose result has the sizes of the input in another
        order, or a prediction and targets that are flattened in different orders.

    Why it matters:
        A view keeps the order of the values in memory. With another order of axes, values of
        different rows, positions, or channels end up next to each other. The shapes fit, so nothing
        fails, and the model learns from scrambled rows.

    Fires:
        Warning when in `share` of the observed backward passes of a line, at least `looks`, two
        axes of different sizes change places in a view (neither size divides the other), more than
        two axes do, or an axis is joined with the last one over an axis between them:
        `(batch, heads, time, size)` as `(batch, time, heads * size)`, or the reverse. Also when the
        prediction is flattened from `(a, b, ...)` and its targets from `(b, a)`.

    Stays quiet:
        For views that split axes or merge neighboring axes. For axes of equal size, except for
        heads that attention has just computed. For views outside the graph of the loss, such as
        views of the data.

    What to do:
        - PyTorch: Move the axes before the view: `x.transpose(1, 2).reshape(...)`, or `permute`. To
          split heads, view first: `x.view(b, t, heads, size).transpose(1, 2)`.
        - JAX: Move the axes with `jnp.swapaxes` or `jnp.transpose`; `reshape` does not move values.
        - Flatten the prediction and the targets in the same order of axes: transpose one of them
          before `reshape(-1)`.

    Example:
        y = attention @ v                      # (batch, heads, time, size)
        y = y.contiguous().view(b, t, -1)      # mixes heads and positions
        y = y.transpose(1, 2).reshape(b, t, -1)

    References:
        https://docs.pytorch.org/docs/stable/generated/torch.Tensor.view.html
    """

    code = "STR724"
    title = "a view mixes up axes"
    needs = (Need(facts=(MixedAxes,)), Need(facts=(LossSeries,), optional=True))
    explains = (*UNLEARNED, "causal_leak", "overfit", "label_noise")

    looks: int = threshold(4, unit="backward passes", source="chosen by hand")
    share: float = threshold(
        0.75, unit="of the passes", source="chosen by hand: the last batch can have other sizes"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check the views under each line of a loss."""
        if window.total_steps < self.looks:
            raise NotEnoughData(f"needs {self.looks} steps, saw {window.total_steps}")
        for one in window.seen(MixedAxes):
            if one.mixed >= max(self.looks, self.share * one.looks):
                return [self._finding(window, one)]
        return []

    def _finding(self, window: Window, one: MixedAxes) -> Finding:
        before, flatten = self.fixes(window)
        if one.targets:
            message = (
                f"the prediction is flattened from shape {one.given}, and its targets from shape "
                f"{one.became}: most predictions are compared with targets of other rows"
            )
        else:
            message = (
                f"a tensor of shape {one.given} is viewed as {one.became}: the axes change places, "
                "but their values stay where they are, so values of different rows are mixed"
            )
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=0,
            last_step=one.step,
            count=one.mixed,
            message=message,
            evidence={
                "given": list(one.given),
                "became": list(one.became),
                "looks": one.looks,
                "limit": self.looks,
            },
            location=one.location,
            fixes=(flatten, before) if one.targets else (before,),
        )
