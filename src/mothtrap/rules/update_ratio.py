"""WGT304: steps change a weight by far too much or hardly at all."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Window
from mothtrap.rules._stretches import stretches
from mothtrap.rules._weights import (
    GRADIENTS,
    WEIGHTS,
    Ratios,
    moved_before,
    norms_at,
    training_at,
    update_ratios,
)

LAYERS_NAMED = 10
"""Maximum number of weights that a finding names."""


@frozen
class UpdateRatio(Rule):
    """Steps change a weight by far too much or hardly at all.

    What it detects:
        Weights whose change per step, relative to their norm, is outside any useful range in
        several consecutive samples.

    Why it matters:
        A weight that is replaced in every step retains nothing. One that changes by less than 1e-8
        of its norm is not trained, although it gets a gradient. About 1e-3 is healthy.

    Fires:
        Warning when the change over `num_steps` steps, divided by the norm of the weight (plus
        `epsilon`), is above `large_threshold` or below `small_threshold` in `samples` consecutive
        samples in which the weight had a gradient and the learning rate was above 0.

    Stays quiet:
        Weights that started at 0. Weights without a gradient. Frozen weights. A learning rate of 0.
        Decay to 0 at the end of a schedule. Steps that loss scaling skips. Small
        changes at samples between which the weight moves.

    What to do:
        - Too large: lower the learning rate of this weight's group, or check whether code resets
          the weight between steps (clipping, renormalization).
        - Too small: raise the learning rate of its group, or look for a factor that scales down the
          update or the gradient.
        - Check that 16-bit weights can represent the update, see NUM008.

    Example:
        groups = [{"params": body, "lr": 1e-10}, {"params": head, "lr": 1e-3}]
        groups = [{"params": body, "lr": 1e-4}, {"params": head, "lr": 1e-3}]

    References:
        Karpathy 2015, CS231n, Ratio of weights to updates,
        https://cs231n.github.io/neural-networks-3/
    """

    code = "WGT304"
    needs = (
        *WEIGHTS,
        GRADIENTS,
        Need(scalars=("lr",), optional=True),
    )
    proof = Proof(
        title="Change of the weights by a step, relative to their norm",
        statistic="weight.update_ratio",
        reference=("limit",),
        scale="log",
    )

    large_threshold: float = threshold(
        10.0, unit="of the norm", source="WeightUpdateRatio of SageMaker Debugger"
    )
    small_threshold: float = threshold(
        1e-8, unit="of the norm", source="WeightUpdateRatio of SageMaker Debugger"
    )
    epsilon: float = threshold(
        1e-9, unit="added to the norm", source="WeightUpdateRatio of SageMaker Debugger"
    )
    num_steps: int = threshold(
        1,
        unit="steps, each assumed equal to the sampled one in size and direction",
        source="chosen by hand",
    )
    samples: int = threshold(
        3, unit="consecutive samples", source="chosen by hand: the first steps of Adam are larger"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check every weight."""
        ratios = update_ratios(window)
        if ratios is None or len(ratios.steps_S) < self.samples:
            raise NotEnoughData(f"fewer than {self.samples} weight changes were sampled")
        value_ST = self.num_steps * _against(window, ratios, self.epsilon)
        trains_ST = training_at(window, ratios)
        moved_ST = moved_before(norms_at(window, ratios))
        found: list[tuple[int, int, int, bool]] = []
        for column in range(value_ST.shape[1]):
            for above in (True, False):
                value_S = value_ST[:, column]
                small_S = (value_S < self.small_threshold) & ~moved_ST[:, column]
                out_S = value_S > self.large_threshold if above else small_S
                known_S = ~np.isnan(value_S)
                rows = np.flatnonzero(known_S)
                held = stretches((out_S & trains_ST[:, column])[rows])
                long = [(a, b) for a, b in held if b - a >= self.samples]
                if long:
                    begin, stop = long[0]
                    found.append((int(rows[begin]), stop - begin, column, above))
        if not found:
            return []
        found.sort()
        row, count, column, above = found[0]
        value = float(value_ST[row + count - 1, column])
        limit = self.large_threshold if above else self.small_threshold
        tensor = ratios.tensors[column]
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        finding = self.finding(
            window,
            severity=Severity.WARNING,
            step=int(ratios.steps_S[row]),
            last_step=int(ratios.steps_S[min(row + count, len(ratios.steps_S)) - 1]),
            count=count,
            layers=tuple(ratios.tensors[c].name for _, _, c, _ in found[:LAYERS_NAMED]),
            message=(
                f"a step changes {tensor.name}{more} by {value:.2g} of its norm, "
                f"{'above' if above else 'below'} {limit:g} in {count} consecutive samples"
            ),
            evidence={"value": value, "limit": limit, "weights": len(found)},
            fixes=self.fixes(window) if above else self.fixes(window)[1:],
            title="updates too large" if above else "updates too small",
            location=tensor.location,
        )
        return [finding]


def _against(window: Window, ratios: Ratios, epsilon: float) -> Floats:
    """Return the ratios to the norm plus `epsilon`, or to the norm if it is unknown."""
    norm_ST = norms_at(window, ratios)
    share_ST = np.where(norm_ST > 0, norm_ST / (norm_ST + epsilon), 1.0)
    return ratios.values_ST * share_ST
