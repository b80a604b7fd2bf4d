"""STR710: the output activation cannot produce the values that the loss expects."""

from __future__ import annotations

from collections.abc import Iterator

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import FailedLoss, LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._loss_calls import by_place, chosen_at, finding_of_calls, train_calls

RANGES = {
    "relu": "0 and above",
    "softplus": "0 and above",
    "exp": "0 and above",
    "sigmoid": "0 to 1",
    "hardsigmoid": "0 to 1",
    "softmax": "0 to 1",
    "tanh": "-1 to 1",
    "softsign": "-1 to 1",
    "log_sigmoid": "0 and below",
    "log_softmax": "0 and below",
}

OF_SCORES = ("cross_entropy", "binary_cross_entropy_with_logits")
"""Losses that take scores, which may be negative."""

OF_CLASSES = (*OF_SCORES, "binary_cross_entropy")


@frozen
class MissingActivationRange(Rule):
    """The output activation cannot produce the values that the loss expects.

    What it detects:
        An elementwise loss whose targets lie outside the range of the operation before it, such as
        negative targets after a ReLU or targets of 250 after a sigmoid. A negative log-likelihood
        that gets raw scores instead of log-probabilities. A cross-entropy whose scores come from a
        ReLU.

    Why it matters:
        The model cannot reach targets outside the range. Its outputs are driven to the edge of the
        range, where the gradient is 0: units die or saturate, and the loss stays high. A negative
        log-likelihood of raw scores has no lower bound, so the scores grow without limit.

    Fires:
        Over at least `samples` targets: error when more than `error_share` of them lie outside the
        range, warning when more than `warning_share` do. Error when, in `calls` sampled calls, the
        input of a negative log-likelihood comes straight from a linear layer and its exponentials
        do not sum to 1. Error when a binary cross-entropy rejects predictions outside 0 to 1. When,
        in `calls` sampled calls, the scores of a cross-entropy come straight from a ReLU: error for
        a binary cross-entropy and for a loss of probabilities, warning otherwise.

    Stays quiet:
        Targets on the edge of the range, or beyond it only by rounding. Models that end in a linear
        layer. Log-probabilities that are computed in any way.

    What to do:
        - Remove the activation after the last layer of a regression, or scale the targets into its
          range.
        - PyTorch: Use `cross_entropy`, which takes raw scores, or apply `log_softmax` before
          `nll_loss`.
        - Keras: Pass `from_logits=True` to the loss, or end the model with a softmax.
        - JAX: Use `optax.softmax_cross_entropy`, which takes raw scores, or apply `log_softmax` to
          the scores.
        - PyTorch: Use `binary_cross_entropy_with_logits`, or apply `sigmoid` before
          `binary_cross_entropy`.
        - Keras: Pass `from_logits=True` to the binary loss, or end the model with a sigmoid.
        - JAX: Use `optax.sigmoid_binary_cross_entropy`, which takes raw scores, or apply a sigmoid
          before the loss.

    Example:
        model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1), nn.ReLU())
        loss = F.mse_loss(model(x), y - y.mean())          # half of the targets are negative
        model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))

    References:
        Goodfellow, Bengio, Courville 2016, Deep Learning, section 6.2.2,
        https://www.deeplearningbook.org
    """

    code = "STR710"
    title = "wrong output activation"
    needs = (
        Need(facts=(LossCall,)),
        Need(facts=(FailedLoss,), optional=True),
    )
    explains = (
        "cannot_overfit",
        "activation_growth",
        "loss_not_decreasing",
        "loss_diverging",
        "dead_units",
        "wrong_sign",
        "exploding_gradient",
        *("nonfinite_loss", "nonfinite_gradient", "nonfinite_weight", "nonfinite_activation"),
        "wrong_initial_loss",
        "learning_rate_too_high",
        "saturated_activation",
        "vanishing_gradient",
        "stuck_at_chance",
        "constant_output",
        "weight_growth",
        "labels_unrelated",
        "learning_rate_too_low",
    )

    error_share: float = threshold(
        0.05, unit="of the targets", source="chosen by hand: ignores single outliers"
    )
    warning_share: float = threshold(0.001, unit="of the targets", source="chosen by hand")
    samples: int = threshold(64, unit="targets", source="chosen by hand: 3 of them are 5 %")
    calls: int = threshold(2, unit="sampled calls", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check failed calls, then every line that computes a loss."""
        failed = [found for call in window.seen(FailedLoss) for found in self._failed(window, call)]
        if failed:
            return failed[-1:]
        calls = [call for call in train_calls(window) if call.targets is not None]
        if not calls:
            raise NotEnoughData("no loss targets were recorded")
        bounded = [c for c in calls if c.targets and c.targets.outside_share is not None]
        scored = [c for c in calls if c.targets and c.targets.normalized is not None]
        classes = [c for c in calls if _takes_scores(c) or _takes_rectified(c)]
        if not bounded and not scored and not classes:
            raise NotApplicable("no loss comes after an operation with a bounded range")
        found = [
            *(self._rectified(window, same) for same in by_place(classes)),
            *(self._outside(window, same) for same in by_place(bounded)),
            *(self._scores(window, same) for same in by_place(scored)),
        ]
        judged = [finding for finding in found if finding is not None]
        return sorted(judged, key=lambda finding: finding.severity.rank)[:1]

    def _failed(self, window: Window, call: FailedLoss) -> Iterator[Finding]:
        """Report a binary cross-entropy that rejected predictions outside of 0 to 1."""
        least, greatest = call.predicted_least, call.predicted_greatest
        if call.operation != "binary_cross_entropy" or least is None or greatest is None:
            return
        if least < 0 or greatest > 1:
            yield self.finding(
                window,
                severity=Severity.ERROR,
                step=call.step,
                message=(
                    f"{call.operation} failed: its predictions range from {least:.4g} to "
                    f"{greatest:.4g}, but it requires 0 to 1: a sigmoid is missing"
                ),
                evidence={"least": least, "greatest": greatest, "error": call.error},
                location=call.location,
                fixes=self.fixes(window)[2:],
            )

    def _outside(self, window: Window, calls: list[LossCall]) -> Finding | None:
        seen = [call.targets for call in calls if call.targets is not None]
        count = sum(sample.count for sample in seen)
        share = sum((sample.outside_share or 0) * sample.count for sample in seen) / max(1, count)
        if count < self.samples or share <= self.warning_share:
            return None
        last = next((name for name in calls[0].chain if name in RANGES), "")
        least = min((s.least for s in seen if s.least is not None), default=0.0)
        greatest = max((s.greatest for s in seen if s.greatest is not None), default=0.0)
        return finding_of_calls(
            self,
            window,
            calls,
            Severity.ERROR if share > self.error_share else Severity.WARNING,
            f"{share:.1%} of the targets lie outside the range of the {last} before the loss "
            f"({RANGES.get(last, '')}): the targets range from {least:.4g} to {greatest:.4g}",
            {"value": share, "limit": self.error_share, "operation": last, "targets": count},
            self.fixes(window)[:1],
            chosen_at(calls[0]),
        )

    def _rectified(self, window: Window, calls: list[LossCall]) -> Finding | None:
        given = [call for call in calls if _nearest(call) == "relu"]
        if len(given) < self.calls or len(given) < len(calls):
            return None
        if _takes_rectified(given[0]):
            return self._improbable(window, given)
        binary = calls[0].operation != "cross_entropy"
        dead = "scores of 0 get no gradient and stay at 0"
        harm = "no probability can be below 0.5" if binary else dead
        return finding_of_calls(
            self,
            window,
            given,
            Severity.ERROR if binary else Severity.WARNING,
            f"{calls[0].operation} gets the output of a ReLU, which is never negative: {harm}",
            {"operation": calls[0].operation, "before": "relu"},
            ("Remove the ReLU after the last layer: class scores may be negative.",),
            chosen_at(calls[0]),
        )

    def _improbable(self, window: Window, calls: list[LossCall]) -> Finding:
        """Report a ReLU before a loss that takes probabilities."""
        first = calls[0]
        binary = first.operation.startswith("binary")
        activation = "sigmoid" if binary else "softmax"
        harm = (
            "values above 1 are cut off and get no gradient"
            if binary
            else "they do not sum to 1, and the loss of a row of zeros is NaN or has no gradient"
        )
        return finding_of_calls(
            self,
            window,
            calls,
            Severity.ERROR,
            f"{first.function or first.operation} expects probabilities but gets the output of a "
            f"ReLU: {harm}",
            {"operation": first.operation, "before": "relu"},
            (f"End the model with a {activation} instead of the ReLU.",),
            chosen_at(first),
        )

    def _scores(self, window: Window, calls: list[LossCall]) -> Finding | None:
        raw = [
            call
            for call in calls
            if call.targets is not None
            and call.targets.normalized is False
            and _nearest(call) == "linear"
        ]
        if len(raw) < self.calls or len(raw) < len(calls):
            return None
        return finding_of_calls(
            self,
            window,
            raw,
            Severity.ERROR,
            "nll gets the scores of a linear layer, but expects log-probabilities: "
            "a log-softmax is missing",
            {"operation": "nll"},
            self.fixes(window)[1:2],
            chosen_at(calls[0]),
        )


def _takes_scores(call: LossCall) -> bool:
    """Return whether a class loss gets scores, directly or through a softmax."""
    direct = not call.predicts_probabilities or bool(call.softmax_sizes)
    return call.operation in OF_SCORES and direct


def _takes_rectified(call: LossCall) -> bool:
    """Return whether a class loss takes the output of a ReLU for probabilities."""
    expects = bool(call.predicts_probabilities) and not call.softmax_sizes
    return call.operation in OF_CLASSES and expects and _nearest(call) == "relu"


def _nearest(call: LossCall) -> str:
    """Return the operation that made the prediction."""
    return next((name for name in call.chain if name != "cast"), "")
