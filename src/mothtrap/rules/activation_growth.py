"""ACT204: the scale of activations grows or fades from layer to layer, or over steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import ForwardScales, LayerScale
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Window

EARLY_LOOKS = 5
"""Looks at the beginning that later ones are compared with; chosen by hand."""
LEARNED = 0.5
"""Share of its first value that a loss which has been learned is below; chosen by hand."""


@dataclass(frozen=True)
class ActivationGrowth(Rule):
    """The scale of activations grows or fades from layer to layer, or over steps.

    What it detects:
        Outputs of layers whose size is multiplied by about the same factor from each
        layer to the next, at the start of training; or that grow on and on while
        training goes on.

    Why it matters:
        What grows through depth overflows or drowns what came before; what fades leaves
        the last layers blind. Growth over steps ends in values that half precision
        cannot hold, and in steps that no learning rate suits.

    Fires:
        Warning when, in the first look, the sizes of at least `min_layers` hidden layers
        follow a straight line on a logarithmic scale (correlation of
        `line_correlation`) that ends `depth_ratio` times as large or as small as it
        began. Or when a layer's output is `steps_ratio` times its early size and more than
        `large_rms`, and grew in each of the last `growing_looks` looks.

    Stays quiet:
        Models in which normalization layers keep the scale, the growth of logits of a
        classifier, last layers while the loss falls, models of few layers.

    What to do:
        - PyTorch: Initialize each layer to keep the scale: `nn.init.kaiming_normal_` before
          ReLU.
        - Keras: Initialize each layer to keep the scale: `kernel_initializer="he_normal"`
          before ReLU.
        - JAX: Initialize each layer to keep the scale: `jax.nn.initializers.he_normal()`
          before ReLU.
        - Put normalization layers between layers, or residual connections around them.
        - Lower the learning rate or add weight decay where the growth is over steps.

    Example:
        for layer in layers:
            nn.init.normal_(layer.weight, std=0.3)     # 256 inputs: grows by 3.4 a layer
            nn.init.kaiming_normal_(layer.weight)

    References:
        He et al. 2015, Delving deep into rectifiers, https://arxiv.org/abs/1502.01852
    """

    code = "ACT204"
    needs = (Need(facts=(ForwardScales,)), Need(scalars=("loss",), optional=True))
    explains = (
        "dead_units",
        "exploding_gradient",
        "loss_not_decreasing",
        "nonfinite_activation",
        "nonfinite_gradient",
        "nonfinite_loss",
        "saturated_activation",
        "stuck_at_chance",
        "vanishing_gradient",
        "wrong_initial_loss",
    )

    min_layers: int = threshold(4, unit="hidden layers", source="chosen by hand")
    depth_ratio: float = threshold(
        1e3,
        unit="times the size of the first layer's output",
        source="chosen by hand: PyTorch's own initialization ends at its biases, 30x below",
    )
    line_correlation: float = threshold(
        0.9, unit="correlation of log size and depth", source="chosen by hand"
    )
    steps_ratio: float = threshold(100.0, unit="times the early size", source="chosen by hand")
    large_rms: float = threshold(100.0, unit="root mean square", source="chosen by hand")
    growing_looks: int = threshold(3, unit="looks running", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Look at the layers of every root, through depth and over steps."""
        by_root: dict[str, list[ForwardScales]] = {}
        for look in window.seen(ForwardScales):
            by_root.setdefault(look.root, []).append(look)
        if not by_root:
            if window.total_steps < 1:
                raise NotEnoughData("no forward was looked at")
            raise NotApplicable("no layer with weights is trained")
        for looks in by_root.values():
            found = self._through_depth(window, looks[0]) or self._over_steps(window, looks)
            if found:
                return [found]
        return []

    def _through_depth(self, window: Window, look: ForwardScales) -> Finding | None:
        hidden = [layer for layer in look.layers if not layer.last]
        size_L = np.array([layer.output_rms for layer in hidden])
        if len(hidden) < self.min_layers or size_L.min() <= 0:
            return None
        log_L, depth_L = np.log(size_L), np.arange(len(size_L))
        spread = float(log_L.std())
        if spread == 0:
            return None
        correlation = float(np.corrcoef(log_L, depth_L)[0, 1])
        factor = float(np.exp(correlation * spread / depth_L.std()))
        total = float(factor ** (len(size_L) - 1))
        on_a_line = abs(correlation) >= self.line_correlation
        if not on_a_line or 1 / self.depth_ratio < total < self.depth_ratio:
            return None
        word = "grows" if total > 1 else "fades"
        return self._finding(
            window,
            look.step,
            hidden[-1],
            f"the size of activations {word} by {factor:.3g}x a layer: {_named(hidden[0])} "
            f"outputs {size_L[0]:.3g}, {_named(hidden[-1])} outputs {size_L[-1]:.3g}",
            {"value": total, "limit": self.depth_ratio, "factor": factor},
        )

    def _over_steps(self, window: Window, looks: list[ForwardScales]) -> Finding | None:
        sizes: dict[str, list[tuple[int, LayerScale]]] = {}
        for look in looks:
            for layer in look.layers:
                sizes.setdefault(layer.layer, []).append((look.step, layer))
        for seen in sizes.values():
            size_L = np.array([layer.output_rms for _, layer in seen])
            last = seen[-1][1]
            if len(size_L) < EARLY_LOOKS + self.growing_looks or last.normalized:
                continue
            if last.last and _has_learned(window):  # it comes nearer to its targets
                continue
            early = float(np.median(size_L[:EARLY_LOOKS]))
            limit = max(self.steps_ratio * early, self.large_rms)
            if size_L[-1] > limit and self._grows(size_L):
                since = int(np.flatnonzero(size_L <= limit)[-1]) + 1 if size_L.min() <= limit else 0
                return self._finding(
                    window,
                    seen[since][0],
                    seen[-1][1],
                    f"{_named(seen[-1][1])} outputs {size_L[-1]:.3g} in root mean square, "
                    f"{size_L[-1] / max(early, 1e-30):.3g}x as much as in the first steps",
                    {"value": float(size_L[-1]), "limit": limit, "early": early},
                )
        return None

    def _grows(self, size_L: Floats) -> bool:
        return bool((np.diff(size_L[-1 - self.growing_looks :]) > 0).all())

    def _finding(
        self,
        window: Window,
        step: int,
        layer: LayerScale,
        message: str,
        evidence: dict[str, float],
    ) -> Finding:
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=step,
            layers=(layer.layer,),
            message=message,
            evidence={**evidence},
            location=layer.location,
        )


def _has_learned(window: Window) -> bool:
    """Return whether a loss has fallen to half and less."""
    for series in window.scalars("loss"):
        loss_S = series.values_S[np.isfinite(series.values_S)]
        if len(loss_S) > 2 * EARLY_LOOKS:
            first = series.first if np.isfinite(series.first) else loss_S[0]
            if 0 <= float(np.median(loss_S[-EARLY_LOOKS:])) < LEARNED * first:
                return True
    return False


def _named(layer: LayerScale) -> str:
    """Return path and type: a path such as `2` alone reads as a number."""
    return f"{layer.layer} ({layer.layer_type})"
