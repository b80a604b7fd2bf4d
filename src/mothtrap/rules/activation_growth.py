"""ACT204: activations grow or shrink from layer to layer, or grow over time."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import ForwardScales, LayerScale
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Window

EARLY_LOOKS = 5
"""Number of first observations with which later observations are compared; chosen by hand."""
LEARNED = 0.5
"""A loss below this share of its first value counts as learned; chosen by hand."""


@frozen
class ActivationGrowth(Rule):
    """Activations grow or shrink from layer to layer, or grow over time.

    What it detects:
        Layer outputs whose root mean square changes by about the same factor from each layer to
        the next at the start of training, or that keep growing during training.

    Why it matters:
        Activations that grow with depth overflow or dominate earlier signals. Activations that
        shrink leave the last layers without a signal. Activations that grow over time exceed the
        range of half precision, and no learning rate fits.

    Fires:
        Warning when, in the first observation, the sizes of at least `min_layers` hidden layers
        follow a line on a logarithmic scale (correlation of `line_correlation`) whose end is
        `depth_ratio` times as large or as small as its start. Warning when a layer's output is
        `steps_ratio` times its early size and more than `large_rms`, and grew in each of the
        last `growing_looks` observations.

    Stays quiet:
        For models whose normalization layers keep the scale, growing logits of a classifier, last
        layers while the loss falls, and models with few layers.

    What to do:
        - PyTorch: Initialize each layer to keep the scale: `nn.init.kaiming_normal_` before
          ReLU.
        - Keras: Initialize each layer to keep the scale: `kernel_initializer="he_normal"`
          before ReLU.
        - JAX: Initialize each layer to keep the scale: `jax.nn.initializers.he_normal()`
          before ReLU.
        - Put normalization layers between layers, or residual connections around them.
        - If activations grow over time, lower the learning rate or add weight decay.

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
        source="chosen by hand: with PyTorch's default initialization, sizes stay above 1/30",
    )
    line_correlation: float = threshold(
        0.9, unit="correlation of log size and depth", source="chosen by hand"
    )
    steps_ratio: float = threshold(100.0, unit="times the early size", source="chosen by hand")
    large_rms: float = threshold(100.0, unit="root mean square", source="chosen by hand")
    growing_looks: int = threshold(3, unit="consecutive observations", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check the layers of every model, through depth and over time."""
        by_root: dict[str, list[ForwardScales]] = {}
        for look in window.seen(ForwardScales):
            by_root.setdefault(look.root, []).append(look)
        if not by_root:
            if window.total_steps < 1:
                raise NotEnoughData("no forward call was observed")
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
        word = "grow" if total > 1 else "shrink"
        return self._finding(
            window,
            look.step,
            hidden[-1],
            f"activations {word} by a factor of {factor:.3g} per layer: the root mean square is "
            f"{size_L[0]:.3g} after {_named(hidden[0])} and {size_L[-1]:.3g} after "
            f"{_named(hidden[-1])}",
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
                    f"the output of {_named(seen[-1][1])} has a root mean square of "
                    f"{size_L[-1]:.3g}, {size_L[-1] / max(early, 1e-30):.3g}x its size in the "
                    "first steps",
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
    """Return whether a loss has fallen below half of its first value."""
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
