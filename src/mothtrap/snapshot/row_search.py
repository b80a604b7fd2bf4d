"""Find the rows of a batch that make a step fail, by repeating the step with other rows.

A row is **guilty** if the step fails with this row alone, and does not fail without it. "Alone"
only counts if an unsuspected row passes alone: any single row has no deviation over the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from mothtrap.core.replays import ReplayResult

MAX_TRIALS = 64
"""Maximum number of replayed steps for finding rows. Chosen by hand: 8 halvings, and 8 rows
verified.
"""
MAX_GUILTY = 8
"""Maximum number of guilty rows that are searched for. Chosen by hand."""

Evidence = Literal["alone", "left out", "together", "none"]


class Trial(Protocol):
    """Repeats the step with some rows of its batch."""

    def __call__(self, rows: Sequence[int], *, repeat: bool) -> bool | None:
        """Return whether the step fails in the same way.

        Args:
            rows: positions on the first axis, at least one.
            repeat: rows are repeated until the batch has its original size.

        Returns:
            None if it fails in another way, because the script does not accept such a batch.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Guilty:
    """Rows that make the step fail.

    Attributes:
        rows: the guilty rows; empty if no single rows are guilty.
        evidence: `alone`: each row makes the step fail by itself, and without them it does not
            fail; `left out`: without them it does not fail, and single rows could not be tested;
            `together`: only all of them together make it fail; `none`: no particular rows.
        count: number of rows of the batch.
        trials: number of trials.
    """

    rows: tuple[int, ...]
    evidence: Evidence
    count: int
    trials: int

    @property
    def sentence(self) -> str:
        """Return the finding as a sentence for readers."""
        return self.sentence_of(None)

    def sentence_of(self, micro_batch: int | None) -> str:
        """Return the result as a sentence, for one of several micro-batches."""
        named, whole = listed(self.rows), "the step"
        if micro_batch is not None:
            named, whole = f"{named} of micro-batch {micro_batch}", "that micro-batch"
        verb = "reproduces" if len(self.rows) == 1 else "reproduce"
        if self.evidence == "alone":
            each = "alone" if len(self.rows) == 1 else "each alone"
            them = "it" if len(self.rows) == 1 else "them"
            return f"{named} {each} {verb} it; without {them}, {whole} is fine"
        if self.evidence == "left out":
            return f"without {named}, {whole} is fine"
        if self.evidence == "together":
            return f"{named} {verb} it only together, none of them alone"
        return f"no single row of the {self.count} is the cause"


def listed(rows: Sequence[int]) -> str:
    """Return rows as text: `row 3`, `rows 3 and 9`, `rows 1, 3 and 9`."""
    if len(rows) == 1:
        return f"row {rows[0]}"
    return f"rows {', '.join(map(str, rows[:-1]))} and {rows[-1]}" if rows else "no row"


def has_rows_to_blame(watched: ReplayResult) -> bool:
    """Return whether a row search makes sense: not for a single row, or with bad weights."""
    return watched.batch_rows > 1 and not watched.holder.startswith(("weight", "buffer"))


def went_wrong(trial: ReplayResult, watched: ReplayResult, *, closely: bool) -> bool | None:
    """Return whether a trial failed like the whole batch; None if it failed differently.

    Args:
        trial: the step with some rows.
        watched: the step with all of them.
        closely: whether the operation must be the same.
    """
    if not trial.reached:
        return None
    if not trial.exception and not trial.nonfinite:
        return False
    if (trial.micro_batch or 0) > (watched.micro_batch or 0):
        return False  # the tested rows are good, and later ones are also bad
    if (trial.exception is None) is not (watched.exception is None):
        return None
    if trial.exception is not None and watched.exception is not None:
        kinds = [one.exception.partition(":")[0] for one in (trial, watched) if one.exception]
        alike = kinds[0] == kinds[1] and trial.raised_at == watched.raised_at
    else:
        alike = not closely or _place(trial) == _place(watched)
    return True if alike else None


def _place(result: ReplayResult) -> tuple[str | None, str | None, str]:
    return result.operation, result.location, result.holder


