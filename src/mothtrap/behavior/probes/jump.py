"""BEH104: the output jumps at one value of a column."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.confirm import correlation
from mothtrap.behavior.curves import Floats, individual, some_rows
from mothtrap.behavior.probe import REFUTED, Probe, Suspicion, percent
from mothtrap.behavior.subject import Subject
from mothtrap.behavior.table import MAX_DISTINCT, Column, Table
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

ROWS = 64
STEPS = 100
CODE_SHARE = 0.005
"""Share of the rows with the same extreme value from which it may be a code; chosen by hand."""
CODE_GAP = 1.0
"""Distance of a code from the other values, relative to their whole range; chosen by hand."""
FLAT = 0.5
"""Share of tiny steps without any change from which a model counts as piecewise constant."""
NEARLY_LINEAR = 0.25
"""Distance from a linear change, as a share of the change, up to which a model is smooth. Trees
give the output of one of the two ends halfway to a code, which is half of the change away from the
mean."""
TINY = 1e-5
"""Tiny step as a share of the range. A forest of 100 trees has some thousand thresholds per column,
so nearly all such steps leave its output as it is; chosen by hand."""
SEEN = 1e-3
"""Change of the output, as a share of its range, from which a step of 1 % counts as a change."""
EVERY = 4
PARTS = 16
AT_ONE_PLACE = 0.5
"""Share of a step's change in one of its 16 parts from which this part counts as a jump. A sure
model is steep and spreads its change over the parts; chosen by hand."""


@frozen
class Jump(Probe):
    """The output jumps at one value of a column.

    What it detects:
        Codes, such as -999 for a missing value: one value that many rows have, that is far from
        all others, and that the model treats as a number. For smooth models, also any step of 1 %
        of the range of a column at which the output jumps.

    Why it matters:
        There are no data between a code and the nearest real value. The predictions in between are
        arbitrary, and a missing value is treated as a very small number.

    Fires:
        When, in more than 10 % of 64 rows, the output changes by more than 25 % of its range
        between a code and the nearest real value, or within one step of a smooth model. Also when
        the output changes linearly from the real values to a code, and the column explains
        10 % of the variance of the residuals in the other rows: the code hides their effect.

    Stays quiet:
        Trees, which jump by design, except at codes. Columns of at most 10 values. Steep models,
        whose output changes in every part of a step.

    What to do:
        - Mark missing values as missing (NaN) if the model accepts them. Otherwise fill in the
          median, and add a column that says where the value is missing.
        - Replace bins by splines if the jump is at the edge of a bin.
    """

    code = "BEH104"
    severity = Severity.WARNING

    least: float = threshold(0.25, unit="share of the output's range", source="chosen by hand")
    rows_share: float = threshold(0.1, unit="share of the rows", source="chosen by hand")
    least_missed: float = threshold(0.1, unit="R2", source="as in BEH203")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Follow the output along each numeric column."""
        subject.require_columns()
        rows = some_rows(subject, ROWS)
        jumps, flat, smooth = [], 0, 0
        for column in subject.table.columns:
            if not column.is_number or len(np.unique(column.known_R)) <= MAX_DISTINCT:
                continue
            code = code_of(column)
            if code is not None:
                yield from self._at_code(subject, column, *code)
            known = column.known_R if code is None else column.known_R[column.known_R != code[0]]
            grid_G = np.linspace(known.min(), known.max(), STEPS + 1)
            output_RG = individual(subject, rows, column.name, grid_G)
            step_RG = np.abs(np.diff(output_RG, axis=1))
            unchanged = self._unchanged(subject, rows, column.name, output_RG, grid_G)
            if unchanged is not None:
                flat, smooth = flat + (unchanged > FLAT), smooth + (unchanged <= FLAT)
            large_RG = step_RG > self.least * subject.output_range
            place = int(large_RG.sum(axis=0).argmax())
            if large_RG[:, place].mean() <= self.rows_share:
                continue
            parts_G = np.linspace(grid_G[place], grid_G[place + 1], PARTS + 1)
            jump_R = large_RG[:, place] & _at_one_place(subject, rows, column.name, parts_G)
            share = float(jump_R.mean())
            if share > self.rows_share:
                size = float(np.median(step_RG[jump_R, place]))
                jumps.append((column.name, grid_G, place, share, size))
        if flat < smooth:
            yield from (self._suspicion(*jump) for jump in jumps)

    def _unchanged(
        self, subject: Subject, rows: Table, name: str, output_RG: Floats, grid_G: Floats
    ) -> float | None:
        """Return the share of tiny steps without a change, among steps of 1 % with a change.

        The output of a smooth model changes in every part of a step, the output of trees only at a
        threshold.
        """
        seen_RG = np.abs(np.diff(output_RG, axis=1))[:, ::EVERY] > SEEN * subject.output_range
        if not seen_RG.any():
            return None
        finest = float(np.spacing(np.float32(np.abs(grid_G).max())))  # models may use float32
        tiny = max(TINY * float(grid_G[-1] - grid_G[0]), 4 * finest)
        moved_RG = individual(subject, rows, name, grid_G[:-1:EVERY] + tiny)
        change_RG = np.abs(moved_RG - output_RG[:, :-1:EVERY])
        return float((change_RG[seen_RG] < 1e-9 * subject.output_range).mean())

    def _at_code(
        self, subject: Subject, column: Column, code: float, nearest: float
    ) -> Iterator[Suspicion]:
        rows = subject.table.take(subject.asked)
        rows = rows.take(np.flatnonzero(rows.column(column.name).number_R == code)[:ROWS])
        if not len(rows):
            return
        middle = float(np.median(column.known_R[column.known_R != code]))
        output_RG = individual(subject, rows, column.name, np.array([code, nearest, middle]))
        change_R = np.abs(output_RG[:, 1:] - output_RG[:, :1]).min(axis=1)
        share = float((change_R > self.least * subject.output_range).mean())
        if share > self.rows_share:
            where = np.flatnonzero(column.number_R == code)
            yield Suspicion(
                message=f"{len(where):,} rows have {column.name} = {code:g}, far from all other "
                f"values (the nearest is {nearest:.4g}), and the output differs by "
                f"{np.median(change_R):.3g} from the output at real values: {code:g} looks like a "
                "code that the model treats as a number",
                features=(column.name,),
                rows=subject.judged.rows_R[where],
                exact=True,
                evidence={"n": len(rows), "value": code, "reference": nearest, "share": share},
            )
        elif _is_linear_between(subject, rows, column, code, nearest):
            yield from self._hidden_by_code(subject, column, code, nearest)

    def _hidden_by_code(
        self, subject: Subject, column: Column, code: float, nearest: float
    ) -> Iterator[Suspicion]:
        """Report a code that is so far away that a smooth model ignores the other values."""
        if subject.reading.form == "labels":
            return
        assert column.number_R is not None
        real_R = np.isfinite(column.number_R) & (column.number_R != code)
        residual_R = subject.judged.residual_R
        propose_R, confirm_R = real_R & subject.propose_R, real_R & subject.confirm_R
        sign = np.sign(correlation(column.number_R[propose_R], residual_R[propose_R])[0])
        found, p = correlation(sign * column.number_R[confirm_R], residual_R[confirm_R])
        if found <= 0 or found**2 < self.least_missed:
            yield REFUTED
            return
        where = np.flatnonzero(column.number_R == code)
        yield Suspicion(
            message=f"{len(where):,} rows have {column.name} = {code:g}, far from all other values "
            f"(the nearest is {nearest:.4g}); the model treats {code:g} as a number, and misses "
            f"the effect of the other values: {column.name} explains {percent(found**2)} of the "
            "variance of their residuals",
            p=p,
            features=(column.name,),
            rows=subject.judged.rows_R[where],
            evidence={"n": int(confirm_R.sum()), "value": code, "missed": found**2},
        )

    def _suspicion(
        self, name: str, grid_G: Floats, place: int, share: float, size: float
    ) -> Suspicion:
        low, high = float(grid_G[place]), float(grid_G[place + 1])
        return Suspicion(
            message=f"the output jumps by {size:.3g} between {name} = {low:.4g} and "
            f"{high:.4g} in {percent(share)} of the rows",
            features=(name,),
            exact=True,
            evidence={"value": low, "reference": high, "share": share},
        )


