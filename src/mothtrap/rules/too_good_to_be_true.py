"""LOS409: the input contains the answer, or the loss falls too fast."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import LOSS
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._loss_calls import by_place, entropy, label_counts, train_calls
from mothtrap.rules._losses import has_players


@frozen
class TooGoodToBeTrue(Rule):
    """The input contains the answer, or the loss falls too fast.

    What it detects:
        A column of a model's input table that alone determines the target: a copy, a scaled copy,
        or one column per class. Or a class loss that falls from guessing to almost 0 within a
        handful of steps.

    Why it matters:
        The target, or a value computed from it, is among the features (data leakage). Scores are
        perfect, in validation as well, but the model learns nothing else and fails as soon as the
        target is not known in advance.

    Fires:
        Warning when, in `calls` sampled batches, the same columns, at most `column_share` of all,
        determine the target. Info when the loss falls from above `start_ratio` of the entropy of
        the labels to below `end_ratio` of it within `steps` steps: the data may be easy.

    Stays quiet:
        Data whose classes are far apart in most columns. Targets that are the whole input, as in an
        autoencoder. Fewer than 3 columns. Models that begin with a low loss, such as pretrained
        ones. Competing losses (GAN).

    What to do:
        - Drop the named columns, and check how they are computed: do they contain anything that is
          known only after the target?
        - Fit encoders and imputers without the target, and on the training part only.
        - Check that inputs and labels do not come from the same array.

    Example:
        x = table.to_numpy()                          # holds the column "price"
        x = table.drop(columns="price").to_numpy()

    References:
        Kaufman et al. 2012, Leakage in data mining, ACM TKDD 6(4),
        https://doi.org/10.1145/2382577.2382579
    """

    code = "LOS409"
    needs = (Need(facts=(LossCall,), scalars=("loss",)),)
    proof = LOSS

    calls: int = threshold(
        2, unit="sampled batches", source="chosen by hand: one batch may agree by chance"
    )
    column_share: float = threshold(
        0.5, unit="of the columns", source="chosen by hand: above it, the data are just easy"
    )
    steps: int = threshold(
        10, unit="steps of the series", source="chosen by hand: small datasets take more"
    )
    start_ratio: float = threshold(
        0.5,
        unit="of the entropy of the labels",
        source="chosen by hand: excludes pretrained models",
    )
    end_ratio: float = threshold(0.01, unit="of the entropy of the labels", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check for leaking columns, then the beginning of every class loss."""
        if has_players(window):
            raise NotApplicable("several losses compete with each other")
        calls = [call for call in train_calls(window) if call.targets is not None]
        if not calls:
            raise NotEnoughData("no loss targets were recorded")
        for same in by_place(calls):
            found = self._columns(window, same) or self._sudden(window, same)
            if found is not None:
                return [found]
        return []

    def _columns(self, window: Window, calls: list[LossCall]) -> Finding | None:
        looked = [
            c for c in calls if c.targets is not None and c.targets.telling_columns is not None
        ]
        told = [set(c.targets.telling_columns or ()) for c in looked if c.targets is not None]
        total = max((c.targets.columns or 0 for c in looked if c.targets is not None), default=0)
        columns = sorted(set.intersection(*told)) if told else []
        if len(looked) < self.calls or not columns or len(columns) > self.column_share * total:
            return None
        listed = ", ".join(str(column) for column in columns[:8])
        what, verb = ("column", "determines") if len(columns) == 1 else ("columns", "determine")
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=looked[0].step,
            last_step=looked[-1].step,
            count=len(looked),
            message=f"{what} {listed} of the input (of {total}) alone {verb} the target",
            evidence={"columns": [*columns[:32]], "of": total},
            location=looked[0].location,
        )

    def _sudden(self, window: Window, calls: list[LossCall]) -> Finding | None:
        if not any(call.label_counts for call in calls):
            return None
        chance = entropy(label_counts(calls))
        own = [s for s in window.scalars("loss") if s.of == calls[0].series and s.total == len(s)]
        if not own or chance <= 0 or not len(own[0]):
            return None
        loss_S = own[0].values_S[: self.steps]
        low = np.flatnonzero(loss_S < self.end_ratio * chance)
        if not loss_S[0] > self.start_ratio * chance or not len(low):
            return None
        step = int(own[0].steps_S[low[0]])
        return self.finding(
            window,
            severity=Severity.INFO,
            step=step,
            message=(
                f"the loss fell from {loss_S[0]:.3g} to {loss_S[low[0]]:.3g} in {low[0]} steps; "
                f"guessing gives {chance:.3g}"
            ),
            evidence={
                "first": float(loss_S[0]),
                "value": float(loss_S[low[0]]),
                "guessing": chance,
            },
            location=calls[0].location,
        )
