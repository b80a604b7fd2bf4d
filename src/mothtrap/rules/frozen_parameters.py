"""OPT606: most of a model is frozen at its random initial values."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import ForwardScales
from mothtrap.core.facts.modules import FrozenParameters as Frozen
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._losses import has_players

MIN_STEPS = 5
"""Steps after which all models have been inspected."""
UNOWNED = (
    "Compute and apply the gradients of all its `trainable_variables`.",
    "If the model is frozen on purpose, set `trainable = False`.",
)

ALL_OF_IT = "If a model"
"""Start of the fix for models that are completely frozen."""


@frozen
class FrozenParameters(Rule):
    """Most of a model is frozen at its random initial values.

    What it detects:
        A model whose parameters mostly have `requires_grad=False` (`trainable=False`), or that no
        optimizer updates in a `GradientTape` loop, although they still have the framework's default
        initialization, or the initialization of a transformer that was created from its
        configuration.

    Why it matters:
        Freezing keeps pretrained weights. Here the frozen weights are random, so the rest of the
        model learns from random features.

    Fires:
        Warning when more than `frozen_share` of a model's parameters are frozen, and more than
        `untouched_share` of the frozen parameters still have the default initialization, among
        the parameters for which this can be recognized. If the first layer is one of them, so that
        all others get random features, `first_share` is enough.

    Stays quiet:
        For backbones that were loaded or trained before, adapters on them (LoRA), and layers with
        a different initialization. For models that are completely frozen, unless a Keras loop
        calls them under its tape. For a smaller frozen part behind trained layers, such as the
        discriminator of a GAN.

    What to do:
        - PyTorch: Load the pretrained weights before freezing: `from_pretrained` of transformers,
          or `load_state_dict` with `strict=True`, which lists the keys that do not match.
        - PyTorch: Without pretrained weights, set `requires_grad_(True)` and give the optimizer
          all parameters.
        - Keras: Set `layer.trainable = True` before `compile`, or load pretrained weights
          (`weights="imagenet"`, `load_weights`) into the layers that stay frozen.
        - Keras: If a model trains both alone and inside another model (a GAN), set its
          `trainable = True` before it trains alone, and `False` only before the other trains.

    Example:
        model = resnet18()                    # no weights are loaded
        for parameter in model.parameters():
            parameter.requires_grad = False
        model.fc = nn.Linear(512, 10)

    References:
        https://docs.pytorch.org/docs/stable/notes/autograd.html#setting-requires-grad
    """

    code = "OPT606"
    needs = (
        Need(facts=(Frozen,)),
        Need(facts=(ForwardScales,), scalars=("loss",), optional=True),
    )
    explains = (
        *UNLEARNED,
        "constant_output",
        "learning_rate_too_low",
        "parameter_without_optimizer",
    )

    frozen_share: float = threshold(
        0.5,
        unit="of a model's parameters, in elements",
        source="chosen by hand; the frozen discriminator of a Keras GAN is smaller",
    )
    first_share: float = threshold(
        0.25,
        unit="of a model's parameters, in elements",
        source="measured: freezing a first layer of 47 % costs 6 % of the accuracy",
    )
    untouched_share: float = threshold(
        0.9,
        unit="of the frozen elements whose initialization can be recognized",
        source="chosen by hand: a trained layer exceeds its initial bound somewhere",
    )

    def check(self, window: Window) -> list[Finding]:
        """Check the frozen parameters of every trained model."""
        if window.total_steps < MIN_STEPS:
            raise NotEnoughData(f"needs {MIN_STEPS} steps, saw {window.total_steps}")
        newest = {seen.root: seen for seen in window.seen(Frozen)}
        if not newest:
            raise NotApplicable("every parameter of the trained models is trained")
        found = [
            self._finding(window, seen, limit)
            for seen in newest.values()
            if seen.frozen > (limit := self._limit(window, seen)) * seen.elements
            and seen.untouched > self.untouched_share * max(1, seen.judged)
        ]
        return found[:1]

    def _limit(self, window: Window, seen: Frozen) -> float:
        """Return the share of a model that must be frozen."""
        scales = next((one for one in window.seen(ForwardScales) if one.root == seen.root), None)
        is_first = scales is not None and scales.layers[0].layer in seen.modules
        return self.first_share if is_first and not has_players(window) else self.frozen_share

    def _advice(self, window: Window, seen: Frozen) -> tuple[str, ...]:
        """Return the fixes, the most likely first."""
        if seen.unowned:
            return UNOWNED
        every = self.fixes(window)
        whole = tuple(fix for fix in every if fix.startswith(ALL_OF_IT))
        rest = tuple(fix for fix in every if fix not in whole)
        return (*whole, *rest) if seen.frozen >= seen.elements else rest

    def _finding(self, window: Window, seen: Frozen, limit: float) -> Finding:
        share = seen.frozen / max(1, seen.elements)
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=0,
            last_step=seen.step,
            count=1,
            layers=seen.modules,
            message=(
                f"{100 * share:.3g} % of the parameters of {seen.root} are "
                f"{'in no optimizer' if seen.unowned else 'frozen'} (limit "
                f"{100 * limit:g} %) and still have their random initial values: no "
                "pretrained weights were loaded"
            ),
            evidence={
                "frozen_share": share,
                "limit": limit,
                "untouched_share": seen.untouched / max(1, seen.judged),
                "elements": seen.elements,
            },
            fixes=self._advice(window, seen),
            location=seen.location,
        )
