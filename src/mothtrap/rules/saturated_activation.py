"""ACT202: the inputs of sigmoid or tanh units lie where the derivative is nearly 0."""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from itertools import takewhile

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import UnitInputs
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.texts import layer_in_words
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Window
from mothtrap.rules._choice import ANY_LAYER, is_chosen

SOFT = {"sigmoid": 4.6, "tanh": 3.0}
"""Absolute inputs beyond which the derivative is below 1e-2."""


@frozen
class SaturatedActivation(Rule):
    """The inputs of sigmoid or tanh units lie where the derivative is nearly 0.

    What it detects:
        Modules such as `nn.Sigmoid` and `nn.Tanh` inside a model whose inputs lie so far from 0
        that the curve is flat there.

    Why it matters:
        Backward multiplies the gradient by the derivative at the unit's input. Where the curve is
        flat, hardly any gradient reaches the earlier layers. A unit with the same output for every
        example carries no information.

    Fires:
        Warning when, in `persisting_looks` consecutive samples with at least `min_examples`
        examples, more than `threshold_layer` percent of a module's units are inactive. A unit is
        inactive if fewer than `threshold_inactivity` percent of its inputs lie between
        `threshold_tanh_min` below and `threshold_tanh_max` above 0 (for sigmoid,
        `threshold_sigmoid_min` and `threshold_sigmoid_max`), where the derivative is above 1e-7.
        Also when more than `soft_share` of all inputs lie where the derivative is below 1e-2.
        `layer_regex` selects the modules by path.

    Stays quiet:
        The last activation of a model, whose outputs may be near the limits. Modules of fewer than
        `min_units` units, where half of the units may saturate by chance. Gates inside recurrent
        layers and functions such as `torch.tanh`, which are not modules and cannot be observed.

    What to do:
        - PyTorch: Normalize the inputs of the layer before, and give its initial weights a gain
          near 1: `nn.init.xavier_uniform_`.
        - Keras: Use `activation="relu"` in hidden layers, and scale the inputs.
        - JAX: Normalize the inputs of the layer before, and give its initial weights a gain near 1:
          `jax.nn.initializers.glorot_uniform()`.
        - Put a normalization layer before the activation.
        - Lower the learning rate: large steps push units into saturation.
        - PyTorch: Use an activation that does not saturate: `nn.ReLU`, `nn.GELU`.
        - JAX: Use an activation that does not saturate: `jax.nn.relu`, `jax.nn.gelu`.

    Example:
        nn.init.normal_(layer.weight, std=5.0)      # inputs of tanh far beyond 3
        nn.init.xavier_uniform_(layer.weight)

    References:
        Glorot, Bengio 2010, Understanding the difficulty of training deep feedforward
        neural networks, https://proceedings.mlr.press/v9/glorot10a.html
    """

    code = "ACT202"
    needs = (Need(facts=(UnitInputs,)),)
    explains = ("constant_output", "vanishing_gradient", "loss_not_decreasing", "stuck_at_chance")

    threshold_tanh_min: float = threshold(
        9.4999, unit="below 0, input of tanh", source="derivative 1e-7, a common default"
    )
    threshold_tanh_max: float = threshold(
        9.4999, unit="input of tanh", source="derivative 1e-7, a common default"
    )
    threshold_sigmoid_min: float = threshold(
        23.0, unit="below 0, input of sigmoid", source="a common default"
    )
    threshold_sigmoid_max: float = threshold(
        16.99999, unit="input of sigmoid", source="derivative 1e-7, a common default"
    )
    threshold_inactivity: float = threshold(
        1.0, unit="percent of a unit's inputs", source="a common default"
    )
    threshold_layer: float = threshold(
        50.0, unit="percent of a module's units", source="a common default"
    )
    soft_share: float = threshold(
        0.8,
        unit="share of all inputs beyond a derivative of 1e-2",
        source="chosen by hand: trained networks that work show up to 0.5",
    )
    persisting_looks: int = threshold(2, unit="consecutive samples", source="chosen by hand")
    min_examples: int = threshold(
        32, unit="examples in the latest samples", source="chosen by hand"
    )
    min_units: int = threshold(
        8, unit="units", source="chosen by hand: with 2 of 4 units, half can saturate by chance"
    )
    layer_regex: str = threshold(
        ANY_LAYER, unit="regular expression over layers", source="chosen by hand: all"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check every sigmoid or tanh module."""
        seen: dict[str, list[UnitInputs]] = {}
        for look in window.seen(UnitInputs):
            if is_chosen(look.module, self.layer_regex):
                seen.setdefault(look.module, []).append(look)
        if not seen:
            if window.total_steps < self.persisting_looks:
                raise NotEnoughData("no forward pass was sampled")
            raise NotApplicable("no sigmoid or tanh module was observed (functions are not)")
        inside = {
            name: looks
            for name, looks in seen.items()
            if not looks[-1].last and looks[-1].units >= self.min_units
        }
        if not inside:
            raise NotApplicable(
                f"sigmoid and tanh are outputs of the model, or have under {self.min_units} units"
            )
        if max(map(self._examples, inside.values())) < self.min_examples:
            raise NotEnoughData(f"fewer than {self.min_examples} examples were sampled")
        found = [self._judge(window, looks) for looks in inside.values()]
        judged = [finding for finding in found if finding]
        return sorted(judged, key=lambda finding: finding.step)[:1]

    def _examples(self, looks: list[UnitInputs]) -> int:
        return sum(
            sum(look.counts) // max(1, look.units) for look in looks[-self.persisting_looks :]
        )

    def _judge(self, window: Window, looks: list[UnitInputs]) -> Finding | None:
        if self._examples(looks) < self.min_examples:
            return None
        for hardly in (True, False):
            held = list(takewhile(partial(self._is_flat, hardly=hardly), reversed(looks)))
            if len(held) >= self.persisting_looks:
                return self._finding(window, held[::-1], hardly)
        return None

    def _is_flat(self, look: UnitInputs, *, hardly: bool) -> bool:
        if hardly:
            return self._inactive_percent(look) > self.threshold_layer
        return self._beyond(look) > self.soft_share

    def _bounds(self, function: str) -> tuple[float, float]:
        if function == "tanh":
            return -self.threshold_tanh_min, self.threshold_tanh_max
        return -self.threshold_sigmoid_min, self.threshold_sigmoid_max

    def _inactive_percent(self, look: UnitInputs) -> float:
        counts_UG = _counts(look)
        total_U = counts_UG.sum(axis=1)
        within_U = _within(counts_UG, look.edges, *self._bounds(look.function))
        inactive_U = 100 * within_U < self.threshold_inactivity * total_U
        return 100 * float(inactive_U.mean())

    def _beyond(self, look: UnitInputs) -> float:
        counts_UG = _counts(look)
        bound = SOFT[look.function]
        return 1 - float(_within(counts_UG, look.edges, -bound, bound).sum() / counts_UG.sum())

    def _finding(self, window: Window, looks: list[UnitInputs], hardly: bool) -> Finding:
        last = looks[-1]
        percent, beyond = self._inactive_percent(last), self._beyond(last)
        low, high = self._bounds(last.function)
        what = (
            f"{percent:.0f}% of the units of {layer_in_words(last.module)} "
            f"({last.module_type}) get only inputs "
            f"outside {low:.3g} to {high:.3g}, where the derivative is below 1e-7"
            if hardly
            else f"{beyond:.0%} of the inputs of {last.module} ({last.module_type}) lie where its "
            f"derivative is below 1e-2"
        )
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=looks[0].step,
            last_step=last.step,
            count=len(looks),
            layers=(last.module,),
            message=what,
            evidence={
                "value": percent if hardly else beyond,
                "limit": self.threshold_layer if hardly else self.soft_share,
                "inactive_percent": percent,
                "beyond_share": beyond,
                "units": last.units,
            },
            location=last.location,
        )


def _counts(look: UnitInputs) -> Floats:
    """Inputs by unit and gap between edges, shape (units, gaps)."""
    return np.array(look.counts, dtype=np.float64).reshape(look.units, -1)


def _within(counts_UG: Floats, edges: tuple[float, ...], low: float, high: float) -> Floats:
    """Return the number of inputs of each unit between two bounds, shape (units,).

    A bound between two edges divides the gap in proportion. Inputs beyond the last edge count
    only if the bound lies beyond it.
    """
    within_U: Floats = _below(counts_UG, edges, high) - _below(counts_UG, edges, low)
    return within_U


def _below(counts_UG: Floats, edges: tuple[float, ...], bound: float) -> Floats:
    gap = bisect_right(edges, bound)
    if bound > edges[-1]:
        gap += 1  # nothing more is known beyond the last edge: count all of it
    below_U: Floats = counts_UG[:, :gap].sum(axis=1)
    if 0 < gap < len(edges):
        share = (bound - edges[gap - 1]) / (edges[gap] - edges[gap - 1])
        below_U += share * counts_UG[:, gap]
    return below_U
