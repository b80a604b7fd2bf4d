"""WGT303: trained weights, or named tensors, do not change."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.tensors import TensorInfo
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Bools, Floats, Ints, Window
from mothtrap.rules._configured import named_columns, needs_of
from mothtrap.rules._losses import is_solved
from mothtrap.rules._stretches import last_stretch
from mothtrap.rules._weights import (
    GRADIENTS,
    WEIGHTS,
    loss_level,
    moved_before,
    norms_at,
    training_at,
    update_ratios,
)

COMPARED = ("min", "max", "mean", "std", "l2")
"""Statistics that identify a tensor's values; equal in all means unchanged."""
RESTORED_LOOKS = 5
"""Samples in which a norm must be bit-identical; chosen by hand."""
FLAT_SHARE = 0.9
"""Share of its first value above which a loss has not fallen; chosen by hand."""
LAYERS_NAMED = 10


@frozen
class UnchangedTensor(Rule):
    """Trained weights, or named tensors, do not change.

    What it detects:
        Weights that get a gradient at a learning rate above 0 but are the same after the step, or
        are reset between steps. Among the tensors that the user names: those that are equal over
        several captured steps.

    Why it matters:
        The loop computes gradients, but nothing moves the weights. The optimizer steps on other
        weights, the update is too small for the number type, or a copy is loaded over the weights
        again.

    Fires:
        Error when, in the last `num_steps` samples, no step changed half of the weights that had a
        gradient, or their norms are bit-identical in five samples although steps change them, and
        the loss does not fall; warning for fewer weights. Tensors that match `tensors`: warning
        when minimum, maximum, mean, standard deviation and norm are equal within `rtol` and `atol`
        at `num_steps` consecutive captured steps (with `equal_nan`, NaN equals NaN).

    Stays quiet:
        Frozen weights. A learning rate of 0 (see OPT601). Weights without a gradient. Steps that
        loss scaling skips. Weights that change between the samples. A loss of about 0. Tensors that
        are not named. Named tensors are captured once every `every_steps` steps.

    What to do:
        - PyTorch: Look for code that writes the weights after the step: `load_state_dict`, an
          average that is copied back, a projection.
        - Keras: Look for code that writes the weights after the step: `set_weights`,
          `load_weights`, a constraint, an average that is copied back.
        - JAX: Assign and return the updated parameters: `params = optax.apply_updates(params,
          updates)`; nothing changes in place.
        - Raise the learning rate of the group, or keep 16-bit weights in float32.
        - PyTorch: Check that the optimizer's `step` is PyTorch's, and that it gets these weights.
        - JAX: Look for a schedule that stays at its first step, with a learning rate of 0 (keep the
          state that `optimizer.update` returns), and for `optax.set_to_zero()`.

    Example:
        optimizer.step()
        model.load_state_dict(average.state_dict())    # undoes the step

    References:
        AWS, Amazon SageMaker Debugger built-in rules, UnchangedTensor,
        https://docs.aws.amazon.com/sagemaker/latest/dg/debugger-built-in-rules.html
    """

    code = "WGT303"
    needs = (
        *WEIGHTS,
        GRADIENTS,
        Need(scalars=("loss", "lr"), optional=True),
    )
    proof = Proof(
        title="Change of the weights by a step, relative to their norm",
        statistic="weight.update_ratio",
    )
    explains = ("loss_not_decreasing", "overtraining", "stuck_at_chance", "update_ratio")

    tensors: str = threshold("", unit="patterns of tensors", source="named by the user")
    num_steps: int = threshold(
        3, unit="consecutive captured steps", source="UnchangedTensor of SageMaker Debugger"
    )
    rtol: float = threshold(
        1e-5, unit="of the statistic", source="UnchangedTensor of SageMaker Debugger"
    )
    atol: float = threshold(
        1e-8, unit="of the values", source="UnchangedTensor of SageMaker Debugger"
    )
    equal_nan: bool = threshold(
        False, unit="yes or no", source="UnchangedTensor of SageMaker Debugger"
    )
    every_steps: int = threshold(50, unit="steps", source="chosen by hand")

    def __post_init__(self) -> None:
        """Request the named tensors, in addition to the weights."""
        named = needs_of(self.code, self.tensors, COMPARED, self.every_steps)
        object.__setattr__(self, "needs", (*type(self).needs, *named))

    def check(self, window: Window) -> list[Finding]:
        """Check the weights, or the named tensors."""
        return self._named(window) if self.tensors.strip() else self._weights(window)

    def _weights(self, window: Window) -> list[Finding]:
        ratios = update_ratios(window)
        if ratios is None or len(ratios.steps_S) < self.num_steps:
            raise NotEnoughData(f"fewer than {self.num_steps} weight changes were sampled")
        trains_ST = training_at(window, ratios)
        norm_ST = norms_at(window, ratios)
        moved_ST = moved_before(norm_ST)
        # A projection keeps norms too (unit rows, say), but then the loss can fall.
        flat = (loss_level(window) or 0.0) >= FLAT_SHARE
        still: list[tuple[int, TensorInfo, bool]] = []
        trained = 0
        for column, tensor in enumerate(ratios.tensors):
            rows = np.flatnonzero(trains_ST[:, column] & ~np.isnan(ratios.values_ST[:, column]))
            if len(rows) < self.num_steps:
                continue
            trained += 1
            stretch = last_stretch((ratios.values_ST[rows, column] == 0) & ~moved_ST[rows, column])
            if stretch and stretch[1] - stretch[0] >= self.num_steps:
                still.append((int(ratios.steps_S[rows[stretch[0]]]), tensor, False))
            elif flat and _is_restored(norm_ST[rows, column], ratios.values_ST[rows, column]):
                still.append((int(ratios.steps_S[rows[0]]), tensor, True))
        if not still or is_solved(window):
            return []
        still.sort(key=lambda entry: entry[0])
        step, tensor, restored = still[0]
        severity = Severity.ERROR if 2 * len(still) >= trained else Severity.WARNING
        who = f"{len(still)} of {trained} weights with a gradient, {tensor.name} first,"
        why = "are reset after every step" if restored else "do not change in any step"
        finding = self.finding(
            window,
            severity=severity,
            step=step,
            last_step=int(ratios.steps_S[-1]),
            count=int((ratios.steps_S >= step).sum()),
            layers=tuple(entry[1].name for entry in still[:LAYERS_NAMED]),
            message=f"{who} {why}",
            evidence={"weights": len(still), "trained": trained, "restored": restored},
            title="weights reset after each step" if restored else "weights that do not change",
            location=tensor.location,
        )
        return [finding]

    def _named(self, window: Window) -> list[Finding]:
        equal: dict[str, list[tuple[Ints, Bools]]] = {}
        tensors: dict[str, TensorInfo] = {}
        for statistic in COMPARED:
            for matrix, column in named_columns(window, self.tensors, statistic):
                tensor = matrix.tensors[column]
                rows = np.flatnonzero(matrix.present_ST[:, column])
                value_S = matrix.values_ST[rows, column]
                same_S = np.isclose(value_S[1:], value_S[:-1], self.rtol, self.atol, self.equal_nan)
                tensors[tensor.identity] = tensor
                equal.setdefault(tensor.identity, []).append((matrix.steps_S[rows], same_S))
        found = []
        for identity, pairs in equal.items():
            steps_S = pairs[0][0]
            if len(pairs) < len(COMPARED) or len(steps_S) < self.num_steps:
                continue
            unchanged_S = np.all([same_S for _, same_S in pairs], axis=0)
            stretch = last_stretch(unchanged_S)
            if stretch and stretch[1] - stretch[0] >= self.num_steps - 1:
                found.append((int(steps_S[stretch[0]]), stretch[1] - stretch[0] + 1, identity))
        if not found:
            if all(len(pairs[0][0]) < self.num_steps for pairs in equal.values()):
                raise NotEnoughData(f"fewer than {self.num_steps} captured steps")
            return []
        step, count, identity = min(found)
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        finding = self.finding(
            window,
            severity=Severity.WARNING,
            step=step,
            last_step=window.last_step,
            count=count,
            layers=tuple(tensors[each].name for _, _, each in sorted(found)[:LAYERS_NAMED]),
            message=f"{identity}{more} did not change over {count} captured steps",
            evidence={"tensors": len(found), "limit": self.num_steps},
            location=tensors[identity].location,
        )
        return [finding]


def _is_restored(norm_S: Floats, ratio_S: Floats) -> bool:
    """Return whether steps change a weight that is reset before the next sample."""
    last_S, moved_S = norm_S[-RESTORED_LOOKS:], ratio_S[-RESTORED_LOOKS:]
    # A smaller change may not change the norm.
    moving = len(last_S) == RESTORED_LOOKS and bool((moved_S > 1e-4).all())
    return moving and bool((last_S == last_S[0]).all())
