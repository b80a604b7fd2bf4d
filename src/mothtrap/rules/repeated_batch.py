"""DAT507: one pass over the data returns the same batch twice."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import BatchesLoaded, LoaderBegan, OneBatchUsed
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window

WITHOUT_REPLACEMENT = ("sequential", "shuffled")
CHANCE = 4.0
"""Multiple of the number of repeated batches expected by chance that is still chance. Chosen by
hand: rows are not drawn independently."""


@frozen
class RepeatedBatch(Rule):
    """One pass over the data returns the same batch twice.

    What it detects:
        Batches that are equal, bit for bit, to an earlier batch of the same pass, although the
        loader draws every sample once or its workers should split the data. A stream or generator
        that always returns the same batch. A script that trains on one batch forever, while its
        loader returns others.

    Why it matters:
        If several workers all read the whole stream, every sample counts several times, epochs take
        that many times longer, and schedules and validation come too late. With a generator that
        always returns the same batch, the model trains on that batch only.

    Fires:
        When at least `batches` batches, and `share` of a pass, repeat earlier ones. Error in a
        stream (`IterableDataset`) that several workers read, and if a loader whose sampler draws
        without replacement returns a single batch. Warning if such a loader repeats some batches:
        the same indices are drawn twice, or the dataset returns equal rows for different indices.
        For a stream, at least `stream_part` of the batches that would repeat if every worker read
        all of it must repeat (1/2 with two workers, 3/4 with four). Warning when a stream that one
        process reads, or a generator, has returned the same batch `single` times in a pass and no
        other; info if the batch has more rows than `few`, because it may be all the data, unless a
        variable of the script or its generator holds at least four times as many rows. Error
        when 32 steps or more train on one batch, while the loader returns other batches that the
        model never gets; a custom Keras loop needs 32 inspected steps. Warning when a step in JAX
        gets at least four times as many rows as it trains on, and takes the same ones in 16
        inspected steps. Warning when a JAX script passes the batch of the step before again in at
        least 16 steps, as a new array, although a variable holds at least four times as many rows,
        or it takes the first batch of `next(iter(data))` each time; the latter also in 32 inspected
        steps of a custom Keras loop. Info when only evaluation data repeat, because the data
        contain equal rows.

    Stays quiet:
        Samplers with replacement, and custom samplers. Other streams read by one process. The same
        batch in another pass. Data sliced by hand (full-batch training, replay), except for the
        cases of JAX above. Steps inside `scan` or `fori_loop`. Batches whose rows
        are all the same. Batches of a single row, and data with so few distinct rows that batches
        repeat by chance.

    What to do:
        - PyTorch: Give every worker its own part of the stream: in `__iter__`,
          `torch.utils.data.get_worker_info()` returns the worker's number and the number of
          workers.
        - Keras: Let the generator move on to the next rows: `for i in range(0, len(x), 32): yield
          x[i : i + 32], y[i : i + 32]`.
        - Check `__getitem__` and `__len__` of the dataset: a truncated or ignored index returns the
          same samples again.
        - Remove indices and files that are listed twice.

    Example:
        def __iter__(self):
            yield from self.lines                        # each of 4 workers reads all lines
            info = get_worker_info()
            yield from self.lines[info.id :: info.num_workers]

    References:
        https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset
    """

    code = "DAT507"
    needs = (
        Need(facts=(BatchesLoaded,)),
        Need(facts=(LoaderBegan, OneBatchUsed), optional=True),
    )
    explains = (
        "overfit",
        "overtraining",
    )

    batches: int = threshold(
        3,
        unit="batches that repeat an earlier batch of the pass",
        source="chosen by hand: files listed twice",
    )
    share: float = threshold(0.1, unit="of the batches of the pass", source="chosen by hand")
    stream_part: float = threshold(
        0.7,
        unit="of the batches that repeat when each worker reads the whole stream",
        source="chosen by hand: at the end of a pass some workers lag",
    )

    single: int = threshold(8, unit="batches in a pass, if all are equal", source="chosen by hand")
    few: int = threshold(
        64,
        unit="rows of a batch",
        source=("chosen by hand: a larger batch may be the whole dataset"),
    )

    def check(self, window: Window) -> list[Finding]:
        """Check the passes whose batches were compared."""
        passes = list(window.seen(BatchesLoaded))
        if one := list(window.seen(OneBatchUsed)):
            return [self._for_ever(window, one)]
        if not passes:
            raise NotEnoughData("no loader finished a pass or returned a batch twice")
        stuck = [found for found in passes if self._is_stuck(found)]
        if stuck:
            return [self._one_batch(window, stuck)]
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

    def _is_stuck(self, found: BatchesLoaded) -> bool:
        """Return whether a stream has returned only one batch."""
        only = found.repeated == found.batches - 1
        return found.sampler == "iterable" and only and found.batches >= self.single

    def _for_ever(self, window: Window, used: list[OneBatchUsed]) -> Finding:
        """Check for steps that all train on one batch while the loader returns others."""
        worst = max(used, key=lambda one: one.steps)
        if worst.source:
            return self._passed_again(window, worst)
        if worst.of_rows:
            return self._same_part(window, worst)
        return self.finding(
            window,
            severity=Severity.ERROR,
            step=worst.first_step,
            last_step=worst.step,
            count=worst.steps,
            message=(
                f"{worst.steps} steps trained on the same batch of {worst.loader}, "
                f"which returned {worst.unused} other batches that were not used"
            ),
            fixes=(
                "Call the model with the batch of the loop: `for x, y in loader: model(x)`. The "
                "names in the loop and in the call differ.",
            ),
            evidence={"steps": worst.steps, "unused": worst.unused},
            location=worst.location
            or next(
                (one.location for one in window.seen(LoaderBegan) if one.loader == worst.loader),
                None,
            ),
        )

    def _same_part(self, window: Window, one: OneBatchUsed) -> Finding:
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=one.first_step,
            last_step=one.step,
            count=one.steps,
            message=(
                f"`{one.loader}` gets {one.of_rows} rows, but trained on the same {one.rows} of "
                f"them in {one.steps} inspected steps"
            ),
            fixes=(
                "Let the rows depend on the step: `dynamic_slice_in_dim(x, step * size, size)`, or "
                "indices drawn with a new key in each step.",
            ),
            evidence={"rows": one.rows, "of_rows": one.of_rows, "steps": one.steps},
            location=one.location,
        )

    def _passed_again(self, window: Window, one: OneBatchUsed) -> Finding:
        who = one.loader if " " in one.loader else f"`{one.loader}`"
        if one.of_rows:
            why = f"although `{one.source}` has {one.of_rows} rows"
            fix = (
                "Let the slice depend on the step: `order[i * size : (i + 1) * size]`, not "
                "`order[:size]`."
            )
        else:
            why = f"the first of {one.unused + 1} batches of `{one.source}`, which is iterated anew"
            fix = (
                "Create the iterator once, before the loop: `batches = iter(data)`, then "
                "`next(batches)` in each step."
            )
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=one.first_step,
            last_step=one.step,
            count=one.steps,
            message=(
                f"{who} trained on the same batch of {one.rows} rows as in the step "
                f"before in {one.steps} steps, {why}"
            ),
            fixes=(fix,),
            evidence={"rows": one.rows, "steps": one.steps},
            location=one.location,
        )

    def _one_batch(self, window: Window, stuck: list[BatchesLoaded]) -> Finding:
        first = min(stuck, key=lambda found: found.step)
        known = next((one for one in stuck if one.source), None)
        why = f", although `{known.source}` has {known.of_rows} rows" if known else ""
        return self.finding(
            window,
            severity=Severity.WARNING if first.rows <= self.few or known else Severity.INFO,
            step=max(0, first.step - first.batches + 1),
            last_step=max(found.step for found in stuck),
            count=max(found.batches for found in stuck),
            message=(
                f"{first.loader} returned the same batch {first.batches} times in a row and no "
                f"other batch, so the model trains only on this batch of {first.rows} rows{why}"
            ),
            fixes=tuple(fix for fix in self.fixes(window) if "worker" not in fix),
            evidence={"batches": first.batches, "limit": self.single},
            location=first.location,
        )

    def _finding(self, window: Window, repeated: list[BatchesLoaded]) -> Finding:
        first = min(repeated, key=lambda found: found.step)
        worst = max((f for f in repeated if f.loader == first.loader), key=lambda f: f.batches)
        reason, severity = _reason(worst)
        return self.finding(
            window,
            severity=severity,
            step=first.step,
            last_step=max(found.step for found in repeated),
            count=len(repeated),
            message=(
                f"{worst.repeated} of {worst.batches} batches of one pass of {worst.loader} "
                f"repeat earlier batches of that pass, {reason}"
            ),
            fixes=self._fixes(window, worst),
            evidence={
                "repeated": worst.repeated,
                "batches": worst.batches,
                "sampler": worst.sampler,
                "workers": worst.workers,
            },
            location=worst.location,
        )

    def _fixes(self, window: Window, found: BatchesLoaded) -> tuple[str, ...]:
        """Return the fitting advice: about workers only if they read the same stream."""
        fixes = self.fixes(window)
        if found.sampler == "iterable":
            return fixes
        fixes = tuple(fix for fix in fixes if "worker" not in fix)
        return fixes[::-1] if found.other_indices == 0 else fixes


def _reason(found: BatchesLoaded) -> tuple[str, Severity]:
    """Return why batches repeat, and how severe that is."""
    if found.sampler == "iterable":
        return f"because its {found.workers} workers read the same stream", Severity.ERROR
    severity = Severity.WARNING if found.trained else Severity.INFO
    if found.other_indices == 0:
        return "because the same indices are drawn again", severity
    if not found.trained:
        return "with other indices: the evaluation data contain equal rows", severity
    if found.repeated == found.batches - 1:
        return "so the pass contains only one batch", Severity.ERROR
    if found.other_indices == found.repeated:
        return "although other indices are drawn: the dataset returns equal rows", severity
    return f"though its sampler draws every sample once ({found.sampler})", Severity.ERROR


def _by_chance(found: BatchesLoaded) -> bool:
    """Return whether the data have so few distinct rows that as many batches repeat by chance."""
    pairs = found.batches * (found.batches - 1) / 2
    return found.repeated <= CHANCE * pairs * found.equal_rows ** max(found.rows, 1)


def _draws_once(found: BatchesLoaded) -> bool:
    if found.repeated and (found.rows == 1 or _by_chance(found)):
        return False
    if found.sampler == "iterable":
        return found.workers > 1
    return found.sampler in WITHOUT_REPLACEMENT
