"""DAT528: a script draws its own batches, and the rows hardly change."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.data import RowsDrawn
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED

LEAST_DISTINCT = 4
"""Minimum number of different rows in a batch."""
LEAST_TINY = 8
"""Minimum number of rows that may be a batch although no larger data are known."""


@frozen
class RowsNotDrawnAgain(Rule):
    """A script draws its own batches, and the rows hardly change.

    What it detects:
        A model that gets the same rows in every step, or whose rows mostly stay from one step to
        the next, although the script has more rows. It covers scripts that take rows of a tensor
        or array without a DataLoader: `x[torch.randint(...)]`, `x[i : i + size]`.

    Why it matters:
        The model trains on few of the rows, or on some of them many times in a row. It fits these
        rows and learns little about the others.

    Fires:
        Warning when all of `steps` batches or more are the same rows, in a new tensor each time,
        and they are at most `part` of the rows of one of the script's variables, and at most `few`
        rows or `tiny` of the variable. Info for the same tensor each time, for more rows, for
        batches from another small part of a variable, and for at least 8 rows in a new tensor if
        no larger variable is known.
        Warning when at least `kept` of the rows were in the previous batch, and this is `excess`
        more than in batches that are far apart. Then the rows must come from an unchanged variable,
        or come back later (`returned`).

    Stays quiet:
        Batches of a loader. Training on all rows of a variable. Inputs that require a gradient, as
        in physics-informed networks. Loops that make a fixed number of steps on each batch. Replay
        buffers and data with equal rows, because their batches share as many rows when they are far
        apart. Data that are replaced, as in on-policy reinforcement learning. Windows that move
        over a series.

    What to do:
        - PyTorch: Draw the rows in each step, inside the loop: `rows = torch.randint(len(x),
          (size,))`.
        - Draw from all rows: `len(x)`, not a fixed number.
        - Do not set the seed inside the loop.

    Example:
        rows = torch.randint(len(x), (32,))            # drawn once, before the loop
        for step in range(1000):
            rows = torch.randint(len(x), (32,))        # drawn in each step

    References:
        Bottou, Curtis, Nocedal 2018, Optimization methods for large-scale machine learning,
        https://arxiv.org/abs/1606.04838
    """

    code = "DAT528"
    title = "rows not drawn again"
    needs = (Need(facts=(RowsDrawn,)),)
    explains = (
        *UNLEARNED,
        "gradient_spike",
        "labels_unrelated",
        "loss_oscillating",
        "loss_spike",
        "overfit",
        "overtraining",
        "too_little_data",
        "train_eval_shift",
    )

    steps: int = threshold(32, unit="steps", source="chosen by hand")
    part: float = threshold(
        0.1, unit="of the rows of a variable", source="chosen by hand: a training part is larger"
    )
    few: int = threshold(
        64, unit="rows", source="chosen by hand: more rows may be a data set on purpose"
    )
    tiny: float = threshold(
        0.01, unit="of the rows of a variable", source="chosen by hand, for more rows than `few`"
    )
    kept: float = threshold(
        0.5,
        unit="of the rows that stay from one step to the next",
        source="measured (bench/ladder.py): at 0.6, the score falls by two standard deviations",
    )
    excess: float = threshold(0.4, unit="of the rows", source="chosen by hand")
    returned: float = threshold(
        0.05, unit="of the rows that come back later", source="chosen by hand"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check the latest counts of every model."""
        latest = {(one.module, one.argument): one for one in window.seen(RowsDrawn)}
        known = [one for one in latest.values() if one.batches >= self.steps]
        if not known:
            raise NotEnoughData(f"no model got {self.steps} batches without a loader")
        found = [self._judge(window, one) for one in known]
        return [finding for finding in found if finding is not None]

    def _judge(self, window: Window, one: RowsDrawn) -> Finding | None:
        if one.distinct < LEAST_DISTINCT:
            return None
        if one.same == one.batches - 1:
            return self._always(window, one)
        changed = one.batches - 1 - one.same
        kept = (one.same + changed * one.kept) / (one.batches - 1)
        fixed = bool(one.source) or one.returned >= self.returned
        much = kept >= self.kept and kept - one.usual >= self.excess and fixed
        runs = one.irregular and one.same >= self.kept * one.batches
        apart = one.kept >= self.kept and one.kept - one.usual >= self.excess and not one.shifted
        if much and (runs or apart):
            return self._stay(window, one, kept)
        return self._part(window, one)

    def _always(self, window: Window, one: RowsDrawn) -> Finding | None:
        """Check for batches that are all the same."""
        anew = one.anew >= one.batches - 1
        share = one.rows / one.source_rows if one.source_rows else 1.0
        if share <= self.part:
            clear = anew and (one.rows <= self.few or share <= self.tiny)
            known = f", out of {one.source_rows:,} in `{one.source}`"
        elif not one.source and anew and LEAST_TINY <= one.rows <= self.few:
            clear, known = False, ""
        else:
            return None
        return self._finding(
            window,
            one,
            Severity.WARNING if clear else Severity.INFO,
            f"{one.module} got the same {one.rows} rows in each of {one.batches} steps{known}",
            rows=one.rows,
            of_rows=one.source_rows,
            limit=self.part,
        )

    def _stay(self, window: Window, one: RowsDrawn, kept: float) -> Finding:
        """Report rows that stay from one batch to the next."""
        return self._finding(
            window,
            one,
            Severity.WARNING,
            f"{kept:.0%} of the rows of {one.module} were also in the batch of the previous step "
            f"({one.same} of {one.batches} batches are the same); if rows were drawn in each "
            f"step, it would be about {one.usual:.0%}",
            kept=kept,
            limit=self.kept,
            usual=one.usual,
            same=one.same,
        )

    def _part(self, window: Window, one: RowsDrawn) -> Finding | None:
        """Check for batches that are drawn from a small part of a variable."""
        expected = min(one.source_rows, one.drawn) / 2
        if not one.source or one.distinct > self.part * expected:
            return None
        return self._finding(
            window,
            one,
            Severity.INFO,
            f"{one.module} got only {one.distinct} of the {one.source_rows:,} rows of "
            f"`{one.source}` in {one.batches} steps, {one.drawn:,} rows in all",
            rows=one.distinct,
            of_rows=one.source_rows,
            limit=self.part,
        )

    def _finding(
        self,
        window: Window,
        one: RowsDrawn,
        severity: Severity,
        message: str,
        **evidence: float,
    ) -> Finding:
        return self.finding(
            window,
            severity=severity,
            step=one.first_step,
            last_step=one.step,
            count=one.batches,
            message=message,
            layers=(one.module,),
            evidence=dict(evidence),
            location=one.location,
        )
