"""Trial of a recalibration that is fitted to some rows and scored on others.

Shape suffixes: R = rows, K = classes.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.confirm import mean_above
from mothtrap.behavior.reading import Floats
from mothtrap.behavior.sklearn.threads import one_thread
from mothtrap.behavior.subject import Judged
from mothtrap.core.findings import EvidenceValue

LEAST = 1e-6
P_LIMIT = 1e-3
"""p-value of the gain if the recalibration changed nothing; chosen by hand."""
LEAST_GAIN = 0.05
"""Share of the loss that a recalibration must save; chosen by hand."""
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Mean loss of rows that were not used for fitting, with and without the recalibration.

    `p` is the p-value of the gain.
    """

    before: float
    after: float
    p: float
    helps: bool
    is_regression: bool

    @property
    def in_words(self) -> str:
        """Describe the effect of the recalibration."""
        values = f"from {self.before:.3g} to {self.after:.3g} in rows that it was not fitted to"
        if self.helps:
            return f"a recalibration lowers the loss {values}"
        if self.after < self.before:
            return f"a recalibration hardly changes the loss: {values}"
        return "a recalibration does not help"

    @property
    def fix(self) -> str:
        """The fix, with instructions to recalibrate."""
        if self.is_regression:
            return "Correct the outputs with a line that is fitted to targets of recent rows."
        return (
            "Recalibrate: fit a logistic regression to the log probabilities of recent rows "
            "(`sklearn.calibration` with `method='sigmoid'`)."
        )

    @property
    def evidence(self) -> dict[str, EvidenceValue]:
        """The mean losses."""
        return {"recalibrated_loss": self.after, "recalibration_helps": self.helps}


def tried(judged: Judged, fit_R: Mask, score_R: Mask) -> Trial | None:
    """Fit a recalibration to some rows, and score it on other rows.

    For numbers, it is a line. For probabilities, it is a logistic regression on their logarithms
    (Platt, 1999). None if the model returns labels, or the fitted rows have only one class.
    """
    reading = judged.reading
    if reading.form == "labels" or (
        not reading.is_regression and len(np.unique(judged.target_R[fit_R])) < 2
    ):
        return None
    scores = _recalibrated(judged, fit_R)
    after = Judged(
        judged.table, judged.target_R, scores, reading, judged.rows_R, judged.loss
    ).loss_R[score_R]
    before = judged.loss_R[score_R]
    gain_R = before - after
    p = mean_above(gain_R)[0]
    helps = gain_R.mean() > LEAST_GAIN * before.mean() and p < P_LIMIT
    return Trial(
        before=float(before.mean()),
        after=float(after.mean()),
        p=p,
        helps=bool(helps),
        is_regression=reading.is_regression,
    )


def _recalibrated(judged: Judged, fit_R: Mask) -> Floats:
    """Return the scores of all rows after a recalibration fitted to some of them."""
    from sklearn.linear_model import LinearRegression, LogisticRegression

    target_R, scores = judged.target_R, judged.scores
    if judged.reading.is_regression:
        line = LinearRegression().fit(scores[fit_R], target_R[fit_R])
        return np.asarray(line.predict(scores))[:, None]
    logs = np.log(np.clip(scores, LEAST, 1.0))
    if scores.shape[1] == 2:
        logs = logs[:, 1:] - logs[:, :1]
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")
        model = LogisticRegression(max_iter=300).fit(logs[fit_R], target_R[fit_R])
        found = np.zeros_like(scores)
        found[:, model.classes_] = model.predict_proba(logs)
    return found
