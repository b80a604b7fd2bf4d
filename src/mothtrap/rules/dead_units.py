"""ACT201: units of a ReLU layer that are never active."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.tensors import TensorInfo
from mothtrap.core.texts import layer_in_words
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Bools, Floats, Ints, Matrix, Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._stretches import last_stretch, stretches

MEMORY_SAMPLES = 8
"""Captured batches that the statistic `inactive` covers."""


@frozen
class DeadUnits(Rule):
    """Units of a ReLU layer are 0 for every input.

    What it detects:
        ReLU-like modules in which many units were 0 for every example of the latest captured
        batches.

    Why it matters:
        The derivative of a dead unit is 0 for every input. No gradient reaches the weights
        before it, so it does not recover. A layer in which every unit is dead stops all earlier
        layers from learning.

    Fires:
        Warning when more than `warning_share` of a layer's units are dead in
        `persisting_samples` consecutive captures; error at `dead_share` or more. A layer of
        fewer than `min_units` units gets a warning at `dead_share` or more.

    Stays quiet:
        For sparse activations: units that are 0 for most examples but not for all. After the
        loss or a gradient becomes NaN or infinite. For modules that let negative values through
        (leaky ReLU, GELU, SiLU). With fewer than `min_examples` examples, because the inputs
        that activate a unit may be missing.

    What to do:
        - PyTorch: Lower the learning rate, or warm it up: one large step can push all units
          of a layer below zero.
        - PyTorch: Check the initial bias and weights of the preceding layer (He initialization,
          bias 0), and normalize the inputs.
        - PyTorch: Use an activation that passes some gradient: `nn.LeakyReLU`, `nn.GELU`.
        - Keras: Use `activation="leaky_relu"` (or `gelu`), `kernel_initializer="he_normal"`
          with the default bias initializer, and lower the learning rate.
        - JAX: Lower the learning rate, or warm it up: one large step can push all units of a
          layer below zero.
        - JAX: Initialize the preceding layer with He initialization
          (`jax.nn.initializers.he_normal()`) and bias 0, and scale the inputs.
        - JAX: Use an activation that passes some gradient: `jax.nn.leaky_relu`,
          `jax.nn.gelu`.

    Example:
        nn.init.constant_(layer.bias, -10.0)     # no input ever lifts the unit above 0
        nn.init.zeros_(layer.bias)

    References:
        Lu et al. 2020, Dying ReLU and initialization, https://arxiv.org/abs/1903.06733
    """

    code = "ACT201"
    needs = (
        Need(
            kinds=("activation",),
            statistics=("inactive",),
            roles=("rectifier",),
            every=16,
            steps=64,
        ),
        Need(scalars=("loss",), optional=True),
        Need(kinds=("gradient",), statistics=("nan",), optional=True),
    )
    proof = Proof(
        title="Share of inactive units", statistic="activation.inactive", reference=("limit",)
    )
    explains = (
        "gradient_missing",
        *UNLEARNED,
        "constant_output",
        "learning_rate_too_low",
        "overtraining",
        "token_ratio",
        "zero_gradient",
    )

    warning_share: float = threshold(
        0.7,
        unit="share of a layer's units",
        source="measured: in healthy autoencoders and GANs half of the units die",
    )
    dead_share: float = threshold(
        0.99, unit="share of a layer's units", source="chosen by hand: at most 1 in 100 is alive"
    )
    persisting_samples: int = threshold(
        2, unit="consecutive captures", source=f"chosen by hand; each covers {MEMORY_SAMPLES}"
    )
    min_examples: int = threshold(
        64,
        unit="examples",
        source="chosen by hand: a unit that is active for 1 in 10 shows it with p > 0.99",
    )
    min_units: int = threshold(
        8, unit="units", source="chosen by hand: a bottleneck of 4 may be dead by chance"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check every ReLU-like module over its captured steps."""
        inactive = window.matrix("activation", "inactive")
        if inactive is None or not inactive.tensors:
            if window.total_steps < MEMORY_SAMPLES:
                raise NotEnoughData("no module output was recorded")
            raise NotApplicable("the model has no ReLU module (functional relu is not observed)")
        columns = range(len(inactive.tensors))
        sound_S = inactive.steps_S < _first_broken(window)
        if not any(self._judged(inactive, column, sound_S).any() for column in columns):
            raise NotEnoughData(f"fewer than {self.min_examples} examples passed the ReLU modules")
        lowest = min(self.warning_share, self.dead_share)
        suspects = np.flatnonzero((inactive.values_ST > lowest - 1e-9).any(axis=0))
        layers = [self._layer(inactive, int(column), sound_S) for column in suspects]
        found = [layer for layer in layers if layer]
        return [self._finding(window, found)] if found else []

    def _judged(self, inactive: Matrix, column: int, sound_S: Bools) -> Bools:
        """Return a mask of the rows of a column that cover enough examples; shape (S,)."""
        present_S = inactive.present_ST[:, column] & np.isfinite(inactive.values_ST[:, column])
        present_S &= sound_S
        batches_S = np.minimum(np.cumsum(present_S), MEMORY_SAMPLES)
        enough_S: Bools = batches_S * _examples(inactive.tensors[column]) >= self.min_examples
        return present_S & enough_S

    def _layer(self, inactive: Matrix, column: int, sound_S: Bools) -> _Layer | None:
        judged_S = self._judged(inactive, column, sound_S)
        share_S = inactive.values_ST[judged_S, column]
        every_S = inactive.steps_S[inactive.present_ST[:, column]]
        steps_S = inactive.steps_S[judged_S]
        tensor = inactive.tensors[column]
        units = _units(tensor)
        limits = [(self.dead_share, Severity.ERROR), (self.warning_share, Severity.WARNING)]
        if units < self.min_units:
            limits = [(self.dead_share, Severity.WARNING)]
        for limit, severity in limits:
            begin = _persisting(share_S > limit - 1e-9, self.persisting_samples)
            if begin is None:
                continue
            # An inactive unit was inactive in all batches that the statistic covers.
            index = int(np.searchsorted(every_S, steps_S[begin]))
            onset = int(every_S[max(0, index - MEMORY_SAMPLES + 1)])
            held_S = share_S > limit - 1e-9
            return _Layer(
                tensor=tensor,
                severity=severity,
                limit=limit,
                step=onset,
                last_step=int(steps_S[held_S][-1]),
                count=int(held_S.sum()),
                share=_worst(share_S, begin),
                units=units,
            )
        return None

    def _finding(self, window: Window, found: list[_Layer]) -> Finding:
        found = sorted(found, key=lambda layer: (layer.severity.rank, -layer.share, layer.step))
        worst = found[0]
        same = [layer for layer in found if layer.severity is worst.severity]
        more = f"; so are units in {len(same) - 1} more layers" if len(same) > 1 else ""
        name = worst.tensor.module or worst.tensor.name
        return self.finding(
            window,
            severity=worst.severity,
            step=min(layer.step for layer in same),
            last_step=max(layer.last_step for layer in same),
            count=max(layer.count for layer in same),
            layers=tuple(layer.tensor.module or layer.tensor.name for layer in same),
            message=(
                f"{_units_in_words(worst)} of {layer_in_words(name)} "
                f"({worst.tensor.module_type}) {'is' if worst.units == 1 else 'are'} never active"
                f"{more}"
            ),
            evidence={
                "value": worst.share,
                "limit": worst.limit,
                "units": worst.units,
                "layers": len(same),
            },
            location=worst.tensor.location,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    tensor: TensorInfo
    severity: Severity
    limit: float
    step: int
    last_step: int
    count: int
    share: float
    units: int


def _units_in_words(layer: _Layer) -> str:
    if layer.units == 1:
        return "the only unit"
    return f"{layer.share:.0%} of the {layer.units} units"


def _first_broken(window: Window) -> float:
    """Return the step from which losses or gradients stay NaN, as ReLU turns NaN into 0."""
    seen = [(s.steps_S, ~np.isfinite(s.values_S)) for s in window.scalars("loss")]
    gradients = window.matrix("gradient", "nan")
    if gradients is not None:
        some_S = gradients.present_ST.any(axis=1)
        holds_ST = gradients.present_ST & (gradients.values_ST > 0)
        seen.append((gradients.steps_S[some_S], np.asarray(holds_ST[some_S].any(axis=1))))
    return min((_begin_of_end(*one) for one in seen if len(one[0]) and one[1][-1]), default=np.inf)


def _begin_of_end(steps_S: Ints, broken_S: Bools) -> float:
    """Return the start of the broken steps at the end; 0 if all steps are broken."""
    sound = np.flatnonzero(~broken_S)
    return float(steps_S[sound[-1] + 1]) if len(sound) else 0.0


def _persisting(held_S: Bools, samples: int) -> int | None:
    """Return the start of the stretch that is still active, else of the first long stretch."""
    last = last_stretch(held_S)
    if last and last[1] - last[0] >= samples:
        return last[0]
    return next((a for a, b in stretches(held_S) if b - a >= max(samples, MEMORY_SAMPLES)), None)


def _worst(share_S: Floats, begin: int) -> float:
    return float(share_S[begin:].max())


def _units(tensor: TensorInfo) -> int:
    """Return the number of units: channels of an image (N, C, H, W), else the last axis."""
    shape = tensor.shape
    if not shape:
        return 1
    return shape[1] if len(shape) in (4, 5) else shape[-1]


def _examples(tensor: TensorInfo) -> int:
    """Return the number of values of each unit in a batch."""
    units = max(1, _units(tensor))
    return max(1, math.prod(tensor.shape) // units)