def _at_one_place(
    subject: Subject, rows: Table, name: str, parts_G: Floats
) -> npt.NDArray[np.bool_]:
    """Return for each row whether most of a step's change is in one part of the step."""
    change_RG = np.abs(np.diff(individual(subject, rows, name, parts_G), axis=1))
    return np.asarray(change_RG.max(axis=1) > AT_ONE_PLACE * change_RG.sum(axis=1))


def _is_linear_between(
    subject: Subject, rows: Table, column: Column, code: float, nearest: float
) -> bool:
    """Return whether the output halfway between a code and the real values is the mean of both."""
    grid_G = np.array([code, (code + nearest) / 2, nearest])
    first_R, half_R, last_R = individual(subject, rows, column.name, grid_G).T
    change_R = np.abs(last_R - first_R)
    bend_R = np.abs(half_R - (first_R + last_R) / 2)
    return bool(np.median(bend_R) < NEARLY_LINEAR * np.median(change_R))


def code_of(column: Column) -> tuple[float, float] | None:
    """Return a value that looks like a code, and the nearest other value; None if there is none."""
    values, counts = np.unique(column.known_R, return_counts=True)
    if len(values) <= MAX_DISTINCT:
        return None
    for place, near, others in ((0, 1, values[1:]), (-1, -2, values[:-1])):
        gap = abs(float(values[place] - values[near]))
        spread = float(np.ptp(others)) or 1.0
        many = counts[place] >= max(2, CODE_SHARE * counts.sum())
        if many and gap > CODE_GAP * spread:
            return float(values[place]), float(values[near])
    return None
