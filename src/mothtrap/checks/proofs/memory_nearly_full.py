"""PRE206: the batch that fits into memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

from mothtrap.checks.check import Check
from mothtrap.checks.step import Change
from mothtrap.checks.subject import Subject
from mothtrap.core.errors import NotEnoughData
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

REPEATS = (1, 2, 4, 8)
"""Sizes of a trial's batch, in batches of the script; chosen by hand."""
STEPS = 2
"""Number of steps of a trial: the optimizer has its state after the first step."""
MIB = 1 << 20
NOISE = 2 * MIB
"""Memory that a step may take more or less by chance; chosen by hand."""
LARGEST = 1 << 20
"""Rows above which no batch is proposed; chosen by hand."""


@frozen
class MemoryNearlyFull(Check):
    """A step takes nearly all of the memory.

    What it detects:
        A step that needs more than `most` of the memory of the accelerator, or of the machine if
        the model is trained on the CPU. The check repeats the step with 1, 2, 4, and 8 times the
        rows. From the growth of the memory it computes the largest batch that needs at most `safe`
        of the memory. Its number of rows is a power of two.

    Why it matters:
        If a run is close to the limit, a longer sequence or a larger last batch ends it. On an
        accelerator, a batch that is far smaller than it could be makes a run slow.

    Fires:
        Warning when the present batch needs more than `most` of the memory. A batch fits if it
        needs at most `safe` of the memory. A trial takes at most `seconds`.

    Stays quiet:
        Systems that do not report how much memory a process needed. Linux and CUDA report it.

    What to do:
        - Use a smaller batch, and accumulate gradients over several of them.
        - PyTorch: Use mixed precision, or `torch.utils.checkpoint`.
        - Keras: Use mixed precision: the policy `mixed_bfloat16`.

    Example:
        mothtrap check --select PRE206 train.py

    References:
        https://lightning.ai/docs/pytorch/stable/advanced/training_tricks.html#batch-size-finder
    """

    code = "PRE206"
    title = "the memory is nearly full"
    uses = ("step", "trials")
    passed = "the batch fits into memory"
    costs = 4
    most: float = threshold(0.92, unit="of the memory", source="chosen by hand")
    safe: float = threshold(0.85, unit="of the memory", source="as in batch-size finders")
    seconds: float = threshold(5.0, unit="seconds", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Measure the memory of a step with larger and larger batches."""
        rows = subject.forward.rows
        if not rows:
            raise NotEnoughData("the size of the batch is not known")
        needed: list[tuple[int, float]] = []
        whole = math.nan
        for times in REPEATS:
            trial = subject.step.train(
                Change(repeats=times), STEPS, min(self.seconds, subject.left_s)
            )
            if len(trial.losses) < STEPS or not math.isfinite(trial.memory_bytes):
                break
            used, whole = trial.memory_bytes, trial.limit_bytes
            needed.append((times * rows, used))
            if used > self.safe * whole or subject.left_s < self.seconds:
                break
        if not needed:
            why = f": {trial.ended}" if trial.ended else ""
            raise NotEnoughData(f"the memory of a step could not be measured{why}")
        figures = subject.figures
        figures["rows of the batch"], present = needed[0]
        fits, exact = _rows_that_fit(needed, self.safe * whole)
        figures["rows that fit" if exact else "rows that fit at least"] = fits
        figures["GiB of memory"] = round(whole / 2**30, 1)
        if present > self.most * whole:
            yield Found(
                step=0,
                severity="warning",
                message=f"a step with {rows} rows needs {present / MIB:,.0f} of {whole / MIB:,.0f} "
                f"MiB of memory ({present / whole:.0%})",
                location=subject.forward.location,
                evidence={"bytes": present, "memory": whole, "rows": rows},
            )


def _rows_that_fit(needed: list[tuple[int, float]], most: float) -> tuple[int, bool]:
    """Return the largest power of two of rows that fits, and whether the growth was measured.

    Args:
        needed: rows, and the bytes that a step with them needs; the fewest rows first.
        most: bytes that a step may need.
    """
    rows, used = needed[-1]
    slopes = [
        (later - before) / (more - fewer)
        for (fewer, before), (more, later) in itertools.pairwise(needed)
    ]
    least = NOISE / rows
    slope = max([least, *slopes])
    room = rows + max(0.0, most - used) / slope
    known = slope > least and room < LARGEST
    return 1 << int(math.log2(max(1.0, min(room, LARGEST)))), known
