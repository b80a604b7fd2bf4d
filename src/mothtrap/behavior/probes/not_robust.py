"""BEH402: changes that are too small to see, or to matter, change the class.

Shape suffixes: R = rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.attacks import fgsm, noise, pgd, two_columns
from mothtrap.behavior.probe import Probe, Suspicion, percent
from mothtrap.behavior.subject import Subject
from mothtrap.behavior.table import Table
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

ROWS = 256
"""Rows that are attacked; chosen by hand."""
LEAST_ROWS = 50
RADII = (1 / 255, 2 / 255, 8 / 255)
"""Changes of a pixel as shares of the range, as the literature on images uses them."""
TABLE_SHARE = 0.05
"""Change of a number in a table, as a share of its range; chosen by hand."""


@frozen
class NotRobust(Probe):
    """Very small, deliberate changes of the inputs change the class.

    What it detects:
        Networks with image inputs: the accuracy after FGSM and after 20 steps of PGD, which change
        each pixel by at most 1/255, 2/255, and 8/255 of the range. Tables: the share of rows whose
        class changes when the best two numbers are changed by 5 % of their range. The results are
        lower bounds of what an attacker can do, because there are stronger attacks.

    Why it matters:
        Anyone who can change the inputs slightly can control the prediction. Such models also
        depend on features that people do not see, and that disappear when the camera or the data
        source changes.

    Fires:
        Warning when PGD with 1/255 halves the accuracy, and random changes of the same size lower
        it by less than a tenth. A note when PGD with 8/255 has this effect, or when changing two
        columns of a table changes half of the classes, and random changes of the same size change
        less than a third as many.

    Stays quiet:
        Models that predict numbers, and models for which random changes are just as harmful (see
        BEH106).

    What to do:
        - Train with noise, or with the attacked inputs (adversarial training).
        - Check where the inputs come from, and who can change them.
        - Regularize a table model: larger leaves, fewer trees, monotone constraints.

    References:
        Goodfellow et al., Explaining and harnessing adversarial examples, 2015. Madry et al.,
        Towards deep learning models resistant to adversarial attacks, 2018.
    """

    code = "BEH402"
    severity = Severity.INFO
    title = "classes change after small changes"
    cost = 3

    half: float = threshold(0.5, unit="times the accuracy", source="chosen by hand")
    calm: float = threshold(0.9, unit="times the accuracy", source="chosen by hand")
    flips: float = threshold(0.5, unit="share of the rows", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Attack rows that the model gets right."""
        if subject.reading.is_regression:
            raise NotApplicable("the model predicts numbers")
        right = np.flatnonzero(subject.judged.wrong_R == 0)
        rows = np.intersect1d(right, subject.asked)[:ROWS]
        if len(rows) < LEAST_ROWS:
            raise NotEnoughData(f"needs {LEAST_ROWS} correctly predicted rows, has {len(rows)}")
        if subject.table.columns:
            yield from self._table(subject, rows)
        else:
            yield from self._images(subject, rows)

    def _images(self, subject: Subject, rows: npt.NDArray[np.int64]) -> Iterator[Suspicion]:
        data = np.asarray(subject.table.data)
        if data.dtype.kind != "f":
            raise NotApplicable("the inputs are not floating-point numbers")
        span = float(data.max() - data.min())
        curves: dict[str, list[float]] = {"FGSM": [], "PGD": [], "noise": []}
        for radius in RADII:
            for name, attack in (("FGSM", fgsm), ("PGD", pgd), ("noise", noise)):
                attacked = attack(subject, rows, radius * span).astype(data.dtype)
                curves[name].append(_accuracy(subject, attacked, rows))
        for place, radius in enumerate(RADII):
            worst = min(curves["PGD"][place], curves["FGSM"][place])
            if worst <= self.half and curves["noise"][place] >= self.calm:
                yield self._found(radius, place, curves, len(rows))
                return

    def _found(
        self, radius: float, place: int, curves: dict[str, list[float]], rows: int
    ) -> Suspicion:
        shown = round(1 / RADII[0] * radius)
        evidence: dict[str, Any] = {f"accuracy after {name}": each for name, each in curves.items()}
        return Suspicion(
            message=f"when each pixel changes by at most {shown}/255, FGSM leaves "
            f"{percent(curves['FGSM'][place])} and PGD {percent(curves['PGD'][place])} of "
            f"{rows:,} correct answers, random changes of this size "
            f"{percent(curves['noise'][place])}",
            exact=True,
            severity=Severity.WARNING if place == 0 else Severity.INFO,
            evidence={
                "attack": "PGD, 20 steps",
                "n": rows,
                "value": curves["PGD"][place],
                "reference": self.half,
                **evidence,
            },
        )

    def _table(self, subject: Subject, rows: npt.NDArray[np.int64]) -> Iterator[Suspicion]:
        if not any(each.is_number and each.distinct() > 10 for each in subject.table.columns):
            raise NotApplicable("the inputs have no column of numbers")
        flipped_R, random_R = two_columns(subject, rows, TABLE_SHARE)
        flips, chance = float(flipped_R.mean()), float(random_R.mean())
        if flips <= self.flips or chance >= flips / 3:
            return
        yield Suspicion(
            message=f"changing two numbers by at most {percent(TABLE_SHARE)} of their range "
            f"changes the class of {percent(flips)} of {len(rows):,} rows (limit "
            f"{percent(self.flips)}), random changes of this size the class of {percent(chance)}",
            rows=subject.judged.rows_R[rows[flipped_R]],
            evidence={
                "attack": "greedy change of two columns",
                "n": len(rows),
                "value": flips,
                "reference": self.flips,
                "random changes": chance,
            },
        )


def _accuracy(subject: Subject, rows: npt.NDArray[Any], of: npt.NDArray[np.int64]) -> float:
    answers_R = subject.ask(Table(rows)).argmax(axis=1)
    return float((answers_R == subject.judged.target_R[of]).mean())
