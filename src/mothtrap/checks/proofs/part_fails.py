"""PRE601: a part of the script fails, or gives other batches, when it runs alone."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mothtrap.checks.check import Check
from mothtrap.checks.subject import Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold


@frozen
class PartFails(Check):
    """A part of the script fails when it runs alone.

    What it detects:
        An exception in the data loading (`--part data`), or in the code around the steps, such as
        evaluation, logging, and checkpoints (`--part callbacks`). The model returns recorded
        outputs and computes nothing, so that the other code runs early.

    Why it matters:
        Code at the end of an epoch runs for the first time after hours. If it fails, the epoch is
        lost.

    Fires:
        Error when an exception ends the script. Warning when batches have more than `forms`
        different structures (types and shapes of their arrays).

    Stays quiet:
        Without `--part data` or `--part callbacks`.

    What to do:
        - Fix the error at the named line, and check the part again.

    Example:
        torch.save(model.state_dict(), f"missing_folder/{epoch}.pt")

    References:
        http://karpathy.github.io/2019/04/25/recipe/
    """

    code = "PRE601"
    title = "a part of the script fails"
    passed = "the part runs alone"
    costs = 0
    forms: int = threshold(1, unit="numbers and types of arrays", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Report the result of running the part alone."""
        seen = subject.part
        if seen is None:
            raise NotApplicable("only --part data and --part callbacks run a part alone")
        subject.figures["steps"] = seen.turns
        if seen.part == "data":
            subject.figures["seconds per batch"] = float(np.median(seen.seconds or [0.0]))
            subject.figures["slowest"] = max(seen.seconds, default=0.0)
        else:
            subject.figures["epochs"] = seen.epochs
            subject.figures["evaluation batches"] = seen.evaluations
            subject.figures["files written"] = len(seen.files)
        if seen.error:
            yield Found(
                step=0,
                severity="error",
                message=(
                    f"with --part {seen.part}, the script failed after {seen.turns} steps: "
                    f"{seen.error}"
                ),
                location=seen.location,
                evidence={"steps": seen.turns, "epochs": seen.epochs},
            )
        elif len(seen.forms) > self.forms:
            yield Found(
                step=0,
                severity="warning",
                message=f"batches have {len(seen.forms)} structures: {'; '.join(seen.forms[:3])}",
                location=seen.location,
                evidence={"forms": len(seen.forms)},
            )
