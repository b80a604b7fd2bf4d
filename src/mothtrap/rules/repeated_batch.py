"""DAT507: one pass over the data gives the same batch twice."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import BatchesLoaded
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window

WITHOUT_REPLACEMENT = ("sequential", "shuffled")


@dataclass(frozen=True)
class RepeatedBatch(Rule):
    """One pass over the data gives the same batch twice.

    What it detects:
        Batches that are equal to an earlier one of the same pass, bit by bit, though
        the loader draws every sample once, or its workers should share the data.

    Why it matters:
        An epoch is not what it seems: with several workers that all read the whole
        stream every sample counts several times, epochs take that many times longer,
        and schedules and validation come too late.

    Fires:
        Error when at least `batches` batches, and `share` of a pass, were given before in
        it: by a loader whose sampler draws without replacement, or by a stream
        (`IterableDataset`) that several workers read. Of a stream at least `stream_part` must
        repeat of what would if every worker read all of it: 1/2 with two workers, 3/4 with
        four.

    Stays quiet:
        Samplers with replacement or of one's own, streams read by one process, the same
        batch in another pass, data sliced by hand (full-batch training, replay),
        batches whose rows are all the same, and batches of a single row: equal rows lie in the
        data themselves.

    What to do:
        - Give every worker its own part of the stream: `torch.utils.data.get_worker_info()`
          in `__iter__` says which worker of how many it is.
        - Look at `__getitem__` and `__len__` of the data set: an index that is cut off or
          ignored returns the same samples again.
        - Remove files that are listed twice.

    Example:
        def __iter__(self):
            yield from self.lines                        # each of 4 workers reads all lines
            info = get_worker_info()
            yield from self.lines[info.id :: info.num_workers]

    References:
        https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset
    """

    code = "DAT507"
    needs = (Need(facts=(BatchesLoaded,)),)
    explains = (
        "overfit",
        "overtraining",
    )

    batches: int = threshold(
        3, unit="batches given before in the pass", source="chosen by hand: files listed twice"
    )
    share: float = threshold(0.1, unit="of the batches of the pass", source="chosen by hand")
    stream_part: float = threshold(
        0.7,
        unit="of the batches that repeat when each worker reads the whole stream",
        source="chosen by hand: at the end of a pass some workers are behind",
    )

    def check(self, window: Window) -> list[Finding]:
        """Judge the passes whose batches were compared."""
        passes = list(window.seen(BatchesLoaded))
        if not passes:
            raise NotEnoughData("no loader was gone through to its end, nor gave a batch twice")
        judged = [found for found in passes if _draws_once(found)]
        if not judged:
            raise NotApplicable("every loader may draw a sample twice")
        repeated = [
            found
            for found in judged
            if found.repeated >= self.batches and found.repeated >= self._least(found)
        ]
        return [self._finding(window, repeated)] if repeated else []

    def _least(self, found: BatchesLoaded) -> float:
        """Return how many batches of a pass must be repeated for the loader to be the cause."""
        if found.sampler != "iterable":
            return self.share * found.batches
        # Each of W workers that read the whole stream gives all of it once.
        return self.stream_part * (1 - 1 / found.workers) * found.batches

    def _finding(self, window: Window, repeated: list[BatchesLoaded]) -> Finding:
        first = min(repeated, key=lambda found: found.step)
        worst = max((f for f in repeated if f.loader == first.loader), key=lambda f: f.batches)
        reason = f"though its sampler draws every sample once ({worst.sampler})"
        if worst.sampler == "iterable":
            reason = f"because its {worst.workers} workers read the same stream"
        return self.finding(
            window,
            severity=Severity.ERROR,
            step=first.step,
            last_step=max(found.step for found in repeated),
            count=len(repeated),
            message=(
                f"{worst.repeated} of {worst.batches} batches of one pass of {worst.loader} "
                f"were given before in the same pass, {reason}"
            ),
            evidence={
                "repeated": worst.repeated,
                "batches": worst.batches,
                "sampler": worst.sampler,
                "workers": worst.workers,
            },
            location=worst.location,
        )


def _draws_once(found: BatchesLoaded) -> bool:
    if found.repeated and found.rows == 1:
        return False
    if found.sampler == "iterable":
        return found.workers > 1
    return found.sampler in WITHOUT_REPLACEMENT
