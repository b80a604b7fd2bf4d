"""LOS410: a loss falls below its bound, has none, or rises because updates have the wrong sign."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.facts.optimizers import UpdateDirection
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Series, Window
from mothtrap.rules._effects import CONFUSED
from mothtrap.rules._loss_calls import POLICY_GAIN
from mothtrap.rules._losses import Judgment, finite_part, has_players, judge_series

AT_LEAST_ZERO = (
    "cross_entropy",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "elementwise",
)
"""Loss operations whose value is 0 or more for targets in their range."""
WHY_OF_CLIMBING = (
    "The gradient points in the direction in which the loss rises fastest. An update along it "
    "maximizes the error, and the weights grow until they overflow."
)

ADD_ERRORS = (
    "Add the errors instead of subtracting them: `loss += criterion(...)`, or `first + second`."
)

MINUS = (
    "Put a minus sign before the mean log probability of the labels: the loss is its negative, "
    "`-tf.reduce_mean(...)`."
)

PESSIMISTIC = (
    "Minimize the negative of the smaller gain: `-torch.min(ratio * advantage, clipped_ratio * "
    "advantage)`; or, for losses `-ratio * advantage`, the larger loss: `torch.max(...)`."
)


@frozen
class WrongSign(Rule):
    """A loss falls below its lower bound, has none, or rises because updates have the wrong sign.

    What it detects:
        A loss that is below 0 and keeps falling, although it consists of one cross-entropy, squared
        error, or absolute error, which cannot be negative. A loss of any kind that falls below 0 to
        many times its initial size. Weights that the script's own update moves along the gradient
        of such an error, instead of against it.

    Why it matters:
        The optimizer maximizes an error, or a term without a bound. Nothing stops it, so the
        weights grow until they overflow, while the falling curve looks like progress.

    Fires:
        Error when the last `steps` losses are below 0 and the latest of them lie `falling_factor`
        times deeper than the first loss below 0. Error for a loss of any kind whose last three
        finite values fall, the last of them below 0 and `unbounded_factor` times as large as the
        first loss (or as 1, if that loss is smaller). Warning for a sum of errors in which some are
        subtracted, when the last `steps` losses fall and are below minus `subtracted`; error if all
        errors are subtracted. Warning for a policy whose loss adds the minimum of two gains
        (advantage times ratio of probabilities, and the same clipped), or subtracts their maximum.
        When, in each of the first `updates` updates without an optimizer, the cosine of the change
        and the gradient of a weight is above `cosine`: error if this is true of all sampled weights
        or the loss has not fallen, else a warning. If a loss was not traced to its operation, only
        when it has grown to `unbounded_factor` times its first value.

    Stays quiet:
        Losses with several terms, such as an entropy bonus or a policy gain, unless all terms are
        errors. A subtracted error that stays near its value by chance. Losses of weighted
        single rows, as with an advantage. Losses not traced to an operation, such as the
        log-likelihood of a density, as long as they stay within `unbounded_factor`. Losses that dip
        below 0 and come back. GANs, in which one player's loss is negated on purpose.

    What to do:
        - PyTorch: Subtract the gradient: `p.data.add_(p.grad, alpha=-lr)`, `p -= lr * p.grad`.
        - Keras: Subtract the gradient: `variable.assign_sub(rate * gradient)`.
        - JAX: Pass the updates that the optimizer returns to `optax.apply_updates`. It adds its
          argument, so raw gradients increase the loss. By hand, subtract: `params - rate * grads`.
        - Remove the minus sign before the loss, or in the function that computes it.
        - PyTorch: Look for `maximize=True` in the optimizer, and for a score such as accuracy or
          log-likelihood that is minimized instead of its negative.
        - Keras, JAX: Look for a score such as accuracy or log-likelihood that is minimized instead
          of its negative.
        - Check that targets are in the range of the loss: 0 to 1 for binary cross-entropy.
        - Check the sign of each term of the loss: a divergence is added, a likelihood subtracted.
          Bound a term that pushes things apart: `relu(margin - distance)`.

    Example:
        loss = -F.cross_entropy(model(x), y)     # the error is maximized
        loss = F.cross_entropy(model(x), y)

    References:
        Goodfellow, Bengio, Courville 2016, Deep Learning, section 6.2,
        https://www.deeplearningbook.org
    """

    code = "LOS410"
    needs = (
        Need(scalars=("loss",)),
        Need(facts=(LossCall, UpdateDirection), optional=True),
    )
    proof = Proof(title="Loss", scalars=("loss",), reference=("first",))
    explains = (
        "activation_growth",
        "class_imbalance",
        *CONFUSED,
        "dead_units",
        "exploding_gradient",
        "gradient_spike",
        "learning_rate_too_high",
        "loss_diverging",
        "loss_not_decreasing",
        "loss_oscillating",
        "loss_spike",
        "nonfinite_activation",
        "nonfinite_gradient",
        "nonfinite_loss",
        "nonfinite_weight",
        "overtraining",
        "weight_growth",
    )

    steps: int = threshold(8, unit="consecutive losses below 0", source="chosen by hand")
    falling_factor: float = threshold(
        1.5, unit="times the first loss below 0", source="chosen by hand: noise stays within it"
    )

    unbounded_factor: float = threshold(
        1e4,
        unit="times the first loss",
        source="chosen by hand: log-likelihoods and returns stay below 1,000",
    )

    subtracted: float = threshold(
        5.0,
        unit="loss below 0",
        source="chosen by hand: guessing between 2 to 100 classes has a loss of 0.7 to 4.6, and "
        "an adversary that is subtracted on purpose only guesses",
    )

    updates: int = threshold(8, unit="updates without an optimizer", source="chosen by hand")
    cosine: float = threshold(
        0.5, unit="cosine of change and gradient", source="chosen by hand: ascent is 1, descent -1"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check every loss series: against the bound of its operation, and for an endless fall."""
        terms = _terms(window)
        signs = _signs(window)
        game = has_players(window)

        optimistic = _optimistic(window)

        def judge(series: Series) -> Judgment | None:
            if series.of in optimistic:
                return _of_policy(optimistic[series.of])
            if series.of in signs:
                return self._subtracting(window, series, *signs[series.of])
            if not game and (found := self._unbounded(window, series)):
                return found
            if not game and series.of not in terms and _exploded(series, self.unbounded_factor):
                climbs = self._climbing(window, series)
                if climbs is not None:
                    return climbs
            if series.of not in terms:
                raise NotEnoughData("the loss was not traced to its operation")
            if terms[series.of] not in AT_LEAST_ZERO:
                raise NotApplicable("the loss has several terms, or a term that may be negative")
            climbs = self._climbing(window, series)
            return None if game else climbs or self._judge(window, series, terms[series.of])

        return judge_series(self, window, judge)

    def _unbounded(self, window: Window, series: Series) -> Judgment | None:
        """Check a loss of any kind: whether it falls far below its initial scale."""
        steps_S, loss_S = finite_part(series)
        if len(loss_S) < 3:
            return None
        whole = series.total <= len(series) or not np.isfinite(series.first)
        first, last = float(loss_S[0]) if whole else series.first, float(loss_S[-1])
        falls = bool(np.diff(loss_S[-3:]).max() < 0)
        if not falls or last > -self.unbounded_factor * max(1.0, abs(first)):
            return None
        onset = _begin_of_fall(loss_S)
        return Judgment(
            severity=Severity.ERROR,
            step=int(steps_S[onset]),
            last_step=int(steps_S[-1]),
            count=len(loss_S) - onset,
            message=(f"the loss fell from {first:.4g} to {last:.4g} and has no lower bound"),
            evidence={"value": last, "first": first, "limit": self.unbounded_factor},
            fixes=self.fixes(window)[:0:-1],
        )

    def _judge(self, window: Window, series: Series, operation: str) -> Judgment | None:
        steps_S, loss_S = finite_part(series)
        if len(loss_S) < self.steps:
            raise NotEnoughData(f"needs {self.steps} losses, saw {len(loss_S)}")
        above = np.flatnonzero(loss_S >= 0)
        onset = int(above[-1]) + 1 if len(above) else 0
        if len(loss_S) - onset < self.steps:
            return None
        first, latest = float(loss_S[onset]), float(np.median(loss_S[-3:]))
        if latest > self.falling_factor * first:
            return None
        return Judgment(
            severity=Severity.ERROR,
            step=int(steps_S[onset]),
            last_step=int(steps_S[-1]),
            count=len(loss_S) - onset,
            message=(
                f"the loss is {latest:.4g} and falling, but {operation} cannot be below 0: "
                "its sign is wrong, so training maximizes the error"
            ),
            evidence={"value": latest, "first": first, "operation": operation},
            fixes=(MINUS,) if _is_written(window, series) else self.fixes(window)[1:],
        )

    def _subtracting(
        self, window: Window, series: Series, terms: int, subtracted: int
    ) -> Judgment | None:
        """Check a sum of errors, some or all of which are subtracted."""
        steps_S, loss_S = finite_part(series)
        if len(loss_S) < self.steps:
            raise NotEnoughData(f"needs {self.steps} losses, saw {len(loss_S)}")
        every = terms == subtracted
        above = np.flatnonzero(loss_S >= 0)
        onset = int(above[-1]) + 1 if len(above) else 0
        if len(loss_S) - onset < self.steps:
            return None
        first, latest = float(loss_S[onset]), float(np.median(loss_S[-3:]))
        if latest > self.falling_factor * first or (not every and latest > -self.subtracted):
            return None
        count = f"all {terms}" if every else f"{subtracted} of {terms}"
        return Judgment(
            severity=Severity.ERROR if every else Severity.WARNING,
            step=int(steps_S[onset]),
            last_step=int(steps_S[-1]),
            count=len(loss_S) - onset,
            message=(
                f"the loss is {latest:.4g} and falling: {count} error terms are "
                "subtracted, so training maximizes them"
            ),
            evidence={"value": latest, "first": first, "subtracted": subtracted, "terms": terms},
            fixes=(ADD_ERRORS, *self.fixes(window)[-1:]),
        )

    def _climbing(self, window: Window, series: Series) -> Judgment | None:
        """Check updates that the script makes by hand, for a loss that is 0 or more."""
        steps_S, loss_S = finite_part(series)
        seen = [s for s in window.seen(UpdateDirection) if s.optimizer in series.optimizers]
        if len(seen) < self.updates or not len(loss_S) or loss_S.min() < 0:
            return None
        cosines: dict[str, list[float]] = {}
        for direction in seen:
            for layer, cosine in zip(direction.layers, direction.cosines, strict=True):
                cosines.setdefault(layer, []).append(cosine)
        whole = {layer: min(c) for layer, c in cosines.items() if 2 * len(c) >= self.updates}
        climbing = {layer: cosine for layer, cosine in whole.items() if cosine > self.cosine}
        if not climbing:
            return None
        third = max(1, len(loss_S) // 3)
        rose = float(np.median(loss_S[-third:])) >= float(np.median(loss_S[:third]))
        certain = len(climbing) == len(whole) or rose
        return Judgment(
            severity=Severity.ERROR if certain else Severity.WARNING,
            step=int(steps_S[0]),
            last_step=int(steps_S[-1]),
            count=len(loss_S),
            message=(
                f"the script's own update moves {_listed(list(climbing))} along the gradient of "
                f"the loss (cosine {min(climbing.values()):.2g}), not against it: its sign is "
                f"wrong, and the loss went from {loss_S[0]:.4g} to {loss_S[-1]:.4g}"
            ),
            evidence={"value": min(climbing.values()), "limit": self.cosine},
            fixes=self.fixes(window)[:1],
            layers=tuple(climbing),
            why=WHY_OF_CLIMBING,
            location=seen[0].location,
        )


def _is_written(window: Window, series: Series) -> bool:
    """Return whether the script writes a loss of log probabilities itself."""
    calls = [call for call in window.seen(LossCall) if call.series == series.of]
    return bool(calls) and all(call.function == "tf.nn.log_softmax" for call in calls)


def _of_policy(calls: list[LossCall]) -> Judgment:
    """Report a clipped objective whose sign does not fit its minimum or maximum."""
    side = _side(calls[0])
    way = "minimizes the smaller" if side == "minimum" else "maximizes the larger"
    return Judgment(
        severity=Severity.WARNING,
        step=calls[0].step,
        last_step=calls[-1].step,
        count=len({call.step for call in calls}),
        message=(
            f"the loss {way} of the two gains of the policy, so the clipping does not limit an "
            "update: one of the signs is wrong"
        ),
        evidence={"side": side},
        fixes=(PESSIMISTIC,),
        location=calls[0].location,
    )


def _exploded(series: Series, factor: float) -> bool:
    """Return whether a loss has grown so much that the growth cannot be intended."""
    _, loss_S = finite_part(series)
    return len(loss_S) > 1 and bool(loss_S[-1] >= factor * max(1.0, abs(loss_S[0])))


def _begin_of_fall(loss_S: Floats) -> int:
    """Return the index from which losses fell at every step until they were below 0."""
    above = np.flatnonzero(loss_S >= 0)
    if not len(above):
        return 0
    rises = np.flatnonzero(np.diff(loss_S[: above[-1] + 2]) >= 0)
    return int(rises[-1]) + 1 if len(rises) else 0


def _listed(names: list[str]) -> str:
    return (
        " and ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} more weights"
    )


def _side(call: LossCall) -> str | None:
    """Return which side of a clipped objective is taken, by the operation nearest to the gain."""
    sides = [name for name in call.above or () if name in ("minimum", "maximum")]
    return sides[-1] if sides else None


def _optimistic(window: Window) -> dict[str, list[LossCall]]:
    """Return by series the gains of a policy of which the loss takes the more optimistic."""
    found: dict[str, list[LossCall]] = defaultdict(list)
    for call in window.seen(LossCall):
        if call.operation == POLICY_GAIN and call.series and call.optimistic:
            found[call.series].append(call)
    return found


def _signs(window: Window) -> dict[str, tuple[int, int]]:
    """Return the greatest number of errors in a sum, and how many of them are subtracted.

    Only for series of several errors whose signs are all known, some of them negative.
    """
    by_step: dict[tuple[str, int], list[LossCall]] = defaultdict(list)
    for call in window.seen(LossCall):
        if call.series and call.mode is Mode.TRAIN:
            by_step[call.series, call.step].append(call)
    found: dict[str, tuple[int, int]] = {}
    unknown: set[str] = set()
    for (series, _), calls in by_step.items():
        known = all(
            c.complete and c.negated is not None and c.operation in AT_LEAST_ZERO for c in calls
        )
        negated = sum(bool(call.negated) for call in calls)
        if not known or not negated or (len(calls) == 1 and calls[0].alone):
            unknown.add(series)
        found[series] = max(found.get(series, (0, 0)), (len(calls), negated))
    return {series: counts for series, counts in found.items() if series not in unknown}


def _terms(window: Window) -> dict[str, str]:
    """Return the only operation of every traced series, '' if it has several."""
    found: dict[str, str] = {}
    calls = [call for call in window.seen(LossCall) if call.series]
    a_step = Counter((call.series, call.step) for call in calls)
    for call in calls:
        # Of micro-batches there are several calls a step, each alone in its backward.
        alone = a_step[call.series, call.step] == 1 if call.alone is None else call.alone
        same = found.get(str(call.series), call.operation) == call.operation
        # Losses of single rows may be weighted by negative values, such as an advantage.
        whole = call.reduction != "none" or "mul" not in (call.above or ("mul",))
        found[str(call.series)] = call.operation if alone and same and whole else ""
    return found
