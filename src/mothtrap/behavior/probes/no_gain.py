"""BEH303: a simple model is as good as this model."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from mothtrap.behavior.probe import Probe, Suspicion, measured
from mothtrap.behavior.sklearn.comparisons import linear_share
from mothtrap.behavior.sklearn.encoding import Encoder
from mothtrap.behavior.sklearn.simple_models import NAMES, SIMPLE, simple_judged
from mothtrap.behavior.subject import Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

LINEAR = 0.98
"""R2 of a linear model of the outputs from which the model itself counts as linear; chosen by
hand."""


@frozen
class NoGain(Probe):
    """A simple model is as good as this model, within one standard error.

    What it detects:
        A mean loss that is hardly below the loss of a constant prediction, a linear model, or a
        tree of depth 5.

    Why it matters:
        A simple model is cheaper, faster, and easier to explain and to check.

    Fires:
        When the model is better than the best simple model by less than one standard error of the
        paired difference, and is not itself linear.

    Stays quiet:
        Models whose outputs are a linear function of the inputs.

    What to do:
        - Use the simple model.
        - Train the complex model on more rows, or add interaction features, and compare again.

    References:
        Breiman et al., Classification and regression trees (one-standard-error rule), 1984.
    """

    code = "BEH303"
    severity = Severity.INFO
    cost = 3

    errors: float = threshold(1.0, unit="standard errors", source="Breiman et al., 1984")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Compare mean losses."""
        judged = subject.judged
        if len(judged) < 2 or self._is_linear(subject):
            raise NotApplicable("the model itself is linear")
        others = {kind: simple_judged(subject, kind) for kind in SIMPLE}
        best = min(others, key=lambda kind: float(others[kind].loss_R.mean()))
        gain_R = others[best].loss_R - judged.loss_R
        error = float(gain_R.std(ddof=1)) / math.sqrt(len(gain_R))
        if gain_R.mean() < self.errors * error:
            own, other = float(judged.loss_R.mean()), float(others[best].loss_R.mean())
            yield Suspicion(
                message=f"{NAMES[best]} is at least as good: its loss is {measured(other)}, the "
                f"loss of the model is {measured(own)} (standard error of the difference "
                f"{measured(error)})",
                exact=True,
                evidence={"n": len(judged), "value": own, "reference": other, "model": best},
            )

    def _is_linear(self, subject: Subject) -> bool:
        judged = subject.judged
        output_R = subject.output(judged.scores)
        if judged.reading.form == "labels" or not np.isfinite(output_R).all():
            return False
        if not judged.reading.is_regression:
            output_R = np.clip(output_R, 1e-6, 1 - 1e-6)
            output_R = np.log(output_R / (1 - output_R))
        if output_R.std() < 1e-12:
            return True
        return linear_share(Encoder(subject.table).one_hot(subject.table), output_R) > LINEAR
