"""OPT607: weight decay is stronger than the gradient."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Bools, Floats, Window
from mothtrap.rules._weights import (
    GRADIENTS,
    WEIGHTS,
    Sizes,
    loss_level,
    optimizer_facts,
    optimizer_location,
    update_ratios,
    weight_sizes,
)


@frozen
class WeightDecayDominates(Rule):
    """Weight decay is stronger than the gradient.

    What it detects:
        An optimizer whose decay changes the weights more than the gradient of the loss does, while
        the weights shrink and the loss does not fall.

    Why it matters:
        The optimizer minimizes the size of the weights instead of the error: the weights shrink
        until the output is constant.

    Fires:
        Warning when, in `samples` samples or more, the decay was above `pull_ratio` times the
        gradient (decoupled decay: more than `decay_share` of the update), the norm of all weights
        is below `shrunk_share` of its first value, and the loss is above `lost_share` of its
        initial value. Also when the norm is below `held_share`, and the loss is above
        `stuck_share` and has stopped falling: less than `still_share` from the second third of
        the steps to the last.

    Stays quiet:
        Decay with a falling loss. Normalized layers in balance with their decay. Usual decay while
        the gradient has vanished: the weights hardly shrink.

    What to do:
        - Lower the weight decay: 1e-4 to 1e-2 with SGD and Adam, 0.01 to 0.1 with AdamW.
        - Use AdamW instead of Adam: it does not divide the decay by the size of the gradient.
        - Exclude biases and the scales of normalization layers from decay.

    Example:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.5)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=5e-4)

    References:
        Loshchilov, Hutter 2019, Decoupled weight decay regularization,
        https://arxiv.org/abs/1711.05101
    """

    code = "OPT607"
    needs = (
        *WEIGHTS,
        GRADIENTS,
        Need(facts=(OptimizerFacts,), scalars=("lr",)),
        Need(scalars=("loss",), optional=True),
    )
    proof = Proof(title="Norm of the weights", statistic="weight.l2", joint=True, scale="log")
    passes = True
    explains = (
        "cannot_overfit",
        "constant_output",
        "dead_units",
        "learning_rate_too_high",
        "loss_diverging",
        "loss_not_decreasing",
        "stuck_at_chance",
        "update_ratio",
        "vanishing_gradient",
        "weight_collapse",
    )

    pull_ratio: float = threshold(
        1.0,
        unit="decay * norm of the weights / norm of the gradient",
        source="measured on 4 small networks x 13 settings: below 0.5 where the loss falls",
    )
    decay_share: float = threshold(
        0.8, unit="of the update of a weight", source="measured like `pull_ratio`"
    )
    shrunk_share: float = threshold(
        0.6, unit="of the first norm of all weights", source="measured like `pull_ratio`"
    )
    lost_share: float = threshold(0.8, unit="of the first losses", source="chosen by hand")
    held_share: float = threshold(
        0.75,
        unit="of the first norm of all weights",
        source="measured on a series of decays: 0.7 where a classifier loses 8 % of its accuracy",
    )
    stuck_share: float = threshold(0.3, unit="of the first losses", source="chosen by hand")
    still_share: float = threshold(0.05, unit="of the loss", source="chosen by hand")
    samples: int = threshold(3, unit="captured steps", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check every optimizer with weight decay."""
        decaying = [f for f in optimizer_facts(window).values() if f.weight_decay > 0]
        if not decaying:
            if not optimizer_facts(window):
                raise NotEnoughData("no optimizer was recorded")
            raise NotApplicable("no optimizer has weight decay")
        sizes = weight_sizes(window)
        if sizes is None or len(sizes.steps_S) < self.samples:
            raise NotEnoughData(f"fewer than {self.samples} samples of the weights")
        level = loss_level(window)
        if level is None:
            raise NotEnoughData("the loss history is unknown")
        share = float(sizes.joint()[-1] / sizes.joint()[0])
        is_lost = share <= self.shrunk_share and level >= self.lost_share
        if not is_lost and not self._is_held(window, share, level):
            return []
        strongest = max(decaying, key=lambda facts: facts.weight_decay)
        pull_S, wins_S = self._pull(window, sizes, strongest)
        if wins_S.sum() < self.samples:
            return []
        return [self._finding(window, sizes, strongest, pull_S, wins_S, level)]

    def _is_held(self, window: Window, share: float, level: float) -> bool:
        """Return whether the weights have shrunk, and the loss stays at a high level."""
        if share > self.held_share or level < self.stuck_share:
            return False
        longest = max(window.scalars("loss"), key=lambda series: series.total)
        loss_S = longest.values_S[np.isfinite(longest.values_S)]
        _, before, last = (part.mean() for part in np.array_split(loss_S, 3))
        return bool(last >= (1 - self.still_share) * before)

    def _pull(self, window: Window, sizes: Sizes, facts: OptimizerFacts) -> tuple[Floats, Bools]:
        """Return the strength of the decay at each inspection; NaN if it is not known."""
        if not facts.decoupled:
            pull_S = facts.weight_decay * sizes.joint() / _gradient_norms(window, sizes)
            return pull_S, pull_S >= self.pull_ratio
        ratios = update_ratios(window)
        if ratios is None or facts.learning_rate is None:
            return np.full(len(sizes.steps_S), np.nan), np.zeros(len(sizes.steps_S), np.bool_)
        by_step = dict(zip(ratios.steps_S.tolist(), ratios.middle().tolist(), strict=True))
        rates = {
            step: rate
            for series in window.scalars("lr")
            if series.of == facts.optimizer
            for step, rate in zip(series.steps_S.tolist(), series.values_S.tolist(), strict=True)
        }
        pull_S = np.array(
            [
                facts.weight_decay
                * rates.get(step, facts.learning_rate)
                / (by_step.get(step) or np.nan)
                for step in sizes.steps_S.tolist()
            ]
        )
        return pull_S, pull_S >= self.decay_share

    def _finding(
        self,
        window: Window,
        sizes: Sizes,
        facts: OptimizerFacts,
        pull_S: Floats,
        wins_S: Bools,
        level: float,
    ) -> Finding:
        share = float(sizes.joint()[-1] / sizes.joint()[0])
        typical = float(np.median(pull_S[wins_S]))
        how = (
            f"makes up {100 * min(1.0, typical):.3g} % of its updates"
            if facts.decoupled
            else f"is {typical:.3g}x as strong as the gradient"
        )
        share_T = sizes.values_ST[-1] / sizes.values_ST[0]
        onset = int(np.argmax(wins_S))
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=int(sizes.steps_S[onset]),
            last_step=int(sizes.steps_S[-1]),
            count=int(wins_S.sum()),
            layers=tuple(sizes.tensors[i].name for i in np.argsort(share_T)[:5]),
            message=(
                f"the weight decay of {facts.optimizer} ({facts.weight_decay:g}) {how}: the "
                f"weights have shrunk to {100 * share:.2g} %, and the loss is {level:.2g}x its "
                "initial value"
            ),
            evidence={
                "value": typical,
                "limit": self.decay_share if facts.decoupled else self.pull_ratio,
                "weight_decay": facts.weight_decay,
                "shrunk_to": share,
                "loss_level": level,
                "optimizer": facts.optimizer,
            },
            location=optimizer_location(window, facts.optimizer),
        )


def _gradient_norms(window: Window, sizes: Sizes) -> Floats:
    """Return the norm of the gradients of the weights at each inspection; NaN = not captured."""
    gradients = window.matrix("gradient", "l2")
    if gradients is None:
        return np.full(len(sizes.steps_S), np.nan)
    names = {tensor.name: column for column, tensor in enumerate(gradients.tensors)}
    columns = [names[tensor.name] for tensor in sizes.tensors if tensor.name in names]
    row_of = {step: row for row, step in enumerate(gradients.steps_S.tolist())}
    found = []
    for step in sizes.steps_S.tolist():
        row = row_of.get(step)
        squares = (
            np.nansum(np.square(gradients.values_ST[row][columns])) if row is not None else 0.0
        )
        found.append(np.sqrt(squares) if squares > 0 else np.nan)
    return np.array(found)
