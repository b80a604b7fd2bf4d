"""GRD102: hardly any gradient reaches the first layers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.layers import DataTaken
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._layers import (
    LayerGradients,
    front_to_back,
    layer_gradients,
    rank_correlation,
    strongest_ends,
)
from mothtrap.rules._losses import finite_part, has_players
from mothtrap.rules._weights import optimizer_facts

MIN_LAYERS = 4
"""Fewest layers through which a gradient can vanish; chosen by hand: with fewer it recovers."""

ORDERED = 0.7
"""Rank correlation of gradient and depth that counts as a fall with depth; chosen by hand."""

MANY_LAYERS = 10
"""From this many layers on, a fall with depth is distinguished from a fall at two layers."""
FEW_LAYERS = 6
"""From this many layers on, a transformer with a single block is recognized: the gradients of the
layers before the last two rise and fall in turn."""
SHARE_WITHIN = 0.5
"""Largest difference of the (logarithmic) gradient between the first and the last layer, as a share
of all rises and falls between them. Chosen by hand: it is 0.34 in a BERT of one block."""
SHARE_ELSEWHERE = 0.4
"""Least share of the fall that is not at the two layers where it is largest. Chosen by hand: it is
0.29 in a small BERT, and (L - 3) / (L - 1) in L equal layers."""
SHARE_AT_BORDER = 0.7
"""If this share of the (logarithmic) fall lies at the border of two parts of a model, depth is not
its cause; chosen by hand."""

LAYERS_NAMED = 10
"""Maximum number of layers that a finding names."""

WHY_OF_CUT = (
    "No gradient passes a detached tensor. The layers before it learn only from other terms of "
    "the loss, not from the layers after it."
)
WHY_OF_FACTOR = (
    "The last layer gets as little gradient as the first: the gradient is already small at the "
    "loss and does not vanish with depth. An adaptive optimizer compensates for that only while "
    "the gradient is much larger than its epsilon."
)
FIX_OF_FACTOR = (
    "Look for a factor that makes the loss small, such as a second division by the number of "
    "examples, and remove it."
)

MAD_TO_STD = 1.4826
MIN_SURE = 2.0
"""Number of standard deviations of a loss; the median of five losses has about 0.6 of one."""


@frozen
class VanishingGradient(Rule):
    """Almost no gradient reaches the first layers.

    What it detects:
        A gradient that shrinks from layer to layer during backward, so that the first layers get
        orders of magnitude less than the last ones (per bias, or per weight in layers without one).
        Or gradients that are near 0 in most layers from the start.

    Why it matters:
        The first layers keep their initial values. The later layers have to work with untrained
        features.

    Fires:
        When, for `num_steps` captured steps, the first of at least four layers get less than
        `ratio_limit` of the last layers' gradient, falling with depth, while the loss fell by less
        than `fallen_share` in total or by less than `recent_share` recently. Error from
        `error_steps` steps on if the ratio is below `error_ratio`; otherwise a warning. Also a
        warning below `stuck_limit`, if the only loss has not fallen by `fallen_share` in
        `error_steps` steps, and when the mean absolute gradient of most weights is below
        `mean_limit` from the start and the loss does not fall.

    Stays quiet:
        A falling loss. Small gradients of a loss that has reached its minimum. The few steps that
        an adaptive optimizer needs to recover from a bad start. Layers without any gradient.
        Embeddings. Biases before a normalization.

    What to do:
        - PyTorch: Remove the `.detach()` (or `.data`) if the gradient should reach the layers
          before it.
        - Keras: Remove the `stop_gradient` if the gradient should reach the layers before it.
        - JAX: Remove the `jax.lax.stop_gradient` if the gradient should reach the layers before it.
        - PyTorch: Use ReLU or GELU instead of sigmoid or tanh between the layers, with matching
          initialization: `nn.init.kaiming_normal_(weight, nonlinearity="relu")`.
        - Keras: Use `activation="relu"` in hidden layers with `kernel_initializer="he_normal"`, or
          add `keras.layers.BatchNormalization()`.
        - JAX: Use ReLU or GELU instead of sigmoid or tanh between the layers, with matching
          initialization: `jax.nn.initializers.he_normal()`.
        - Add residual connections or normalization layers: both carry the gradient past a layer
          that shrinks it.
        - In recurrent networks, use gates (LSTM, GRU) instead of a plain recurrence.

    Example:
        layers = [m for _ in range(10) for m in (nn.Linear(64, 64), nn.Sigmoid())]
        layers = [m for _ in range(10) for m in (nn.Linear(64, 64), nn.ReLU())]

    References:
        Glorot, Bengio 2010, Understanding the difficulty of training deep feedforward
        neural networks, https://proceedings.mlr.press/v9/glorot10a.html
    """

    code = "GRD102"
    needs = (
        Need(kinds=("gradient",), statistics=("l2",)),
        Need(kinds=("gradient",), statistics=("abs_mean",), every=50),
        Need(scalars=("loss",), optional=True),
        Need(facts=(DataTaken, OptimizerFacts), optional=True),
    )
    proof = Proof(
        title="Gradient norm of the first and of the last layer",
        statistic="gradient.l2",
        beside=("first_layer", "last_layer"),
        reference=("limit",),
        scale="log",
    )
    explains = (
        *UNLEARNED,
        "activation_growth",
        "constant_output",
        "learning_rate_too_low",
        "saturated_activation",
        "unchanged_tensor",
        "update_ratio",
    )
    passes = True

    ratio_limit: float = threshold(
        1e-3,
        unit="of the last layers' gradient",
        source="measured: networks of 4 to 20 layers that learn are above 4e-3 by step 100",
    )
    error_ratio: float = threshold(
        1e-5, unit="of the last layers' gradient", source="measured: no network below it learned"
    )
    num_steps: int = threshold(
        50,
        unit="captured steps",
        source=("measured: Adam recovers from such a start in 50 to 100 steps"),
    )
    error_steps: int = threshold(
        150,
        unit="captured steps",
        source=("measured: 20 layers trained with Adam learn from step 200 on"),
    )
    stuck_limit: float = threshold(
        4e-3,
        unit="of the last layers' gradient",
        source="measured: as for `ratio_limit`; three sigmoid layers that only guess have 2e-3",
    )
    fallen_share: float = threshold(0.1, unit="of the first loss", source="chosen by hand")
    recent_share: float = threshold(
        0.03, unit="of the loss half a window earlier", source="chosen by hand"
    )
    mean_limit: float = threshold(
        1e-7, unit="mean absolute gradient", source="the rule of SageMaker Debugger"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check the layers of every optimizer, then the size of all gradients."""
        if window.total_steps < self.num_steps:
            raise NotEnoughData(f"needs {self.num_steps} steps, saw {window.total_steps}")
        groups = [g for g in layer_gradients(window) if len(g.steps_S) >= self.num_steps]
        found = [f for group in groups if (f := self._through_depth(window, group))]
        found = found or self._everywhere(window)
        if not found and not groups and window.matrix("gradient", "abs_mean") is None:
            raise NotEnoughData(
                f"no layers that step together were captured in {self.num_steps} steps"
            )
        return sorted(found, key=lambda f: (f.severity.rank, f.step))[:1]

    def _through_depth(self, window: Window, group: LayerGradients) -> Finding | None:
        if len(group.modules) < MIN_LAYERS:
            return None
        ratio_S = front_to_back(group.rms_SL)
        level_L = np.median(group.rms_SL[-self.num_steps :], axis=0)
        ratio = float(np.median(ratio_S[-self.num_steps :]))
        limit = self.stuck_limit if self._stands(window) else self.ratio_limit
        if not 0 < ratio < limit or rank_correlation(level_L) < ORDERED:
            return None
        if self._learns(window, int(group.steps_S[0])):
            return None
        held = np.flatnonzero(ratio_S < limit)
        weak = np.flatnonzero(level_L < limit**0.5 * level_L.max())
        grave = float(np.median(ratio_S)) < self.error_ratio and len(held) >= self.error_steps
        severity = Severity.ERROR if grave and not has_players(window) else Severity.WARNING
        cut = self._cut(window, group, level_L)
        if cut is None and (
            _falls_between_parts(group.modules, level_L)
            or _falls_at_two_layers(level_L)
            or self._side_by_side(window, group)
        ):
            return None
        through = f"after passing through {len(group.modules)} layers"
        if cut is not None:
            through = f"because {cut.layer} receives a tensor that is detached from the graph"
        return self.finding(
            window,
            severity=severity,
            step=int(group.steps_S[held[0]]),
            last_step=int(group.steps_S[held[-1]]),
            count=len(held),
            layers=tuple(group.modules[i] for i in weak[:LAYERS_NAMED]),
            message=(
                f"the gradient of the first layers is {ratio:.2g} times the gradient of the last "
                f"layers (limit {limit:g}), {through}"
            ),
            evidence={
                "value": ratio,
                "limit": limit,
                "first": float(level_L[0]),
                "last": float(level_L[-1]),
                **strongest_ends(group.modules, level_L),
                "layers": len(group.modules),
                "detached_before": cut.layer if cut is not None else None,
            },
            fixes=self.fixes(window)[:1] if cut is not None else self.fixes(window)[1:],
            why=WHY_OF_CUT if cut is not None else None,
            location=cut.cut_at
            if cut is not None
            else next((group.tensors[i].location for i in weak), None),
        )

    def _stands(self, window: Window) -> bool:
        """Return whether the only loss has stayed at its first level for many steps."""
        every = [finite_part(series)[1] for series in window.scalars("loss")]
        if len(every) != 1 or len(every[0]) < self.error_steps or every[0].min() <= 0:
            return False
        first = float(np.median(every[0][: self.num_steps // 5]))
        return float(np.median(every[0][-self.num_steps :])) > (1 - self.fallen_share) * first

    def _cut(self, window: Window, group: LayerGradients, level_L: Floats) -> DataTaken | None:
        """Return the layer whose input was detached and before which all layers are weak."""
        weak_L = level_L < self.ratio_limit**0.5 * level_L.max()
        for seen in window.seen(DataTaken):
            place = group.modules.index(seen.layer) if seen.layer in group.modules else 0
            if seen.cut_at is not None and place > 0 and weak_L[:place].all():
                return seen
        return None

    def _side_by_side(self, window: Window, group: LayerGradients) -> bool:
        """Return whether the gradient does not fall along any path that starts at the data.

        Args:
            window: The mapping has the layers that receive data; each layer starts a path.
            group: The layers of all paths.
        """
        data = {seen.layer for seen in window.seen(DataTaken) if seen.cut_at is None}
        starts = [place for place, name in enumerate(group.modules) if place and name in data]
        if not starts:
            return False
        pieces = np.split(group.rms_SL[-self.num_steps :], starts, axis=1)
        return all(float(np.median(front_to_back(p))) >= self.ratio_limit for p in pieces)

    def _everywhere(self, window: Window) -> list[Finding]:
        """Find mean gradients that are near 0 in most weights."""
        means = window.matrix("gradient", "abs_mean")
        if means is None or not len(means):
            return []
        weights = [c for c, t in enumerate(means.tensors) if len(t.shape) > 1]
        mean_ST = means.values_ST[:, weights]
        seen_ST = mean_ST > 0
        small_ST = seen_ST & (mean_ST < self.mean_limit)
        most_S = 2 * small_ST.sum(axis=1) > seen_ST.sum(axis=1)
        most_S = most_S[seen_ST.any(axis=1)]
        enough = window.total_steps >= self.num_steps and len(most_S) > 1
        if not enough or not most_S.all() or self._learns(window, int(means.steps_S[0]), MIN_SURE):
            return []
        small_T = small_ST.any(axis=0)
        worst = [weights[i] for i in np.flatnonzero(small_T)]
        value = float(np.median(mean_ST[small_ST]))
        everywhere = bool(small_ST[seen_ST].all())
        losses = [series.location for series in window.scalars("loss") if series.location]
        return [
            self.finding(
                window,
                severity=Severity.WARNING,
                step=int(means.steps_S[0]),
                last_step=int(means.steps_S[-1]),
                count=len(means),
                layers=tuple(dict.fromkeys(means.tensors[c].module for c in worst))[:LAYERS_NAMED],
                message=(
                    f"the mean absolute gradient of {len(worst)} of {len(weights)} weights is "
                    f"{value:.2g} (limit {self.mean_limit:g}), and the loss does not fall"
                    f"{_beside_epsilon(window, value)}"
                ),
                evidence={"value": value, "limit": self.mean_limit, "weights": len(worst)},
                fixes=(FIX_OF_FACTOR,) if everywhere else self.fixes(window)[1:],
                why=WHY_OF_FACTOR if everywhere else None,
                location=losses[0]
                if everywhere and losses
                else next((means.tensors[c].location for c in worst), None),
            )
        ]

    def _learns(self, window: Window, since: int, sure: float = 0.0) -> bool:
        """Return whether a loss fell from its start and still falls, or is at its floor.

        Args:
            window: Has the losses.
            since: First step that counts.
            sure: Standard deviations of the latest losses by which it must have fallen.
        """
        for series in window.scalars("loss"):
            steps_S, loss_S = finite_part(series)
            loss_S = loss_S[steps_S >= since]
            if len(loss_S) < self.num_steps:
                continue
            size = len(loss_S) // 3
            first, last = float(np.median(loss_S[:5])), float(np.median(loss_S[-size:]))
            before = float(np.median(loss_S[size:-size]))
            scale = max(abs(first), abs(last))
            noise = MAD_TO_STD * float(np.median(np.abs(loss_S[-size:] - last)))
            fell = first - last >= max(self.fallen_share * scale, sure * noise)
            falls = before - last >= self.recent_share * max(abs(before), 1e-3 * scale)
            if fell and (falls or last <= 0.01 * first):
                return True
        return False


def _falls_between_parts(modules: Sequence[str], level_L: Floats) -> bool:
    """Return whether the gradient falls at the border of two parts, and not within them.

    A gradient that vanishes with depth falls at many layers. Parts that are used side by side
    get gradients of different size because they belong to different terms of the loss.

    Args:
        modules: Names of the layers, front to back.
        level_L: Gradient of each layer, shape (L,).
    """
    parts = [name.rpartition(".")[0] or name for name in modules]
    runs = [(part, len(list(run))) for part, run in itertools.groupby(parts)]
    if len(runs) < 2 or min(count for _, count in runs) < 2:
        return False
    fall_L = np.diff(np.log(np.maximum(level_L, 1e-300)))
    borders = [i for i in range(len(fall_L)) if parts[i] != parts[i + 1]]
    total = float(np.log(level_L[-1] / max(level_L[0], 1e-300)))
    return max(float(fall_L[i]) for i in borders) >= SHARE_AT_BORDER * total


def _falls_at_two_layers(level_L: Floats) -> bool:
    """Return whether the gradient of many layers falls at two of them, and hardly at the others.

    The last layer of a transformer and its pooling layer have a gradient of a different size than
    the layers below, whose sizes differ little.

    Args:
        level_L: Gradient of each layer, front to back, shape (L,).
    """
    if len(level_L) < MANY_LAYERS:
        return len(level_L) >= FEW_LAYERS and _is_uneven(level_L[:-2])
    quarter = max(1, len(level_L) // 4)
    highest_L = np.log(np.maximum(np.maximum.accumulate(level_L), 1e-300))[quarter - 1 :]
    fall_L = np.sort(np.diff(highest_L))
    return float(fall_L[:-2].sum()) < SHARE_ELSEWHERE * float(fall_L.sum())


def _is_uneven(level_L: Floats) -> bool:
    """Return whether the gradient rises and falls in turn, and hardly changes with depth."""
    step_L = np.diff(np.log(np.maximum(level_L, 1e-300)))
    falls = abs(float(step_L.sum())) < SHARE_WITHIN * float(np.abs(step_L).sum())
    return falls and bool((np.sign(step_L[1:]) != np.sign(step_L[:-1])).all())


def _beside_epsilon(window: Window, gradient: float) -> str:
    """Return how much an epsilon shortens the steps, '' if it is smaller than the gradient."""
    for facts in optimizer_facts(window).values():
        if facts.second_moments and facts.epsilon is not None and facts.epsilon > gradient:
            share = gradient / (gradient + facts.epsilon)
            return (
                f": {facts.optimizer} adds {facts.epsilon:g} to the size of the gradient, so its "
                f"steps are {100 * share:.2g} % as long as usual"
            )
    return ""
