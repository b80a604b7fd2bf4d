"""BEH605: the model is worse on new rows than on the held-out rows, or its outputs are off."""

from __future__ import annotations

from collections.abc import Iterator

from mothtrap.behavior.confirm import LEAST_ROWS, split_halves, welch
from mothtrap.behavior.probe import Probe, Suspicion, measured
from mothtrap.behavior.sklearn.recalibration import tried
from mothtrap.behavior.subject import Subject
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold


@frozen
class LossRose(Probe):
    """The model is worse on the new rows, or its outputs are at the wrong level for them.

    What it detects:
        A mean loss of new rows with targets that is higher than the mean loss of the held-out rows.
        A recalibration is fitted to half of the new rows, and scored on the other half.

    Why it matters:
        The model is out of date. A recalibration helps only if the level of its outputs is wrong.
        Otherwise the model has to be retrained.

    Fires:
        When the mean loss is at least 10 % higher, with a p-value below 1e-4. Also when the
        recalibration lowers the loss of the new rows by 5 %, with such a p-value, but not the
        loss of the held-out rows.

    Stays quiet:
        New rows without targets.

    What to do:
        - Recalibrate the outputs, if the message says that this helps.
        - Train the model on newer rows.

    References:
        Davis et al., Calibration drift in regression and machine learning models, 2017.
    """

    code = "BEH605"
    severity = Severity.WARNING
    cost = 2
    needs_new = True

    least_ratio: float = threshold(1.1, unit="times the loss before", source="chosen by hand")
    p_limit: float = threshold(1e-4, unit="p-value", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Compare mean losses, and try a recalibration."""
        new = subject.new
        assert new is not None
        if new.judged is None:
            raise NotApplicable("the new rows have no targets")
        if len(new.judged) < 2 * LEAST_ROWS:
            raise NotEnoughData(f"needs {2 * LEAST_ROWS} new rows, has {len(new.judged)}")
        before_R, after_R = subject.judged.loss_R, new.judged.loss_R
        before, after = float(before_R.mean()), float(after_R.mean())
        p, interval = welch(after_R, before_R)
        fit_R, score_R = split_halves(len(new.judged), subject.rng("recalibration"))
        trial = tried(new.judged, fit_R, score_R)
        if after < self.least_ratio * before or p >= self.p_limit:
            if trial is None or not trial.helps or self._helped_before(subject):
                return
            p = trial.p
        if p >= self.p_limit:
            return
        yield Suspicion(
            message=f"the mean loss is {measured(after)} on the new rows, and was "
            f"{measured(before)} before" + ("" if trial is None else f"; {trial.in_words}"),
            p=p,
            fixes=(trial.fix, *self.doc().fixes_for(())) if trial and trial.helps else (),
            evidence={
                "n": len(after_R),
                "value": after,
                "reference": before,
                "interval": list(interval),
                **({} if trial is None else trial.evidence),
            },
        )

    def _helped_before(self, subject: Subject) -> bool:
        """Return whether a recalibration also helps on the held-out rows."""
        trial = tried(subject.judged, subject.propose_R, subject.confirm_R)
        return trial is not None and trial.helps
