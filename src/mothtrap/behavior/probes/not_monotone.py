"""BEH103: the output goes against a direction that the user set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mothtrap.behavior.curves import POINTS, ROWS, individual, quantiles
from mothtrap.behavior.probe import Probe, Suspicion
from mothtrap.behavior.subject import Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

MOST_NAMES = 20
"""Columns up to which a constraint is shown as a list; chosen by hand."""


@frozen
class NotMonotone(Probe):
    """The output falls where it should rise with a column, or rises where it should fall.

    What it detects:
        Outputs of 256 rows at 32 values of each column that is named in `monotone`.

    Why it matters:
        The direction is a requirement: a higher income must not lower a credit score.

    Fires:
        When the output of any row goes the wrong way by more than 1 % of the range of the outputs.

    Stays quiet:
        Columns that are not named.

    What to do:
        - scikit-learn: set `monotonic_cst` of HistGradientBoosting.
        - Set `monotone_constraints` in XGBoost, LightGBM or CatBoost, or fit on more rows.

    References:
        Goldstein et al., Peeking inside the black box (ICE), 2015.
    """

    code = "BEH103"
    severity = Severity.ERROR

    least: float = threshold(0.01, unit="share of the output's range", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Follow the output along each named column."""
        if not subject.options.monotone:
            raise NotApplicable("no direction was set; pass monotone={column: '+'}")
        step = max(1, len(subject.asked) // ROWS)
        places = subject.asked[::step][:ROWS]
        for name, sign in subject.options.monotone.items():
            column = subject.table.column(name)
            if not column.is_number or len(column.known_R) < 2:
                continue
            grid_G = quantiles(column, POINTS)
            output_RG = sign * individual(subject, subject.table.take(places), name, grid_G)
            # The fall from the highest value so far: several small steps count together.
            fall_RG = np.maximum.accumulate(output_RG, axis=1) - output_RG
            worst_R = fall_RG.max(axis=1)
            bad = np.flatnonzero(worst_R > self.least * subject.output_range)
            if not len(bad):
                continue
            row = int(bad[worst_R[bad].argmax()])
            end = int(fall_RG[row].argmax())
            begin = int(output_RG[row, : end + 1].argmax())
            word = ("falls", "rise") if sign > 0 else ("rises", "fall")
            yield Suspicion(
                message=f"the output {word[0]} by {worst_R[row]:.3g} while {name} goes from "
                f"{grid_G[begin]:.4g} to {grid_G[end]:.4g}, but should only {word[1]}; it goes the "
                f"wrong way in {len(bad):,} of {len(output_RG):,} rows",
                features=(name,),
                rows=subject.judged.rows_R[places[bad]],
                exact=True,
                code=(_constraint(name, sign, subject.table.names),),
                evidence={
                    "n": len(output_RG),
                    "value": float(worst_R[row]),
                    "reference": self.least * subject.output_range,
                    "from": float(grid_G[begin]),
                    "to": float(grid_G[end]),
                },
            )


def _constraint(name: str, sign: int, names: Sequence[str]) -> str:
    """Return the argument that sets a direction in the libraries of boosted trees."""
    by_name = f"{{{name!r}: {sign}}}"
    text = (
        f"Fit with the constraint: `monotonic_cst={by_name}` in HistGradientBoosting of "
        f"scikit-learn, `monotone_constraints={by_name}` in XGBoost"
    )
    if len(names) <= MOST_NAMES:
        by_place = [sign if each == name else 0 for each in names]
        text += f", `monotone_constraints={by_place}` in LightGBM"
    return f"{text}."
