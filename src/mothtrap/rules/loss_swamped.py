"""LOS412: the loss of one output dominates the loss of another, which does not fall."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.epochs import EpochMetrics
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._epochs import Epochs, trainings
from mothtrap.rules._loss_calls import entropy, label_counts

UNWEIGHED = 0.05
"""Share by which an unweighted sum of the losses may differ from the total, because of penalties;
chosen by hand."""
GUESSED = 0.95
"""Share of the loss from guessing above which an output has not learned; chosen by hand."""


@frozen
class LossSwamped(Rule):
    """The loss of one output dominates the loss of another, which does not fall.

    What it detects:
        A model with several outputs whose losses are added without weights although they differ
        by orders of magnitude.

    Why it matters:
        The shared layers only learn for the largest loss. The other output does not improve, and
        the total loss, which falls, hides it.

    Fires:
        Warning when in all epochs, at least `epochs`, the loss of one output is less than `share`
        of the total, in the last third of the epochs it is still at least `stays` of its first
        value, and the total has fallen below `fell` of its first value. For a warning the output
        must also be no better than guessing, which is known for class losses. Otherwise it is a
        note, because the output may have learned in the first epoch.

    Stays quiet:
        For a total that is not the plain sum of the losses (`loss_weights`, penalties). For a
        small loss that falls or is 0.

    What to do:
        - Keras: Weight the losses: `compile(..., loss_weights={"price": 1e-4, "kind": 1.0})`.
        - Bring the targets to a common scale: subtract the mean, divide by the standard
          deviation.

    Example:
        model.compile("adam", {"price": "mse", "kind": "binary_crossentropy"})
        y["price"] = (y["price"] - mean) / deviation

    References:
        Kendall, Gal, Cipolla 2018, Multi-task learning using uncertainty to weigh losses,
        https://arxiv.org/abs/1705.07115
    """

    code = "LOS412"
    title = "one loss swamps another"
    needs = (Need(facts=(EpochMetrics,)), Need(facts=(LossCall,), optional=True))
    explains = (*UNLEARNED, "activation_growth", "learning_rate_too_low", "weight_growth")
    passes = True

    epochs: int = threshold(3, unit="epochs", source="chosen by hand")
    share: float = threshold(0.01, unit="of the total", source="chosen by hand")
    stays: float = threshold(0.8, unit="of its first value", source="chosen by hand")
    fell: float = threshold(0.9, unit="of its first value", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check every training run of a model with several outputs."""
        every = trainings(window)
        if not every:
            raise NotEnoughData("no epoch with reported metrics has ended")
        every = [one for one in every if one.seen[-1].loss and len(one.seen[-1].output_losses) > 1]
        if not every:
            raise NotApplicable("no model has losses of several outputs")
        if max(len(one.seen) for one in every) < self.epochs:
            raise NotEnoughData(f"fewer than {self.epochs} epochs have ended")
        found = [finding for one in every if (finding := self._judge(window, one))]
        return found[:1]

    def _judge(self, window: Window, one: Epochs) -> Finding | None:
        last = one.seen[-1]
        total_E = one.values(last.loss or "", held_out=False)
        loss_OE = np.array([one.values(name, held_out=False) for name in last.output_losses])
        if len(total_E) < self.epochs or not np.isfinite([total_E, *loss_OE]).all():
            return None
        if (loss_OE < 0).any() or not np.allclose(loss_OE.sum(axis=0), total_E, rtol=UNWEIGHED):
            return None
        if not total_E[-1] < self.fell * total_E[0]:
            return None
        is_small_O = (loss_OE < self.share * total_E).all(axis=1)
        stays_O = np.array([self._stays(loss_E) for loss_E in loss_OE])
        swamped = np.flatnonzero(is_small_O & stays_O & (loss_OE > 0).all(axis=1))
        if not len(swamped):
            return None
        guesses = _guesses(window, one)
        is_guessed = {int(o): self._is_guessed(guesses, loss_OE[o, -1]) for o in swamped}
        small = max(is_guessed, key=lambda place: is_guessed[place])
        guessed, large = is_guessed[small], int(loss_OE[:, -1].argmax())
        name, other = (last.output_losses[place] for place in (small, large))
        return self.finding(
            window,
            severity=Severity.WARNING if guessed else Severity.INFO,
            step=int(one.steps[0]),
            last_step=int(one.steps[-1]),
            count=len(total_E),
            message=(
                f"{name} was {loss_OE[small, 0]:.3g} and is {loss_OE[small, -1]:.3g}, "
                f"{loss_OE[small, -1] / total_E[-1]:.2g} of the total (limit {self.share:g}): "
                f"{other} ({loss_OE[large, -1]:.3g}) dominates it"
                f"{', and its output is no better than guessing' if guessed else ''}"
            ),
            evidence={
                "value": float(loss_OE[small, -1]),
                "other": float(loss_OE[large, -1]),
                "limit": self.share,
                "fit": one.fit,
            },
            location=last.location,
        )

    def _is_guessed(self, guesses: list[float], loss: float) -> bool:
        return any(loss >= GUESSED * guess for guess in guesses if guess)

    def _stays(self, loss_E: Floats) -> bool:
        late = loss_E[-max(1, len(loss_E) // 3) :]
        return bool(np.median(late) >= self.stays * loss_E[0])


def _guesses(window: Window, one: Epochs) -> list[float]:
    """Return the loss from guessing for each class loss of a training run."""
    by_line: dict[tuple[object, ...], list[LossCall]] = {}
    for call in window.seen(LossCall):
        if call.label_counts and call.step <= one.steps[-1]:
            line = call.location, call.operation, len(call.label_counts)
            by_line.setdefault(line, []).append(call)
    return [entropy(label_counts(calls)) for calls in by_line.values()]