def guilty(
    trial: Trial, count: int, candidates: Iterable[int] = (), *, most: int = MAX_TRIALS
) -> Guilty:
    """Find the rows of a batch that make the step fail.

    Args:
        trial: repeats the step with the chosen rows.
        count: number of rows of the batch.
        candidates: rows to try first.
        most: maximum number of trials.
    """
    search = _Search(trial, count, most)
    suspects = tuple(row for row in dict.fromkeys(candidates) if 0 <= row < count)
    if not 0 < len(suspects) < count or not search.is_in_order_without(suspects):
        suspects = search.suspects()
    return search.verdict(suspects)


@dataclass(slots=True)
class _Search:
    trial: Trial
    count: int
    most: int
    trials: int = 0
    _known: dict[tuple[int, ...], bool] = field(default_factory=dict)
    _repeats: bool = False

    def fails(self, rows: Iterable[int]) -> bool:
        """Return whether the step fails with some rows, repeated if too few for a batch."""
        chosen = tuple(sorted(rows))
        if not chosen or len(chosen) == self.count:
            return bool(chosen)
        if chosen not in self._known and self.trials < self.most:
            self._known[chosen] = self._tried(chosen)
        return self._known.get(chosen, False)

    def _tried(self, rows: tuple[int, ...]) -> bool:
        for repeat in (False, True) if not self._repeats else (True,):
            self.trials += 1
            went_wrong = self.trial(rows, repeat=repeat)
            if went_wrong is not None:
                self._repeats = self._repeats or repeat
                return went_wrong
        return False

    def only_repeated(self) -> None:
        """Keep the size of the batch from now on."""
        self._repeats = True
        self._known.clear()

    def is_in_order_without(self, rows: Iterable[int]) -> bool:
        """Return whether the step succeeds without some rows."""
        rest = set(range(self.count)) - set(rows)
        return bool(rest) and not self.fails(rest) and self.trials <= self.most

    def suspects(self) -> tuple[int, ...]:
        """Return rows without which the step succeeds, or a small set that fails together."""
        rest, found = list(range(self.count)), list[int]()
        while len(found) < MAX_GUILTY and rest and self.fails(rest):
            smallest = self.smallest(rest)
            if len(smallest) > 1:
                return tuple(smallest) if not found else ()
            found += smallest
            rest = [row for row in rest if row not in smallest]
            if len(found) == 2 and self._any_row_fails(rest):
                return ()
        return tuple(found) if self.is_in_order_without(found) else ()

    def smallest(self, rows: Sequence[int]) -> list[int]:
        """Return a set of rows that fails, of which no part fails (Zeller, 2002: ddmin)."""
        kept, parts = list(rows), 2
        while len(kept) > 1 and self.trials < self.most:
            size = -(-len(kept) // parts)
            cuts = [kept[at : at + size] for at in range(0, len(kept), size)]
            halves = next((cut for cut in cuts if self.fails(cut)), None)
            if halves is not None:
                kept, parts = halves, 2
                continue
            others = ([row for row in kept if row not in cut] for cut in cuts)
            rest = next((o for o in others if o and len(cuts) > 2 and self.fails(o)), None)
            if rest is not None:
                kept, parts = rest, max(parts - 1, 2)
            elif parts >= len(kept):
                break
            else:
                parts = min(2 * parts, len(kept))
        return kept

    def _any_row_fails(self, rows: Sequence[int]) -> bool:
        return bool(rows) and all(self.fails([row]) for row in (rows[0], rows[-1]))

    def verdict(self, suspects: Sequence[int]) -> Guilty:
        """Describe the fault of the suspected rows."""
        if not suspects:
            return self._guilty((), "none")
        if len(suspects) == self.count:
            return self._guilty((), "none")
        if not self.is_in_order_without(suspects):
            return self._guilty((), "none")
        for _ in range(2):
            if not self._passes_alone(suspects):  # nothing was tested: keep the batch size
                self.only_repeated()
                continue
            alone = tuple(row for row in suspects[:MAX_GUILTY] if self.fails([row]))
            if alone and self.is_in_order_without(alone):
                return self._guilty(alone, "alone")
            if not alone and self.fails(suspects):
                return self._guilty(tuple(suspects), "together")
            break
        return self._guilty(tuple(suspects), "left out")

    def _passes_alone(self, suspects: Sequence[int]) -> bool:
        others = [row for row in range(self.count) if row not in suspects]
        return bool(others) and not self.fails(others[:1])

    def _guilty(self, rows: tuple[int, ...], evidence: Evidence) -> Guilty:
        return Guilty(
            rows=tuple(sorted(rows)), evidence=evidence, count=self.count, trials=self.trials
        )
