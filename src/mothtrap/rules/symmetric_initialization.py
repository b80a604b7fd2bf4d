"""WGT302: the units of a layer start equal and stay equal."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.layers import IdenticalUnits, InitialWeights
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.texts import layer_in_words
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED

LAYERS_NAMED = 10
"""Maximum number of layers that a finding names."""


@frozen
class SymmetricInitialization(Rule):
    """The units of a layer start equal and get equal gradients.

    What it detects:
        Layers whose units all have the same incoming weights (all 0, or another constant) and get
        the same gradient step after step.

    Why it matters:
        Equal units with equal gradients stay equal, so even a wide layer computes no more than a
        single unit. With weights of 0 in several layers, no gradient passes at all, and only the
        last bias learns.

    Fires:
        Error when the units of a layer had the same weights before the first step, and had the same
        weights and the same gradient in each of `looks` sampled steps, while steps changed other
        parameters.

    Stays quiet:
        Zero layers whose units get different gradients and diverge in the first step: a last layer,
        the last layer of a residual branch, the second factor of a low-rank adapter. Biases,
        normalization layers, embeddings. Layers with one unit. Dropout that makes gradients differ.
        Learning rates of 0.

    What to do:
        - PyTorch: Initialize weights randomly: keep PyTorch's default initialization, or use
          `nn.init.kaiming_normal_` (ReLU) or `nn.init.xavier_uniform_` (tanh).
        - Keras: Leave `kernel_initializer` at its default, `"glorot_uniform"`.
        - JAX: Initialize weights randomly, each with its own key: `jax.random.normal(key, shape)`,
          or `jax.nn.initializers.he_normal()`.
        - PyTorch: Set only biases to 0, never all parameters: loop over `p for name, p in
          model.named_parameters() if name.endswith("bias")`.
        - Keras, JAX: Set only biases to 0, never all parameters.
        - If a block should start as the identity, set only its last layer to 0.

    Example:
        for p in model.parameters():
            nn.init.zeros_(p)                        # every unit stays like every other
        for layer in model.modules():
            if isinstance(layer, nn.Linear):
                nn.init.kaiming_normal_(layer.weight)

    References:
        Goodfellow, Bengio, Courville 2016, Deep Learning, section 8.4, Parameter
        initialization strategies, https://www.deeplearningbook.org
    """

    code = "WGT302"
    needs = (Need(facts=(IdenticalUnits, InitialWeights)),)
    explains = (
        "gradient_missing",
        *UNLEARNED,
        "constant_output",
        "dead_units",
        "learning_rate_too_low",
        "loss_diverging",
        "poor_initialization",
        "unchanged_tensor",
        "update_ratio",
        "vanishing_gradient",
        "zero_all",
    )

    looks: int = threshold(
        5,
        unit="sampled steps",
        source="chosen by hand: chains of zero layers diverge within 3 samples",
    )

    def check(self, window: Window) -> list[Finding]:
        """Check layers whose units were the same at the first step."""
        if next(window.seen(InitialWeights), None) is None:
            raise NotEnoughData("no weights were recorded before the first step of an optimizer")
        latest: dict[str, IdenticalUnits] = {}
        first_step: dict[str, int] = {}
        for seen in window.seen(IdenticalUnits):
            latest[seen.name] = seen
            first_step.setdefault(seen.name, seen.step)
        same = [seen for seen in latest.values() if seen.looks >= self.looks and seen.moved]
        if not same:
            if window.total_steps < self.looks and latest:
                raise NotEnoughData(f"fewer than {self.looks} steps were sampled")
            return []
        return [self._finding(window, same, min(first_step[seen.name] for seen in same))]

    def _finding(self, window: Window, same: list[IdenticalUnits], step: int) -> Finding:
        worst = same[0]
        weights = "weights of 0" if worst.zero else "the same weights"
        gradients = "no gradient" if worst.gradient_zero else "the same gradient"
        others = len(same) - 1
        more = f"; {others} more layer{'s are' if others > 1 else ' is'} affected" if others else ""
        return self.finding(
            window,
            severity=Severity.ERROR,
            step=step,
            last_step=max(seen.step for seen in same),
            count=max(seen.looks for seen in same),
            layers=tuple(dict.fromkeys(seen.layer for seen in same))[:LAYERS_NAMED],
            message=(
                f"all {worst.units} units of {layer_in_words(worst.layer)} "
                f"({worst.layer_type}) have {weights} and "
                f"get {gradients}{more}"
            ),
            evidence={
                "weight": worst.name,
                "units": worst.units,
                "looks": worst.looks,
                "zero": worst.zero,
                "gradient_zero": worst.gradient_zero,
                "layers": len(same),
            },
            location=worst.location,
        )
