"""PRE201: two starts of the script train differently."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from mothtrap.checks.check import Check
from mothtrap.checks.starts import CANNOT_START, Starts
from mothtrap.checks.subject import Subject
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold


@frozen
class StartsDiffer(Check):
    """Two starts of the script train differently.

    What it detects:
        Losses or weights of the first steps that differ between two starts of the unchanged script.
        The check starts the script once more, up to the same step.

    Why it matters:
        If two runs of the same script differ, you cannot tell whether a result changed because of
        an edit or by chance, and you cannot reproduce a failure.

    Fires:
        Warning when the script sets a seed of its framework, and a loss still differs by more than
        `least` of its value. Otherwise a note: without a seed this is expected, and smaller
        differences come from rounding.

    Stays quiet:
        Scripts that cannot be started again, such as ranks of `torchrun`.

    What to do:
        - PyTorch: Seed every generator before the data and the model are made: `random.seed(0)`,
          `np.random.seed(0)`, `torch.manual_seed(0)`.
        - Keras: Call `keras.utils.set_random_seed(0)` before the data and the model are made.
        - Run `mothtrap doctor RUN` to see which generators were used before they were seeded.

    Example:
        order = list({"cat", "dog", "bird"})   # the order of a set of strings changes

    References:
        https://docs.pytorch.org/docs/stable/notes/randomness.html
    """

    code = "PRE201"
    title = "two starts train differently"
    passed = "two starts of the script train identically"
    costs = 5
    least: float = threshold(
        1e-3, unit="of the loss", source="chosen by hand: above what rounding changes in ten steps"
    )

    def run(self, subject: Subject) -> Iterable[Found]:
        """Compare the losses and weights of two starts."""
        if subject.starts is None:
            raise NotApplicable(subject.missing.get("trials") or CANNOT_START)
        starts = subject.starts()
        first, second = starts.first, starts.second
        count = min(len(first.losses), len(second.losses))
        if not count:
            raise NotEnoughData("no complete step was recorded in both starts")
        subject.figures["steps compared"] = count
        step = _first_difference(first.losses[:count], second.losses[:count])
        if step is not None:
            yield self._found(starts, step)
        elif first.weights != second.weights:
            changed = sum(a != b for a, b in zip(first.weights, second.weights, strict=False))
            yield Found(
                step=0,
                severity="info",
                message=f"the losses of the first {count} steps are equal in two starts of the "
                f"script, but the values of {changed} of {len(first.weights)} parameters are not",
                evidence={"steps": count, "parameters": changed},
            )

    def _found(self, starts: Starts, step: int) -> Found:
        one, other = starts.first.losses[step], starts.second.losses[step]
        count = min(len(starts.first.losses), len(starts.second.losses))
        pairs = zip(starts.first.losses[:count], starts.second.losses[:count], strict=True)
        scale = max((abs(loss) for loss in starts.first.losses if math.isfinite(loss)), default=1.0)
        far = any(not _alike(a, b) and not abs(a - b) <= self.least * scale for a, b in pairs)
        why = "" if starts.seeded else "; the script sets no seed of its framework"
        rounding = "" if far else ", which is as small as rounding"
        return Found(
            step=0,
            severity="warning" if far and starts.seeded else "info",
            message=f"two starts of the script differ from step {step} on: the loss is {one:.6g} "
            f"in one and {other:.6g} in the other{rounding}{why}",
            evidence={"step": step, "first": one, "second": other},
        )


def _first_difference(first: Sequence[float], second: Sequence[float]) -> int | None:
    """Return the first step whose losses are not equal; None if all are."""
    pairs = enumerate(zip(first, second, strict=True))
    return next((step for step, (one, other) in pairs if not _alike(one, other)), None)


def _alike(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))
