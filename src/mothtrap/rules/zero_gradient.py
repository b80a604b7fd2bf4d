"""GRD108: a layer gets a gradient of exactly 0 in every step."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.texts import layer_in_words
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Matrix, Window
from mothtrap.rules._layers import LOOKUPS

LAYERS_NAMED = 10
"""Maximum number of layers that a finding names."""


@frozen
class ZeroGradient(Rule):
    """A layer gets a gradient of exactly 0 in every step.

    What it detects:
        Layers that backward reaches, but whose parameters get a gradient of exactly 0, while other
        layers get a nonzero gradient.

    Why it matters:
        The output of the layer has no influence on the loss. It is multiplied by 0 (a gate, a mask,
        or a coefficient), or passes through an operation whose derivative is 0.

    Fires:
        Info when the gradients of all parameters of a layer are 0 at each of at least `num_steps`
        captured steps, and at least the share `others` of the layers have gradients.

    Stays quiet:
        For layers that had a gradient in one of these steps, such as layers behind a gate that
        begins at 0. For embeddings, because a batch may use none of their rows. For layers that
        backward does not reach (see `disconnected_parameter`).

    What to do:
        - Look for a factor of 0 between the layer and the loss, such as a gate or a coefficient
          that is 0, or a mask that hides everything.
        - Look for an operation without a slope: a rounding, a comparison, a clamp, or a ReLU whose
          units are all dead.
        - If the layer is switched off on purpose, leave it out of the optimizer.

    Example:
        h = h + 0 * self.time_mlp(t)        # the model never sees the time

    References:
        https://docs.pytorch.org/docs/stable/notes/autograd.html
    """

    code = "GRD108"
    title = "gradient is always 0"
    needs = (Need(kinds=("gradient",), statistics=("l2",)),)
    proof = Proof(title="Gradient norm", statistic="gradient.l2")

    num_steps: int = threshold(
        30,
        unit="captured steps",
        source="chosen by hand: gates that begin at 0 open in a few steps",
    )
    others: float = threshold(0.5, unit="of the layers", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check the gradients of all parameters of each layer."""
        norms = window.matrix("gradient", "l2")
        if norms is None or len(norms) < self.num_steps:
            captured = 0 if norms is None else len(norms)
            raise NotEnoughData(f"needs {self.num_steps} captured steps, saw {captured}")
        layers = _layers(norms)
        silent = [name for name, columns in layers.items() if self._is_silent(norms, columns)]
        if not silent or len(silent) > (1 - self.others) * len(layers):
            return []
        first = norms.tensors[layers[silent[0]][0]]
        steps_S = norms.steps_S[norms.present_ST[:, layers[silent[0]][0]]]
        more = f" and {len(silent) - 1} more" if len(silent) > 1 else ""
        return [
            self.finding(
                window,
                severity=Severity.INFO,
                step=int(steps_S[0]),
                last_step=int(steps_S[-1]),
                count=len(steps_S),
                layers=tuple(silent[:LAYERS_NAMED]),
                message=(
                    f"the gradient of {layer_in_words(silent[0])}{more} is exactly 0 in all of "
                    f"{len(steps_S)} "
                    f"captured steps (limit {self.num_steps}), so its output does not influence "
                    "the loss"
                ),
                evidence={"steps": len(steps_S), "limit": self.num_steps, "layers": len(silent)},
                location=first.location,
            )
        ]

    def _is_silent(self, norms: Matrix, columns: list[int]) -> bool:
        present_S = norms.present_ST[:, columns].all(axis=1)
        values_ST = norms.values_ST[present_S][:, columns]
        return len(values_ST) >= self.num_steps and bool((values_ST == 0).all())


def _layers(norms: Matrix) -> dict[str, list[int]]:
    """Return the columns of the parameters of each module."""
    found: dict[str, list[int]] = {}
    for column, tensor in enumerate(norms.tensors):
        if tensor.module_type not in LOOKUPS:
            found.setdefault(tensor.module, []).append(column)
    return found
